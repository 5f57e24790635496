"""`nvidia-bug-report.log(.gz)`: what NVIDIA's script collects on a host, section by section.

Sections are parted by lines of underscores. Kernel and syslog lines in any of them (dmesg, journal, kern.log) are
framed as in their own formats, `nvidia-smi` sections are read as such (also its telemetry), and so are those of the
fabric manager's log. The same kernel line stands in several sections, with uptime in one and wall time in another:
lines that stand in both tie the two clocks together, and a line is told once, with its wall time. `uname:` says whose
report it is.
Layout as written by nvidia-bug-report.sh of drivers 450 to 580.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.formats import fabricmanager, nvidia_smi
from pipeline.formats.base import Frame, LineMatcher, SourceInfo
from pipeline.formats.dmesg import frame_line as frame_dmesg
from pipeline.formats.kernel_text import MARKS, marked
from pipeline.formats.records import Collector, RawLine, raw_lines
from pipeline.formats.syslog_line import frame_line as frame_syslog
from pipeline.formats.syslog_line import split
from pipeline.stamps import parse_field
from schemas.facts import NO_STAMP, Facts, Stamp
from schemas.identity import short_host

_START = b"Start of NVIDIA bug report log file"
_BREAK = re.compile(r"_{20,}\s*$")
_UNAME = re.compile(r"uname: Linux (?P<host>[A-Za-z0-9][\w.-]{0,252}) ")
_DATE = re.compile(r"[Dd]ate: (?P<at>.{20,40})$")
_SCRIPT = re.compile(r"nvidia-bug-report\.sh Version: (?P<version>\d{1,12})")
_DMESG = re.compile(r"(?:<\d{1,3}>)?\[ *\d{1,9}\.\d{6}\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]")
_HEADERS = frozenset(("bsd", "iso", "5424", "full"))
#: A journal stamps a line when it takes it in: early in a boot, seconds late.
_LATE_US = 30_000_000
_SAME_US = 2_000_000
_MARKS = tuple(mark.decode() for mark in MARKS)
_WALL = ("utc", "local", "noyear")


@dataclass(frozen=True, slots=True)
class _Entry:
    section: int
    line: RawLine
    frame: Frame


class _Nothing:
    def lines(self) -> Iterator[str]:
        return iter(())


_NO_BACK = _Nothing()


class NvidiaBugReport:
    """A bug report of one host."""

    name = "nvidia_bug_report"
    family = "kernel"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        return 0.99 if _START in head[:8192] else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        smi: list[RawLine] = []
        entries: list[_Entry] = []
        section, in_smi, titled = 0, False, True
        for line in raw_lines(data):
            text = line.text
            if _BREAK.match(text):
                section, in_smi, titled = section + 1, False, False
                smi.append(line._replace(text="#"))  # ends what was read before
                continue
            if not titled and text.strip():
                titled, in_smi = True, "nvidia-smi" in text
                continue
            if in_smi:
                smi.append(line)
            elif section <= 1:
                _head(text, out)
            if (frame := _framed(text)) is not None:
                entries.append(_Entry(section, line, frame))
        nvidia_smi.read_lines(iter(smi), out, match)
        _tell(entries, out, match)
        return out.result()


def _head(text: str, out: Collector) -> None:
    if m := _UNAME.match(text):
        out.host = short_host(m["host"])
    elif (m := _DATE.match(text)) and (stamp := parse_field(m["at"].strip())) != NO_STAMP:
        out.stamps.append(stamp)
    elif m := _SCRIPT.match(text):
        out.facts.add(f"bug_report_script={m['version']}")


def _framed(text: str) -> Frame | None:
    """The frame of a line that is a log's; None for all others."""
    if _DMESG.match(text):
        frame = frame_dmesg(text, _NO_BACK)
    elif text.startswith("[") and "] [tid " in text:
        frame = fabricmanager.FORMATS[0].frame(text, _NO_BACK)
    elif text[:1].isalnum() and (parts := split(text)) is not None and parts.header in _HEADERS and parts.tag:
        frame = frame_syslog(text, _NO_BACK)
    else:
        return None
    return frame if frame.ok and frame.text and frame.stamp.kind != "none" else None


def _tell(entries: Sequence[_Entry], out: Collector, match: LineMatcher) -> None:
    repeated = _repeated(entries, out)
    first: dict[tuple[str, str, int], int] = {}
    for i, entry in enumerate(entries):
        frame, line = entry.frame, entry.line
        out.stamps.append(frame.stamp)
        if frame.clock is not None:
            out.clocks.add(frame.clock)
        if any(mark in line.text for mark in _MARKS):
            for name, value in marked(line.text, frame).items():
                out.facts.add(f"{name}={value}") if name != "host" else None
        # sections print the same line with stamps of other precision
        key = (frame.text, frame.stamp.kind, frame.stamp.us // (1 if frame.stamp.kind == "mono" else 1_000_000))
        if i in repeated or first.setdefault(key, entry.section) != entry.section:
            continue
        found = match(frame.text, offset=line.offset, line=line.number, stamp=frame.stamp, host=frame.host)
        out.matched(found, frame.stamp)


def _repeated(entries: Sequence[_Entry], out: Collector) -> set[int]:
    """Entries with uptime whose line stands in a section with wall time too. Adds the pairs of clocks it found."""
    monos: dict[str, list[int]] = defaultdict(list)
    walls: dict[str, list[int]] = defaultdict(list)
    for i, entry in enumerate(entries):
        kind = entry.frame.stamp.kind
        if kind in ("mono", *_WALL):
            (monos if kind == "mono" else walls)[entry.frame.text].append(i)
    pairs = [
        (entries[monos[text][0]].frame.stamp, entries[walls[text][0]].frame.stamp)
        for text in monos.keys() & walls.keys()
        if len(monos[text]) == 1 and len(walls[text]) == 1
    ]
    shift = _shift(pairs)
    if shift is None:
        return set()
    kind, delta = shift
    good = sorted((m.us, w.us) for m, w in pairs if w.kind == kind and abs(w.us - m.us - delta) <= _SAME_US)
    out.clocks.update((kind, mono, wall) for mono, wall in (good[0], good[-1]))
    gone: set[int] = set()
    for text in monos.keys() & walls.keys():
        free = sorted(entries[i].frame.stamp.us for i in walls[text] if entries[i].frame.stamp.kind == kind)
        for i in sorted(monos[text], key=lambda i: entries[i].frame.stamp.us):
            at = entries[i].frame.stamp.us + delta
            k = bisect_left(free, at - _SAME_US)
            if k < len(free) and free[k] <= at + _LATE_US:
                del free[k]  # one line there stands for one line here
                gone.add(i)
    return gone


def _shift(pairs: Sequence[tuple[Stamp, Stamp]]) -> tuple[str, int] | None:
    """(kind of wall clock, wall minus uptime) that most pairs agree on, to the second."""
    votes = Counter((w.kind, (w.us - m.us) // 1_000_000) for m, w in pairs)
    if not votes:
        return None
    # late stamps only add: of equally frequent shifts the smallest is the clock's
    (kind, second), _ = min(votes.items(), key=lambda v: (-v[1], v[0][1], v[0][0]))
    shifts = sorted(w.us - m.us for m, w in pairs if w.kind == kind and (w.us - m.us) // 1_000_000 == second)
    return kind, shifts[len(shifts) // 2]


FORMATS = (NvidiaBugReport(),)
