"""What the framed lines of a range say about their source, collected so that the cut into ranges never shows.

Counts of host names are the largest of any 64 KiB cell, and of lines with two clocks each cell keeps its first: both
can be merged by maximum and union.
"""

from __future__ import annotations

from pipeline.formats.base import Frame
from schemas.facts import Stamp
from schemas.identity import short_host
from schemas.moments import bounded, line_event, moment_fact

#: Kinds of stamps that a host's wall clock gives.
_WALL = frozenset({"utc", "local", "noyear"})
#: Shorter texts are said over and over.
_TELLING = 24
_MOST_MOMENTS = 4_096


class Context:
    """Spans, clocks, names, ids and facts of one source as far as a range saw it."""

    def __init__(self, family: str = "") -> None:
        # whose lines a log of another clock may hold as well
        self._of_hosts = family in ("kernel", "syslog", "journal")
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._clocks: dict[int, tuple[int, tuple[str, int, int]]] = {}
        self._cell = -1
        self._seen: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self.hosts: set[str] = set()
        self.job_ids: set[str] = set()
        self.rank_hosts: set[tuple[int, str]] = set()
        self.facts: set[str] = set()
        self._moments: set[str] = set()

    def stamp(self, stamp: Stamp) -> None:
        """A stamp that was printed (borrowed ones say nothing new)."""
        kind, us = stamp[0], stamp[1]
        if kind == "none" or stamp[2]:
            return
        if us < self._low.get(kind, us + 1):
            self._low[kind] = us
        if us > self._high.get(kind, us - 1):
            self._high[kind] = us

    def clock(self, cell: int, offset: int, clock: tuple[str, int, int] | None) -> None:
        """A line that carries two clocks."""
        if clock is not None and (cell not in self._clocks or offset < self._clocks[cell][0]):
            self._clocks[cell] = (offset, clock)

    def has_clock(self, cell: int) -> bool:
        return cell in self._clocks

    def name(self, cell: int, host: str) -> None:
        """A host that a line of this cell names. Cells come in rising order."""
        if cell != self._cell:
            self._settle()
            self._cell = cell
        self._seen[host] = self._seen.get(host, 0) + 1

    def _settle(self) -> None:
        for host, n in self._seen.items():
            if n > self._names.get(host, 0):
                self._names[host] = n
        self._seen = {}

    def mark(self, found: dict[str, str]) -> None:
        """What a format's `mark` read from a line (names in `LineFormat.mark`)."""
        for name, value in found.items():
            if name == "host":
                self.hosts.add(short_host(value))
            elif name == "job_id":
                self.job_ids.add(value)
            elif name == "rank_host":
                rank, _, host = value.partition("=")
                if rank.isdigit() and host:
                    self.rank_hosts.add((int(rank), short_host(host)))
            else:
                self.facts.add(f"{name}={value}")

    def spans(self) -> tuple[tuple[str, int, int], ...]:
        return tuple((kind, self._low[kind], self._high[kind]) for kind in sorted(self._low))

    def clocks(self) -> tuple[tuple[str, int, int], ...]:
        return tuple(sorted({clock for _, clock in self._clocks.values()}))

    def names(self) -> tuple[tuple[str, int], ...]:
        self._settle()
        return tuple(sorted(self._names.items()))

    def host(self) -> str:
        return min((h for h in self.hosts if h), default="")

    def frame(self, cell: int, offset: int, frame: Frame) -> None:
        """All that a frame says."""
        self.stamp(frame.stamp)
        self.clock(cell, offset, frame.clock)
        if "utc_offset" in frame.extra:
            self.facts.add(f"utc_offset={frame.extra['utc_offset']}")
        if frame.host:
            host = short_host(frame.host)
            self.name(cell, host)
            stamp = frame.stamp
            if self._of_hosts and stamp.kind in _WALL and not stamp.borrowed and len(frame.text) >= _TELLING:
                self._moment(moment_fact(host, line_event(frame.text), stamp.kind, stamp.us))

    def _moment(self, fact: str) -> None:
        """A line that a log of another clock may hold as well."""
        self._moments.add(fact)
        if len(self._moments) >= _MOST_MOMENTS:
            self.told()

    def told(self) -> set[str]:
        """All facts, with those moments that a source keeps."""
        self._moments = set(bounded(self._moments))
        return self.facts | self._moments
