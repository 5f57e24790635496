"""`/var/log/fabricmanager.log`: NVIDIA's daemon that sets up NVSwitches.

Lines are `[Mar 03 2026 07:53:55] [ERROR] [tid 841] text`; what follows without that head belongs to the line above.
Stamps are local, without zone. `mark` reads the driver's version and the start of the daemon.
"""

from __future__ import annotations

import re

from pipeline.formats.base import Frame, LookBack
from pipeline.formats.sniffing import sample
from pipeline.stamps import day_month_year, find_stamp
from schemas.facts import NO_STAMP, Stamp

_LINE = re.compile(
    r"\[(?P<at>[A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d)\] \[(?P<level>[A-Z]{3,9})\] \[tid (?P<tid>\d{1,9})\] "
    r"(?P<text>.*)$"
)
_VERSION = re.compile(r"(?:Fabric Manager version is|driver version)[: ]+(\d{3}\.\d{1,4}(?:\.\d{1,4})?)")


class FabricManager:
    """Log of the fabric manager."""

    name = "fabricmanager"
    family = "other"
    marks: tuple[bytes, ...] = (b"Fabric Manager version is",)
    progress = False

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = sample(head)
        mine = sum(_LINE.match(line) is not None for line in lines)
        # replies to requests are printed on lines of their own
        return 0.95 if mine >= max(1, len(lines) // 4) else 0.0

    def frame(self, line: str, back: LookBack) -> Frame:
        if m := _LINE.match(line):
            return Frame(m["text"].rstrip(), _stamp(m["at"]), extra={"level": m["level"].lower(), "tid": m["tid"]})
        for earlier in back.lines():
            if m := _LINE.match(earlier):
                return Frame(line.strip(), _stamp(m["at"])._replace(borrowed=True))
        return Frame(line.strip(), ok=not line.strip())

    def mark(self, line: str, frame: Frame) -> dict[str, str]:  # noqa: ARG002
        m = _VERSION.search(line)
        return {"fabric_manager_version": m[1]} if m else {}


def _stamp(text: str) -> Stamp:
    found = day_month_year(text) or find_stamp(text)
    return found[0] if found else NO_STAMP


FORMATS = (FabricManager(),)
