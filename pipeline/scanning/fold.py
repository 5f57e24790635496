"""Folding: hits of one rule with one identity, one masked text and one minute become one `SignalFact`.

Storms are folded here, while scanning. A line that differs from an earlier one only in the digits of its seconds (and
of its uptime) is recognised by the rest of its bytes: it costs a look-up and a few comparisons, and adds to the same
signals as a full reading of it would. The result is the same as reading every line in full; tests hold that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from classifiers.api import Rule
from pipeline.scanning.context import Context
from pipeline.scanning.mask import secrets, template
from schemas.facts import CELL, MAX_RANKS, SignalFact, Stamp, bucket
from schemas.identity import signal_id

#: Longest text that is kept of a hit, characters.
TEXT = 2000
#: Longest value of a named group that is kept, characters.
FIELD = 500

MINUTE = 60_000_000
_SECONDS = re.compile(rb"\d\d:\d\d:([0-5]\d(?:[.,]\d{1,9})?)(?![\d.,:])")
_UPTIME = re.compile(rb"\[ {0,8}(\d{1,9}\.\d{6})\]")
#: Where in a line a stamp is looked for, bytes.
_FRONT, _NEXT = 96, 160


@dataclass(frozen=True, slots=True)
class Match:
    """One rule's match in a text, ready to be counted under a host and a stamp."""

    rule: str
    key: str
    template: str
    text: str
    fields: tuple[tuple[str, str], ...]


def clip(text: str, fields: Sequence[tuple[str, str]]) -> str:
    """At most `TEXT` characters: the head, or the surroundings of the first field where that lies behind it."""
    if len(text) <= TEXT:
        return text
    for _, value in fields:
        at = text.find(value)
        if at + len(value) > TEXT:
            begin = max(0, min(at - TEXT // 2, len(text) - TEXT + 1))
            return "…" + text[begin : begin + TEXT - 1]
        if at >= 0:
            break
    return text[:TEXT]


def prepare(text: str, found: Sequence[tuple[Rule, dict[str, str]]]) -> tuple[Match, ...]:
    """Matches of a masked text. Fields keep the order of their names."""
    masked = None
    out = []
    for rule, groups in found:
        fields = tuple(sorted((name, _masked(value, text)[:FIELD]) for name, value in groups.items() if value))
        values = dict(fields)
        key = ";".join(f"{name}={values[name]}" for name in sorted(rule.key) if name in values)
        if masked is None:
            masked = template(text)
        out.append(Match(rule.id, key, masked, clip(text, fields), fields))
    return tuple(out)


def _masked(value: str, text: str) -> str:
    """A value without credentials; what stands in the masked text has none."""
    return value if value in text else secrets(value)


class Signal:
    """A signal while it grows. All its stamps are of one kind, because the kind is part of its bucket."""

    __slots__ = (
        "bucket", "cells", "first_borrowed", "first_line", "first_offset", "first_us", "host", "kind", "last_borrowed",
        "last_offset", "last_us", "lead", "match", "ranks",
    )  # fmt: skip

    def __init__(self, match: Match, host: str, when: str, stamp: Stamp, offset: int, line: int | None) -> None:
        self.match, self.host, self.bucket = match, host, when
        self.lead = match
        self.kind = stamp.kind
        self.first_us = self.last_us = stamp.us
        self.first_borrowed = self.last_borrowed = stamp.borrowed
        self.first_offset = self.last_offset = offset
        self.first_line = line
        self.ranks: dict[int, tuple[int, int, int]] = {}
        self.cells: dict[int, int] = {}

    @property
    def first(self) -> Stamp:
        return Stamp(self.kind, self.first_us, self.first_borrowed)

    @property
    def last(self) -> Stamp:
        return Stamp(self.kind, self.last_us, self.last_borrowed)


class Lines:
    """Line numbers on demand: `at(offset)` is 1-based, or None where it is not known."""

    def at(self, offset: int) -> int | None:  # noqa: ARG002
        return None


class Fold:
    """The signals of one source, or of one of its ranges. torn: see `schemas.facts.SignalFact`."""

    def __init__(self, source_id: str, torn: int = -1) -> None:
        self._source_id, self._torn = source_id, torn
        self._signals: dict[tuple[str, str, str, str, str], Signal] = {}

    def __len__(self) -> int:
        return len(self._signals)

    def signal(self, match: Match, host: str, stamp: Stamp, offset: int, lines: Lines) -> Signal:
        """The signal of this identity; made with this hit as its first one where it is new. Counts nothing."""
        when = bucket(stamp, offset)
        identity = (match.rule, match.key, host, match.template, when)
        signal = self._signals.get(identity)
        if signal is None:
            signal = Signal(match, host, when, stamp, offset, lines.at(offset))
            self._signals[identity] = signal
        return signal

    def add(
        self, matches: Sequence[Match], host: str, rank: int | None, stamp: Stamp, offset: int, lines: Lines
    ) -> list[Signal]:
        """Counts one hit line; returns its signals."""
        out = []
        for match in matches:
            signal = self.signal(match, host, stamp, offset, lines)
            count(signal, match, rank, stamp, offset, lines)
            out.append(signal)
        return out

    def signals(self) -> Iterable[Signal]:
        """All signals as they stand."""
        return self._signals.values()

    def facts(self) -> tuple[SignalFact, ...]:
        """All signals, sorted by id."""
        out = [self._fact(identity, signal) for identity, signal in self._signals.items()]
        return tuple(sorted(out, key=lambda f: f.signal_id))

    def fact(self, signal: Signal, seen: tuple[int, ...] = ()) -> SignalFact:
        """One signal as it stands. seen: the addresses of its lines, sorted, where they are told apart by these."""
        match = signal.match
        identity = (match.rule, match.key, signal.host, match.template, signal.bucket)
        if not seen:
            return self._fact(identity, signal)
        cells = Counter([address // CELL for address in seen])
        return self._fact(identity, signal, tuple(sorted(cells.items())), seen)

    def _fact(
        self,
        identity: tuple[str, str, str, str, str],
        signal: Signal,
        counts: tuple[tuple[int, int], ...] | None = None,
        seen: tuple[int, ...] = (),
    ) -> SignalFact:
        rule, key, host, masked, when = identity
        return SignalFact(
            signal_id=signal_id(self._source_id, rule, key, host, masked, when, self._torn),
            source_id=self._source_id,
            rule=rule,
            key=key,
            host=host,
            template=masked,
            bucket=when,
            first=signal.first,
            first_offset=signal.first_offset,
            first_line=signal.first_line,
            last=signal.last,
            last_offset=signal.last_offset,
            text=signal.lead.text,
            fields=signal.lead.fields,
            ranks=tuple(sorted(signal.ranks.values())[:MAX_RANKS]),
            counts=tuple(sorted(signal.cells.items())) if counts is None else counts,
            torn=self._torn,
            seen=seen,
        )


def count(signal: Signal, match: Match, rank: int | None, stamp: Stamp, offset: int, lines: Lines) -> None:
    """One more hit of a signal."""
    cell = offset // CELL
    cells = signal.cells
    cells[cell] = cells.get(cell, 0) + 1
    us = stamp.us
    if us < signal.first_us or (us == signal.first_us and offset < signal.first_offset):
        signal.first_us, signal.first_borrowed = us, stamp.borrowed
        signal.first_offset, signal.first_line = offset, lines.at(offset)
        signal.lead = match
    if us > signal.last_us or (us == signal.last_us and offset > signal.last_offset):
        signal.last_us, signal.last_borrowed, signal.last_offset = us, stamp.borrowed, offset
    if rank is not None:
        keep_rank(signal, (us, offset, rank))


def keep_rank(signal: Signal, entry: tuple[int, int, int]) -> None:
    """Remembers the smallest (us, offset, rank) of each rank; of very many ranks only the smallest are held."""
    ranks = signal.ranks
    known = ranks.get(entry[2])
    if known is None or entry < known:
        if len(ranks) >= 8 * MAX_RANKS:
            signal.ranks = ranks = {e[2]: e for e in sorted(ranks.values())[:MAX_RANKS]}
        ranks[entry[2]] = entry


#: (all bytes of a stamped line but the digits that tell its second, with the minute where only an uptime is printed;
#: microseconds into the minute; whether the stamp is an uptime).
Shape = tuple[bytes, int, bool]


def shape(line: bytes) -> Shape | None:
    """The shape of a line that has a clock or an uptime near its begin; None for others."""
    wall = _SECONDS.search(line, 0, _FRONT)
    if wall is not None:
        a, b = wall.span(1)
        us = int(line[a : a + 2]) * 1_000_000
        if b - a > 3:
            us += int(line[a + 3 : min(b, a + 9)].ljust(6, b"0"))
        up = _UPTIME.search(line, b, b + _NEXT)
        if up is None:
            return line[:a] + b"\0" + line[b:], us, False
        c, d = up.span(1)
        return line[:a] + b"\0" + line[b:c] + b"\0" + line[d:], us, False
    up = _UPTIME.search(line, 0, _FRONT)
    if up is None:
        return None
    c, d = up.span(1)
    minute, us = divmod(int(line[c : d - 7]) * 1_000_000 + int(line[d - 6 : d]), MINUTE)
    return b"%b\0%d\0%b" % (line[:c], minute, line[d:]), us, True


def _taken_out(line: bytes) -> list[str]:
    """The printed clock and uptime that `shape` leaves out."""
    wall = _SECONDS.search(line, 0, _FRONT)
    up = _UPTIME.search(line, 0, _FRONT) if wall is None else _UPTIME.search(line, wall.end(1), wall.end(1) + _NEXT)
    return [found.decode() for found in (wall and wall[0], up and up[1]) if found]


class Variant:
    """All lines of one shape: their signals, and the stamp of their minute."""

    __slots__ = ("_base", "_pairs", "_rank", "clocked", "context", "fatal", "host")

    context: Context  # of the source (or stream) whose lines these are

    def __init__(
        self, base: int, host: str, rank: int | None, matches: Sequence[Match], signals: Sequence[Signal]
    ) -> None:
        self._base, self.host, self._rank = base, host, rank
        self._pairs = tuple(zip(signals, matches, strict=True))
        self.clocked = self.fatal = False

    def hit(self, us: int, offset: int, lines: Lines) -> None:
        """One more line of this shape, `us` microseconds into its minute; the same as `count` with its full reading."""
        us += self._base
        cell = offset // CELL
        for signal, match in self._pairs:
            cells = signal.cells
            cells[cell] = cells.get(cell, 0) + 1
            if us >= signal.last_us and (us > signal.last_us or offset > signal.last_offset):
                signal.last_us, signal.last_borrowed, signal.last_offset = us, False, offset
            if us < signal.first_us:
                signal.first_us, signal.first_borrowed = us, False
                signal.first_offset, signal.first_line = offset, lines.at(offset)
                signal.lead = match
            if self._rank is not None:
                keep_rank(signal, (us, offset, self._rank))


def variant(
    line: bytes,
    shaped: Shape,
    stamp: Stamp,
    host: str,
    rank: int | None,
    text: str,
    pairs: tuple[Sequence[Match], Sequence[Signal]],
) -> Variant | None:
    """The variant of a line that was read in full, or None where its shape does not tell all that the reading did.

    It does if the stamp is exactly the minute plus the seconds that were cut out, and the text holds neither.
    """
    _, us, uptime = shaped
    base = stamp.us - us
    if stamp.borrowed or stamp.kind == "none" or (stamp.kind == "mono") != uptime or base % MINUTE:
        return None
    if any(printed in text for printed in _taken_out(line)):
        return None
    return Variant(base, host, rank, *pairs)
