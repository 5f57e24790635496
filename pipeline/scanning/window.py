"""The lines of a range, block by block, in one buffer that is used again and again.

A range owns the lines that begin in it: it reads on behind its end for the rest of the last one, and keeps at least
`HISTORY` bytes before every line for looking back. `\\n` and `\\r` both end a line.

A line is cut where it grows too long: at every border of a 64 KiB cell that has no line end in the `CAP` bytes before
it. That depends on absolute offsets only, so all cuts into ranges see the same lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pipeline.sources.model import SourceError
from pipeline.sources.streams import FileStream, Stream
from schemas.facts import CELL

CAP = 1 << 20
HISTORY = 2 * CELL + 1


class Region(NamedTuple):
    """Whole lines data[lo:hi] of the window. cut: it is one line, or a part of one, that was cut for its length."""

    lo: int
    hi: int
    cut: bool


def first_end(data: bytes | bytearray, lo: int, hi: int) -> int:
    """Index of the first line end in data[lo:hi], -1 if there is none."""
    newline = data.find(b"\n", lo, hi)
    carriage = data.find(b"\r", lo, hi if newline < 0 else newline)
    return newline if carriage < 0 else carriage


def last_end(data: bytes | bytearray, lo: int, hi: int) -> int:
    """Index of the last line end in data[lo:hi], -1 if there is none."""
    newline = data.rfind(b"\n", lo, hi)
    return max(newline, data.rfind(b"\r", max(lo, newline), hi))


def _up(offset: int) -> int:
    return -(-offset // CELL) * CELL


class Window:
    """See the module. base: absolute offset of data[0]. have: valid bytes. ended: the stream has no more.

    next_line: absolute offset behind the last line that was given, once `regions` is through.
    """

    def __init__(self, stream: Stream, start: int, end: int | None) -> None:
        self._stream, self.start, self.end = stream, start, end
        self.data = bytearray(HISTORY + CAP + CELL)
        self._view = memoryview(self.data)
        self.array = np.frombuffer(self.data, dtype=np.uint8)
        self.base = self.have = 0
        self.ended = False
        self.next_line = start

    def close(self) -> None:
        self._stream.close()

    @property
    def total(self) -> int:
        """Absolute offset behind the last byte that was read."""
        return self.base + self.have

    def read_at(self, offset: int, into: memoryview) -> int:
        """Bytes at any place of the source, without moving the window; 0 where the stream is forward only."""
        return self._stream.read_at(offset, into) if isinstance(self._stream, FileStream) else 0

    def _fill(self, until: int, keep: int) -> None:
        """Reads up to the absolute offset `until`; keeps `HISTORY` bytes before the absolute offset `keep`."""
        drop = keep - HISTORY - self.base
        if drop > 0 and until - self.base > len(self.data):
            rest = self.have - drop
            self._view[:rest] = self._view[drop : self.have]
            self.base += drop
            self.have = rest
        want = min(until - self.base, len(self.data))
        while self.have < want and not self.ended:
            n = self._stream.readinto(self._view[self.have : want])
            if n == 0:
                self.ended = True
            self.have += n

    def _begin(self) -> tuple[int | None, bool]:
        """(next border where a long line is cut, or None; whether the line there belongs to an earlier range)."""
        start, stream = self.start, self._stream
        if start == 0:
            return None, False
        if not isinstance(stream, FileStream):
            msg = f"range at {start} of a stream that can only be read from its begin: give it one range"
            raise SourceError(msg)
        self.base = stream.pos = max(0, start - HISTORY)
        self._fill(start, start)
        if self.ended or self.data[start - 1 - self.base] in b"\r\n":
            return None, False
        low = max(0, start - CAP)
        at = last_end(self.data, max(0, low - self.base), start - self.base)
        line = (at + self.base if at >= 0 else self._far_end(stream, low, self.base)) + 1
        if line > low or start < CAP:
            return _up(line + CAP), True
        return start + CELL, False

    def _far_end(self, stream: FileStream, low: int, high: int) -> int:
        """Absolute offset of the last line end in [low, high), low - 1 if there is none."""
        if low >= high:
            return low - 1
        far = bytearray(high - low)
        n = stream.read_at(low, memoryview(far))
        at = last_end(far, 0, n)
        return low + at if at >= 0 else low - 1

    def regions(self) -> Iterator[Region]:
        """Runs of whole lines, in order; between two steps `data`, `base` and `have` may be read."""
        border, skipping = self._begin()
        pos, end, data = self.start, self.end, self.data
        while end is None or pos < end:
            self._fill(pos + CAP, pos)
            if self.total <= pos:
                break
            if border is not None:
                hi, border = self._piece(pos, border)
                cut, done = True, border is None or border == self.base + hi + CELL
            else:
                hi, cut = self._whole(pos)
                border, done = (self.base + hi + CELL if cut else None), True
                if end is not None and self.base + hi > end and not cut:
                    at = first_end(data, max(end - 1, pos) - self.base, hi)
                    hi = at + 1 if at >= 0 else hi
            lo, pos = pos - self.base, self.base + hi
            if not skipping:
                yield Region(lo, hi, cut)
            skipping = skipping and not done
        self.next_line = pos

    def _piece(self, pos: int, border: int) -> tuple[int, int | None]:
        """(end index, next border) of a part of a long line: up to its end, or to the border where it is cut."""
        stop = min(border - self.base, self.have)
        at = first_end(self.data, pos - self.base, stop)
        if at >= 0:
            return at + 1, None
        return stop, border + CELL if stop == border - self.base else border

    def _whole(self, pos: int) -> tuple[int, bool]:
        """(end index, False) of the whole lines that are there, or (border, True) where one is too long."""
        at = last_end(self.data, pos - self.base, self.have)
        if at < 0 and not self.ended:
            self._fill(_up(pos + CAP), pos)
            at = first_end(self.data, pos - self.base, self.have)
            if at < 0 and not self.ended:
                return self.have, True
            return (at + 1 if at >= 0 else self.have), False
        return (self.have if self.ended else at + 1), False
