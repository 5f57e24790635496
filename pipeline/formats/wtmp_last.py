"""`last`, `last -x`, `last -F`: when the machine was started, stopped, and when sessions ended in a crash.

Lines for rules are `last: reboot system boot <kernel>`, `last: session crash <user> <tty>` and
`last: shutdown system down`. Stamps have no year (`Fri Jun 11 09:10`) unless `-F` or `--time-format iso` was given. A
session that ended with its machine is stamped with that end, which the line's own duration gives. Boots are
kept as facts: `boot` in the frame of the stamps, `boot_noyear` where no year is printed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, raw_lines
from pipeline.stamps import DAY, MONTHS, SECOND, iso
from schemas.facts import NO_STAMP, Facts, Stamp

_DOW = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_WHEN = re.compile(
    rf"\b{_DOW} (?P<mon>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) (?P<h>\d\d):(?P<m>\d\d)(?::(?P<s>\d\d))?"
    r"(?: (?P<year>\d{4}))?"
)
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:?\d\d")
_LINE = re.compile(rf"(?P<user>\S+) +(?P<rest>\S.*?)(?= +(?:{_DOW} [A-Z][a-z]{{2}} |\d{{4}}-\d\d-\d\dT))")
_LASTED = re.compile(r"\((?:(?P<d>\d+)\+)?(?P<h>\d\d):(?P<m>\d\d)(?::(?P<s>\d\d))?\)")
_BEGINS = re.compile(r"^(?:wtmp|btmp|/\S*wtmp\S*) begins ")


def _stamp(text: str) -> Stamp:
    """The first time on the line, in its frame."""
    if m := _ISO.search(text):
        found = iso(text, m.start())
        return found[0] if found else NO_STAMP
    m = _WHEN.search(text)
    if m is None or m["mon"].lower() not in MONTHS:
        return NO_STAMP
    try:
        at = datetime(
            int(m["year"] or 2000), MONTHS[m["mon"].lower()], int(m["day"]), int(m["h"]), int(m["m"]),
            int(m["s"] or 0), tzinfo=UTC,
        )  # fmt: skip
    except ValueError:
        return NO_STAMP
    origin = datetime(1970, 1, 1, tzinfo=UTC) if m["year"] else datetime(2000, 1, 1, tzinfo=UTC)
    return Stamp("local" if m["year"] else "noyear", int((at - origin).total_seconds()) * SECOND)


def _lasted(text: str) -> int | None:
    m = _LASTED.search(text)
    if m is None:
        return None
    return int(m["d"] or 0) * DAY + ((int(m["h"]) * 60 + int(m["m"])) * 60 + int(m["s"] or 0)) * SECOND


class WtmpLast:
    """Login history."""

    name = "last"
    family = "syslog"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        lines = [x for x in head.decode("utf-8", "replace").split("\n")[:200] if x.strip()]
        if not lines:
            return 0.0
        good = sum(_LINE.match(x) is not None and _stamp(x) != NO_STAMP for x in lines)
        telling = sum("system boot" in x or "still logged in" in x or _LASTED.search(x) is not None for x in lines)
        ends = any(_BEGINS.match(x) for x in lines)
        return 0.9 if good * 10 >= len(lines) * 7 and (telling * 2 >= len(lines) or ends) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        for line in raw_lines(data):
            text = line.text
            if not text.strip() or _BEGINS.match(text):
                continue
            m, at = _LINE.match(text), _stamp(text)
            if m is None or at == NO_STAMP:
                out.quarantine(line.offset, line.length, "not a line of last")
                continue
            out.stamps.append(at)
            user, rest = m["user"], " ".join(m["rest"].split())
            said, when = "", at
            if user == "reboot" and rest.startswith("system boot"):
                said = f"last: reboot {rest}"
                out.facts.add(f"{'boot_noyear' if at.kind == 'noyear' else 'boot'}={at.us}")
            elif user in ("shutdown", "runlevel"):
                said = f"last: {user} {rest}"
            elif ended := re.search(r" - +(crash|down)\b", text):
                when = Stamp(at.kind, at.us + (_lasted(text) or 0))
                said = f"last: session {ended[1]} {user} {rest}"
            if said:
                out.matched(match(said, offset=line.offset, line=line.number, stamp=when), when)
        return out.result()


FORMATS = (WtmpLast(),)
