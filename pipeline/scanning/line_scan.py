"""Scanning the lines of one range of a line format: engine on blocks, frames and rules on hit lines, fold, context.

The result depends on the bytes and on the range's borders only through which lines it owns: merging the facts of all
ranges of a source gives the same rows whatever the borders. Everything that looks around a line does so by absolute
offset, within `LOOK_BACK`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from classifiers.matching import MARK
from pipeline.formats.base import Frame, LineFormat, Stream
from pipeline.scanning.context import Context
from pipeline.scanning.fold import Fold, Lines, Shape, Variant, shape, variant
from pipeline.scanning.lookback import Back, Borrower, NoBack, decode
from pipeline.scanning.mask import secrets
from pipeline.scanning.progress_cells import Cells
from pipeline.scanning.shipped import escaped_literals
from pipeline.scanning.texts import PIECE, Texts
from pipeline.scanning.window import Region, Window, first_end, last_end
from schemas.facts import CELL, NO_STAMP, ProgressFact, SignalFact, Stamp
from schemas.identity import short_host, stream_id

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl
    from classifiers.matching.engines import BlockEngine

#: Line numbers are given for hits before this offset; behind it they would cost a second pass. Bytes.
NUMBERED = 64 << 20
#: Beginnings of a source that are kept, so that two sources with one id can be told apart later. Bytes.
HEADS = (4096, 65536)
#: Lines of the head and of the tail that are framed for spans and names.
SAMPLED = 200
#: Shapes that are remembered at one time.
_REMEMBERED = 8192
#: NUL bytes in a row that are worth a word.
_NULS = 16


class Lane:
    """What is gathered for one logical source: the input itself, or one stream of a shipped file."""

    __slots__ = ("context", "family", "fold", "source_id", "stream", "torn")

    def __init__(self, source_id: str, family: str, stream: Stream | None = None) -> None:
        self.source_id, self.family, self.stream = source_id, family, stream
        self.fold = Fold(source_id)
        self.torn: Fold | None = None  # of the line in whose middle the source ends
        self.context = Context(family)

    def facts(self) -> tuple[SignalFact, ...]:
        """All signals."""
        return self.fold.facts() + (self.torn.facts() if self.torn is not None else ())


class LineScan:
    """One pass over the owned lines of a window. Call `run` once, then read the fields.

    source_id, fmt: whose lines, and how they are framed. numbered: number of `\\n` before the range's start, or None.
    size: of the source where known (for its last two cells).
    """

    def __init__(
        self,
        window: Window,
        source_id: str,
        fmt: LineFormat,
        ruleset: RulesetImpl,
        engine: BlockEngine,
        *,
        newlines_before: int | None,
        size: int | None,
    ) -> None:
        self._w, self._source_id, self._fmt = window, source_id, fmt
        self._engine = engine
        escaped = escaped_literals(ruleset) if getattr(fmt, "shipped", False) else ()
        self._marks = (*fmt.marks, *escaped)
        self._hidden: tuple[bytes, ...] = (*getattr(fmt, "hidden", ()), *escaped)
        # job output looks back only where its frame joins lines: its stamps are borrowed here
        self._blind = fmt.progress and not getattr(fmt, "joins", False)
        self._numbers = _Numbers(window, newlines_before)
        self._borrower = Borrower(fmt)
        self._view = memoryview(window.data)
        self._ids_of = engine.rule_ids
        self._joined: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[str, ...]] = {}
        self._variants: dict[tuple[bytes, tuple[str, ...]], Variant] = {}
        self._texts = Texts(ruleset)
        self._cells = Cells(fmt, source_id, window, size) if fmt.progress else None
        self._main = Lane(source_id, fmt.family)
        self._lanes: dict[str, Lane] = {}
        self.newlines = self.signal_lines = self.unparsed_lines = 0
        self.unterminated = False
        self._torn = 0  # index of the line that the source ends in; the region's end where there is none
        self.heads: list[tuple[int, bytes]] = []

    @property
    def main(self) -> Lane:
        """What is the input's own."""
        return self._main

    @property
    def context(self) -> Context:
        return self._main.context

    @property
    def streams(self) -> list[Lane]:
        """The streams of a shipped file, by key."""
        return [lane for _, lane in sorted(self._lanes.items())]

    def _lane(self, frame: Frame) -> Lane:
        stream = frame.stream
        if stream is None:
            return self._main
        lane = self._lanes.get(stream.key)
        if lane is None:
            lane = self._lanes[stream.key] = Lane(stream_id(self._source_id, stream.key), stream.family, stream)
        return lane

    @property
    def progress(self) -> list[ProgressFact]:
        return self._cells.facts if self._cells is not None else []

    def run(self) -> None:
        """Scans all owned lines, then reads the tail if the window came to the source's end."""
        w = self._w
        for region in w.regions():
            self._torn = self._torn_line(region)
            if region.lo == 0 and w.base == 0:
                self._head(region)
                self.heads = [(n, bytes(w.data[:n])) for n in HEADS if w.have >= n]
            self._region(region)
            self._nuls(region)
            if self._cells is not None:
                self._cells.upto(w.base + region.hi, last=False)
        self.unterminated = w.ended and w.have > 0 and w.next_line >= w.total and w.data[w.have - 1] != 10
        if w.ended and w.next_line >= w.total:
            self._tail()
        if self._cells is not None:
            self._cells.upto(w.next_line, last=w.ended and w.next_line >= w.total)
            if w.end is not None and w.next_line >= w.end:
                self._cells.behind(w.end)
        for lane in (self._main, *self.streams):
            for signal in lane.fold.signals():
                lane.context.stamp(signal.first)
                lane.context.stamp(signal.last)

    def _torn_line(self, region: Region) -> int:
        w = self._w
        if not w.ended or region.hi < w.have or w.data[region.hi - 1] in b"\r\n":
            return region.hi
        start = max(region.lo, last_end(w.data, region.lo, region.hi) + 1)
        if getattr(self._fmt, "shipped", False) and w.data[region.hi - 1] in b"}]":
            return region.hi  # a document that is closed is whole
        return start

    # -- hits

    def _region(self, region: Region) -> None:
        """Finds the hit lines of a run of whole lines. In a storm this loop is all that is done for a line."""
        w = self._w
        lo, hi = region.lo, region.hi
        self._numbers.region(lo)
        data = w.data
        found = [(end + lo, anchor) for anchor, end in self._engine.scan(memoryview(data)[lo:hi])]
        found.sort()
        stop, newline, count = lo - 1, -1, len(found)
        rfind, find, together = data.rfind, data.find, self._together
        i = 0
        while i < count:
            end, anchor = found[i]
            floor = stop + 1
            start = rfind(b"\n", floor, end) + 1 or floor
            start = rfind(b"\r", start, end) + 1 or start
            if newline < end:
                newline = find(b"\n", end, hi)
                newline = hi if newline < 0 else newline
            stop = find(b"\r", end, newline)
            stop = newline if stop < 0 else stop
            ids = self._ids_of[anchor]
            i += 1
            while i < count and found[i][0] <= stop:
                ids = together(ids, found[i][1])
                i += 1
            self._line(start, stop, w.base + start, ids)
        self.newlines += self._numbers.finish(hi)

    def _together(self, ids: tuple[str, ...], anchor: int) -> tuple[str, ...]:
        """Ids of the rules of a line with one more anchor on it, sorted."""
        more = self._ids_of[anchor]
        if more == ids:
            return ids
        joined = self._joined.get((ids, more))
        if joined is None:
            joined = self._joined[(ids, more)] = tuple(sorted({*ids, *more}))
        return joined

    def _line(self, start: int, stop: int, offset: int, ids: tuple[str, ...]) -> None:
        """One hit line data[start:stop]."""
        raw = bytes(self._view[start:stop])
        if start >= self._torn:
            self._cut(raw, start, offset, ids)
            return
        cell = offset // CELL
        shaped = shape(raw)
        if shaped is not None:
            known = self._variants.get((shaped[0], ids))
            if known is not None and (not known.clocked or known.context.has_clock(cell)):
                known.hit(shaped[1], offset, self._numbers)
                self.signal_lines += 1
                if known.host:
                    known.context.name(cell, known.host)
                if self._cells is not None:
                    self._cells.hit(cell, fatal=known.fatal)
                return
        self._full(raw, start, offset, ids, shaped)

    def _full(self, raw: bytes, start: int, offset: int, ids: tuple[str, ...], shaped: Shape | None) -> None:
        """Reads one hit line in full."""
        cell = offset // CELL
        asked = MARK in ids and any(mark in raw for mark in self._marks)
        hidden = asked and any(mark in raw for mark in self._hidden)
        if ids == (MARK,) and not hidden:
            if asked:
                line = decode(raw)
                # a marked line may need the one before it: a serial number stands below the address of its GPU
                before = NoBack() if self._fmt.progress else Back(self._w.data, start, self._w.base)
                frame = self._fmt.frame(line, before)
                self._lane(frame).context.frame(cell, offset, frame)
                self._mark(line, frame)
            return
        back = Back(self._w.data, start, self._w.base)
        line = decode(raw)
        # a job log's stamps are borrowed here, where what was found once is found again without a second look
        frame = self._fmt.frame(line, NoBack() if self._blind else back)
        stamp = self._stamp(frame, offset, back, raw)
        host = short_host(frame.host) if frame.host else ""
        lane = self._lane(frame)
        lane.context.frame(cell, offset, frame)
        marked = asked and self._mark(line, frame)
        matches, fatal = self._texts.match(frame.text, lane.family, ids, hidden=hidden)
        if (not matches and ids != (MARK,)) or not frame.ok:
            self.unparsed_lines += 1
        if not matches:
            return
        self.signal_lines += 1
        signals = lane.fold.add(matches, host, frame.rank, stamp, offset, self._numbers)
        if self._cells is not None:
            self._cells.hit(cell, fatal=fatal)
        if shaped is not None and not marked and not back.used and frame.ok:
            made = variant(raw, shaped, stamp, host, frame.rank, frame.text, (matches, signals))
            if made is not None:
                made.clocked, made.fatal, made.context = frame.clock is not None, fatal, lane.context
                if len(self._variants) >= _REMEMBERED:
                    self._variants.clear()
                self._variants[(shaped[0], ids)] = made

    def _cut(self, raw: bytes, start: int, offset: int, ids: tuple[str, ...]) -> None:
        """Reads a hit line in whose middle the source ends: names, ids and numbers in it may be halves.

        What it seems to say is kept apart, until a longer view of the source takes it back (`torn_away`).
        """
        hidden = MARK in ids and any(mark in raw for mark in self._hidden)
        if ids == (MARK,) and not hidden:
            return
        back = Back(self._w.data, start, self._w.base)
        frame = self._fmt.frame(decode(raw), NoBack() if self._blind else back)
        if " " not in frame.text:
            frame = replace(frame, stamp=NO_STAMP)  # the stamp itself may be cut
        lane = self._lane(frame)
        matches, fatal = self._texts.match(frame.text, lane.family, ids, hidden=hidden)
        if (not matches and ids != (MARK,)) or not frame.ok:
            self.unparsed_lines += 1
        if not matches:
            return
        self.signal_lines += 1
        if lane.torn is None:
            lane.torn = Fold(lane.source_id, self._w.total)
        stamp = self._stamp(frame, offset, back, raw)
        lane.torn.add(matches, short_host(frame.host) if frame.host else "", frame.rank, stamp, offset, self._numbers)
        lane.context.stamp(stamp)
        if self._cells is not None:
            self._cells.hit(offset // CELL, fatal=fatal)

    def _stamp(self, frame: Frame, offset: int, back: Back, raw: bytes) -> Stamp:
        stamp = frame.stamp
        if stamp.kind != "none":
            if not back.used:
                self._borrower.saw(offset, stamp, raw)
            return stamp
        if frame.stream is not None:
            return stamp  # the line before may be another stream's
        # a format that looked back itself has its own rule for what a line may borrow
        return stamp if back.used else self._borrower.borrow(offset, back, raw)

    def _mark(self, line: str, frame: Frame) -> bool:
        """Takes in what the format reads from a line that it asked for; False if that is nothing."""
        found = self._fmt.mark(line, frame)
        self._lane(frame).context.mark({name: secrets(value) for name, value in found.items()})
        return bool(found)

    # -- what surrounds the hits

    def _head(self, region: Region) -> None:
        data, at = self._w.data, 0
        limit = min(self._torn, CELL)
        for _ in range(SAMPLED):
            if at >= limit:
                return
            stop = first_end(data, at, region.hi)
            stop = region.hi if stop < 0 else stop
            if stop > at:
                frame = self._fmt.frame(decode(data[at : min(stop, at + PIECE)]), NoBack())
                self._lane(frame).context.frame(0, at, frame)
            at = stop + 1

    def _tail(self) -> None:
        back = Back(self._w.data, self._w.have, self._w.base)
        for count, (_, raw) in enumerate(back.raw()):
            if count >= SAMPLED:
                return
            frame = self._fmt.frame(decode(raw), NoBack())
            if count == 0 and self.unterminated and " " not in frame.text:
                continue
            self._lane(frame).context.stamp(frame.stamp)

    def _nuls(self, region: Region) -> None:
        """Runs of NUL bytes are what an unclean stop leaves behind: the first one of each line is noted."""
        data, at, hi = self._w.data, region.lo, region.hi
        while (at := data.find(0, at, hi)) >= 0:
            at = data.find(bytes(_NULS), at, hi)
            if at < 0:
                return
            self.context.facts.add(f"nul_run={self._w.base + at}")
            stop = first_end(data, at, hi)
            if stop < 0:
                return
            at = stop + 1


class _Numbers(Lines):
    """Line numbers inside a range; lines must be asked for in rising order."""

    def __init__(self, window: Window, before: int | None) -> None:
        self._w, self._known = window, before is not None
        self._count = before or 0
        self._at = self._from = 0
        self._begun = False

    def region(self, lo: int) -> None:
        if not self._begun:
            # the rest of a line that began in an earlier range was skipped, with the newline that ends it
            self._begun = True
            if self._w.base + lo > self._w.start and self._w.data[lo - 1] == 10:
                self._count += 1
        self._at = self._w.base + lo
        self._from = self._count

    def at(self, offset: int) -> int | None:
        if not self._known or offset >= NUMBERED:
            return None
        self._advance(offset)
        return self._count + 1

    def finish(self, hi: int) -> int:
        """Counts the rest of a region; returns how many `\n` it held."""
        self._advance(self._w.base + hi)
        return self._count - self._from

    def _advance(self, offset: int) -> None:
        lo, hi = self._at - self._w.base, offset - self._w.base
        if hi - lo > 4096:
            self._count += int(np.count_nonzero(self._w.array[lo:hi] == 10))
        else:
            self._count += self._w.data.count(b"\n", lo, hi)
        self._at = offset
