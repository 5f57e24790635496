"""Syslog lines whose stamp begins with the year: SONiC's `/var/log/syslog`, NX-OS's `show logging logfile`.

| line | writer |
|---|---|
| `2026 Mar  3 07:12:09.123456 leaf01 NOTICE swss#orchagent: :- updatePortOperStatus: Port Ethernet0 ...` | SONiC |
| `2026 Mar  3 07:12:09 leaf01 %ETHPORT-5-IF_DOWN_LINK_FAILURE: Interface Ethernet1/14 is down` | NX-OS |

The host is the switch. Stamps are local, without zone; `Frame.extra` keeps level and tag where they are printed.
"""

from __future__ import annotations

import re

from pipeline import stamps
from pipeline.formats.base import Frame, LookBack
from pipeline.formats.kernel_text import MARKS, marked
from pipeline.formats.sniffing import sample
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

_LINE = re.compile(
    r"(?P<year>\d{4}) (?P<rest>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,6})?) (?P<host>[A-Za-z0-9][\w.-]{0,252}) +"
    r"(?:(?P<level>EMERG|ALERT|CRIT|ERR|WARNING|NOTICE|INFO|DEBUG) )?(?P<text>\S.*)$"
)
_TAG = re.compile(r"(?P<tag>[\w#./-]{1,80})(?:\[\d{1,10}\])?: ")


class SyslogYear:
    """Log of a switch, or of another machine with such stamps."""

    name = "syslog.year"
    family = "syslog"
    marks = MARKS
    progress = False

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = sample(head)
        mine = sum(_LINE.match(line) is not None for line in lines)
        return 0.95 if lines and mine * 10 >= len(lines) * 6 else 0.0

    def frame(self, line: str, back: LookBack) -> Frame:  # noqa: ARG002 - each line stands alone
        m = _LINE.match(line)
        if m is None:
            return Frame(line.strip(), ok=False)
        extra = {"level": m["level"].lower()} if m["level"] else {}
        text = m["text"]
        if t := _TAG.match(text):
            extra["tag"], text = t["tag"], text[t.end() :]
        return Frame(text.rstrip(), _stamp(m["year"], m["rest"]), short_host(m["host"]), extra=extra)

    def mark(self, line: str, frame: Frame) -> dict[str, str]:
        return marked(line, frame)


def _stamp(year: str, rest: str) -> Stamp:
    month, day, clock = rest.split()
    found = stamps.parse_field(f"{year}-{_MONTHS.get(month, 0):02d}-{int(day):02d} {clock}")
    return found if found.kind in ("local", "utc") else NO_STAMP


_MONTHS = {
    name: i
    for i, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)
}

FORMATS = (SyslogYear(),)
