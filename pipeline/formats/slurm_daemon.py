"""slurmctld.log and slurmd.log: one line a message, `[stamp] level: text`.

All values of LogTimeFormat are read: iso8601(_ms) `[2026-03-03T04:31:07.412]` and thread_id, short
`[Mar 03 04:31:07.412]` without year, rfc5424(_ms) and rfc3339 with an offset, clock (ticks, no time) and omit (no
stamp). The level stays in the text, because it is part of what rules match (`error: Nodes ...`), and is kept as a
field. A tag such as `[4242.batch]` that slurmstepd puts first is stripped and kept as `step`.
Source: SchedMD/slurm doc/man/man5/slurm.conf.5, src/common/log.c.
"""

from __future__ import annotations

import re

from pipeline.formats.base import Frame, LookBack
from pipeline.records.launches import LAUNCH, launched
from pipeline.stamps import bsd, ctime, iso
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

_BRACKET = re.compile(r"\[([^\]]{1,80})\] ?")
_CLOCK = re.compile(r"\d{1,19}")
_LEVEL = re.compile(r"(?:slurmctld|slurmd|slurmstepd|slurmdbd): |(error|fatal|warning|verbose|debug[2-5]?): ")
_STEP = re.compile(r"\[(\d+(?:_\d+)?\.(?:batch|extern|interactive|\d+(?:\+\d+)?))\] ?")
_HEAD = re.compile(
    rb"^(?:\xef\xbb\xbf)?\[(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4,19}\])"
)
_WORDS = re.compile(
    rb"\b(?:JobId=\d|StepId=\d|sched: |sched/|_slurm_rpc_|slurmctld|slurmd\b|slurmstepd|slurmdbd|_job_complete"
    rb"|job_complete:|validate_node_specs|update_node:|drain_nodes:|node_did_resp|_pick_best_nodes|error: Nodes? "
    rb"|backfill:|launch task |task/cgroup|gres/gpu|select/cons|priority/multi|prolog|epilog|cgroup/v|CPUs=\d+ Boards=)"
)
_BOOT = re.compile(r"Node (\S+) unexpectedly rebooted boot_time=(\d{9,11})\b")
_UPTIME = re.compile(r"\bCPUs=\d+ Boards=\d+ .*\bUptime=(\d+)\b")


def read_stamp(text: str) -> Stamp | None:
    """The stamp inside a line's first brackets in any LogTimeFormat; `NO_STAMP` for clock ticks; None if it is none."""
    for read in (iso, bsd, ctime):
        if found := read(text, 0):
            rest = text[found[1] :]
            # thread_id puts process and thread behind the time.
            return found[0] if not rest or rest[0] in " ." else None
    return NO_STAMP if _CLOCK.fullmatch(text) else None


class SlurmDaemon:
    """Logs of Slurm's controller and node daemons."""

    name = "slurm_daemon"
    family = "scheduler"
    marks = (b" unexpectedly rebooted boot_time=", b" Boards=", LAUNCH)
    progress = False

    def sniff(self, head: bytes, inner_path: str) -> float:
        lines = [line for line in head.split(b"\n")[:200] if line.strip()]
        if not lines:
            return 0.0
        stamped = sum(_HEAD.match(line) is not None for line in lines)
        spoken = sum(_WORDS.search(line) is not None for line in lines)
        named = re.search(r"slurm(?:ctld|d|dbd)\b", inner_path) is not None
        if stamped * 10 >= len(lines) * 6:
            return 0.95 if spoken * 5 >= len(lines) or (spoken and named) else 0.8 if named else 0.5 if spoken else 0.0
        return 0.6 if named and spoken * 3 >= len(lines) else 0.0

    def frame(self, line: str, back: LookBack) -> Frame:  # noqa: ARG002
        line = line.rstrip("\r\n")
        stamp, ok, text = NO_STAMP, False, line
        if m := _BRACKET.match(line):
            read = read_stamp(m[1])
            if read is not None:
                stamp, ok, text = read, True, line[m.end() :]
        extra: dict[str, str] = {}
        if m := _STEP.match(text):
            extra["step"], text, ok = m[1], text[m.end() :], True
        if m := _LEVEL.match(text):
            ok = True
            if m[1]:
                extra["level"] = m[1]
        elif not ok and _WORDS.search(text.encode("utf-8", "replace")):
            ok = True  # LogTimeFormat=omit
        return Frame(text, stamp=stamp, extra=extra, ok=ok)

    def mark(self, line: str, frame: Frame) -> dict[str, str]:  # noqa: ARG002
        """`boot:<host>` in UTC microseconds; `boot` of the log's own host (slurmd), in its stamps' frame; launches."""
        if m := _BOOT.search(frame.text):
            return {f"boot:{short_host(m[1])}": str(int(m[2]) * 1_000_000)}
        if (m := _UPTIME.search(frame.text)) and frame.stamp.kind in ("utc", "local"):
            return {"boot": str(frame.stamp.us - int(m[1]) * 1_000_000)}
        return launched(frame)


FORMATS = (SlurmDaemon(),)
