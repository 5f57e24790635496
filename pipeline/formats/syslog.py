"""Files of syslog daemons: /var/log/messages, syslog, kern.log, and what a collector wrote in the same form.

`syslog.rfc3164` has no year and no zone, `syslog.iso` and `syslog.rfc5424` have both. Lines of all daemons are in it;
`Frame.extra` keeps `tag` and `pid`. Kernel lines that carry the uptime (`kernel: [  218.469999] text`) give a clock
pair. See `syslog_line` for the forms and `journal_short` for the same lines printed by journalctl.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pipeline.formats.base import HEAD, Frame, LookBack
from pipeline.formats.kernel_text import MARKS, marked
from pipeline.formats.sniffing import Shares, sample, shares
from pipeline.formats.syslog_line import frame_line, is_journal_note, split

_JOURNAL_PATH = re.compile(r"(?i)journal")
_PADDED = re.compile(r"[A-Z][a-z]{2} 0\d ")
_FRACTION = re.compile(r"[A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d\.\d{6} ")
_T_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:")
_NO_COLON = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{6})?[+-]\d{4} ")


@lru_cache(maxsize=4)
def look(head: bytes) -> tuple[Shares, bool]:
    """Shares of the headers in a head, and whether journalctl's own signs are in it."""
    lines = sample(head)
    signs = sum(1 for line in lines if _PADDED.match(line) or _FRACTION.match(line) or _NO_COLON.match(line))
    notes = any(is_journal_note(line) for line in lines[:3])
    return shares(lines, _kind), notes or signs > len(lines) / 2


def _kind(line: str) -> str | None:
    parts = split(line)
    if parts is None or not parts.host:
        return None
    if parts.header in ("iso", "unix", "full") and not parts.tag:
        return None
    if parts.header == "iso" and not _T_DATE.search(line[:80]):
        return None  # with a blank it is an application's own logging: `2025-03-04 01:25:26,770 Epoch 0: ...`
    if parts.header == "mono":
        # dmesg has the same bracket; only the kernel's tag or a process id tells a journal line.
        return "mono" if parts.tag == "kernel" or (parts.pid.isdigit() and parts.tag[:1].isalpha()) else None
    return parts.header


class Syslog:
    """One header of syslog or of journalctl's short forms. headers: the names that `syslog_line.split` gives."""

    marks = MARKS
    progress = False

    def __init__(self, name: str, family: str, headers: tuple[str, ...]) -> None:
        self.name = name
        self.family = family
        self._headers = headers

    def sniff(self, head: bytes, inner_path: str) -> float:
        found, journal = look(head[:HEAD])
        mine = sum(found.by_name.get(header, 0.0) for header in self._headers)
        framed = sum(found.by_name.values())
        if framed < 0.3 or mine < framed / 2:
            return 0.0
        if self._headers[0] in ("bsd", "iso"):
            # One and the same line can come from both: journalctl's signs decide, then the name of the file.
            is_journal = journal or _JOURNAL_PATH.search(inner_path) is not None
            if is_journal != (self.family == "journal"):
                return 0.0
        return 0.97 * min(1.0, 0.4 + framed * 0.6)

    def frame(self, line: str, back: LookBack) -> Frame:
        return frame_line(line, back)

    def mark(self, line: str, frame: Frame) -> dict[str, str]:
        return marked(line, frame)


FORMATS = (
    Syslog("syslog.rfc3164", "syslog", ("bsd",)),
    Syslog("syslog.iso", "syslog", ("iso",)),
    Syslog("syslog.rfc5424", "syslog", ("5424",)),
)
