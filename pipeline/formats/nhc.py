"""Output and log of node health checks: LBNL's NHC, Azure's checks on top of it, AWS's health agent.

| line | writer |
|---|---|
| `ERROR:  nhc:  Health check failed:  check_hw_ib:  No IB port mlx5_3:1 is ACTIVE (LinkUp 400 Gb/sec).` | nhc |
| `20260303 07:12:09 [slurm] /usr/libexec/nhc/node-mark-offline node017 check_fs_mount: /s not mounted` | nhc.log |
| `Node Health Check starting.`, `Node Health Check completed successfully (0s)` | nhc.log |
| `... HealthMonitoringAgentDetectionEvent ...` | the AWS agent, JSON or text |

A failed check is a line for the rules; the name of the check says what was looked at.
"""

from __future__ import annotations

import re

from pipeline.formats.base import Frame, LookBack
from pipeline.formats.sniffing import sample
from pipeline.stamps import compact, find_stamp
from schemas.facts import NO_STAMP
from schemas.identity import short_host

_LINE = re.compile(
    r"(?:ERROR|DEBUG|WARNING): {1,4}nhc: |Node Health Check (?:starting|completed|failed)|nhc: |"
    r"\[(?:slurm|pbs|sge|lsf|unknown)\] .*node-mark-o|.*HealthMonitoringAgentDetectionEvent"
)
_STAMPED = re.compile(r"(?P<at>\d{8} \d\d:\d\d:\d\d) +(?=\S)")
_OFFLINE = re.compile(r"\[\w+\] \S*node-mark-offline (?P<host>[A-Za-z0-9][\w.-]{0,252}) (?P<text>.*)$")


class Nhc:
    """Node health checks."""

    name = "nhc"
    family = "other"
    marks: tuple[bytes, ...] = ()
    progress = False

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = sample(head)
        mine = sum(_LINE.match(_STAMPED.sub("", line, count=1)) is not None for line in lines)
        return 0.92 if lines and mine * 2 >= len(lines) else 0.0

    def frame(self, line: str, back: LookBack) -> Frame:  # noqa: ARG002 - each line stands alone
        stamp, text = NO_STAMP, line.strip()
        if (m := _STAMPED.match(text)) and (found := compact(m["at"]) or find_stamp(m["at"])):
            stamp, text = found[0], text[m.end() :]
        elif found := find_stamp(text):
            stamp = found[0]
        host = ""
        if m := _OFFLINE.match(text):
            host, text = short_host(m["host"]), f"nhc: Health check failed: {m['text']}"
        return Frame(text, stamp, host)

    def mark(self, line: str, frame: Frame) -> dict[str, str]:  # noqa: ARG002
        return {}


FORMATS = (Nhc(),)
