"""What record formats share: cutting bytes into lines with offsets, and the source's own row. Defines no format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from pipeline.formats.base import SourceInfo
from pipeline.records.telemetry import TelemetryFold
from schemas.facts import Facts, Quarantine, RunFragment, SourceFact, Stamp, merge_facts
from schemas.moments import bounded


class RawLine(NamedTuple):
    """One line: where it begins (bytes), its 1-based number, its bytes' length with the line end, its text without."""

    offset: int
    number: int
    length: int
    text: str


def raw_lines(data: bytes) -> Iterator[RawLine]:
    """All lines of a member. Undecodable bytes become U+FFFD; CRLF counts as LF; a byte order mark is dropped."""
    offset = 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        length = len(raw) + 1
        if offset + length > len(data):
            length = len(data) - offset
            if length == 0:
                return
        text = raw.removesuffix(b"\r").decode("utf-8", "replace")
        yield RawLine(offset, number, length, text.removeprefix("\ufeff") if number == 1 else text)
        offset += length


def spans(stamps: Iterable[Stamp]) -> tuple[tuple[str, int, int], ...]:
    """Smallest and largest microseconds of each kind of stamp."""
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for kind, us, _ in stamps:
        if kind != "none":
            low[kind] = min(us, low.get(kind, us))
            high[kind] = max(us, high.get(kind, us))
    return tuple((kind, low[kind], high[kind]) for kind in sorted(low))


def quarantined(info: SourceInfo, offset: int, length: int, reason: str) -> Quarantine:
    """A part of this member that could not be read."""
    return Quarantine(info.inner_path, info.source_id, offset, length, reason)


class Collector:
    """Gathers what one record format read, and gives it as `Facts` with the source's row."""

    def __init__(self, info: SourceInfo, fmt: str, family: str, data: bytes) -> None:
        self.info, self.fmt, self.family, self.data = info, fmt, family, data
        self.fragments: list[RunFragment] = []
        self.torn: list[Quarantine] = []
        self.parts: list[Facts] = []
        self.stamps: list[Stamp] = []
        self.facts: set[str] = set()
        self.clocks: set[tuple[str, int, int]] = set()  # (kind of wall clock, uptime, wall), microseconds
        self.host = ""
        self.note: str | None = None
        self.signal_lines = 0
        self.telemetry = TelemetryFold(info.source_id)

    def fragment(self, fragment: RunFragment) -> None:
        self.fragments.append(fragment)
        self.stamps += [fragment.submit, fragment.start, fragment.end]

    def quarantine(self, offset: int, length: int, reason: str) -> None:
        self.torn.append(quarantined(self.info, offset, length, reason))

    def matched(self, facts: Facts, stamp: Stamp) -> None:
        """Take in what the rules said about one record."""
        self.stamps.append(stamp)
        if facts.signals:
            self.signal_lines += 1
            self.parts.append(facts)

    def result(self) -> Facts:
        data = self.data
        source = SourceFact(
            source_id=self.info.source_id,
            inner_paths=(self.info.inner_path,),
            root=self.info.root,
            format=self.fmt,
            family=self.family,
            size=len(data),
            mtime_us=self.info.mtime_us,
            host=self.host,
            spans=spans(self.stamps),
            clocks=tuple(sorted(self.clocks)),
            facts=bounded(self.facts),
            lines=data.count(b"\n") + (0 if not data or data.endswith(b"\n") else 1),
            signal_lines=self.signal_lines,
            unparsed_lines=len(self.torn),
            note=self.note,
        )
        own = Facts(sources=(source,), fragments=tuple(self.fragments), quarantine=tuple(self.torn))
        own = replace(own, telemetry=self.telemetry.facts())
        # Only the signals of matched records: their view of the source would be a partial copy of the row above.
        return merge_facts([own, *(Facts(signals=p.signals) for p in self.parts)])
