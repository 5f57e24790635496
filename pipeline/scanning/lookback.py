"""Earlier lines of a source, nearest first, and the stamp that an unstamped line borrows from them.

Both depend on bytes before the line only, by absolute offset, so the cut into ranges never shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.formats.base import LOOK_BACK, LineFormat
from schemas.facts import NO_STAMP, Stamp

#: What every stamp has: a clock, an epoch, an uptime. Lines without are not framed when a stamp is looked for.
_MAYBE = re.compile(rb"\d\d:\d\d|\d{9}|\[ *\d+\.\d|^\d+,\d+,\d")
#: How many lines that may have a stamp are framed before one gives up.
_TRIES = 64
#: Longest line that is framed while looking for a stamp, bytes.
_LONG = 4096


def decode(raw: bytes | bytearray | memoryview) -> str:
    """A line's text: UTF-8 with U+FFFD for what is not, without NUL bytes and byte order mark."""
    text = str(raw, "utf-8", "replace")
    if "\0" in text:
        text = text.replace("\0", "")
    return text.removeprefix("\ufeff")


class NoBack:
    """Nothing before."""

    def lines(self) -> Iterator[str]:
        return iter(())


class Back:
    """See `pipeline.formats.base.LookBack`. used: whether the format looked, so that its frame depends on more
    than the line.

    data[:stop] holds the bytes before the line, data[0] stands at the absolute offset `base`.
    """

    __slots__ = ("_base", "_data", "_stop", "used")

    def __init__(self, data: bytes | bytearray, stop: int, base: int) -> None:
        self._data, self._stop, self._base = data, stop, base
        self.used = False

    def lines(self) -> Iterator[str]:
        self.used = True
        for _, raw in self.raw():
            yield decode(raw)

    def raw(self) -> Iterator[tuple[int, bytes]]:
        """(absolute offset, line) of the lines that begin in the last `LOOK_BACK` bytes, nearest first."""
        data, stop = self._data, self._stop
        floor = max(0, stop - LOOK_BACK)
        while stop > floor:
            end = stop - 1 if data[stop - 1] in b"\r\n" else stop
            newline = data.rfind(b"\n", floor, end)
            begin = max(newline, data.rfind(b"\r", max(floor, newline + 1), end)) + 1
            if begin == 0:
                if not self._whole(floor):
                    return
                begin = floor
            if end > begin:
                yield self._base + begin, bytes(data[begin : min(end, begin + _LONG)])
            stop = begin

    def _whole(self, at: int) -> bool:
        """Whether a line begins at index `at`."""
        return (at == 0 and self._base == 0) or (at > 0 and self._data[at - 1] in b"\r\n")


class Borrower:
    """The nearest earlier stamp for lines that carry none. Lines must be asked for in rising order of offset.

    What earlier questions found is used again; the answer is the same as that of a fresh look back.
    """

    def __init__(self, fmt: LineFormat) -> None:
        self._fmt = fmt
        self._upto = -1  # the line that was asked for last
        self._tried = 0  # candidates between that line and the stamp that it borrowed, it among them
        self._candidate = False
        self._found_at = -1
        self._found = NO_STAMP

    def saw(self, offset: int, stamp: Stamp, line: bytes) -> None:
        """A line at `offset` whose own stamp this is: lines behind it need not look further."""
        if self._lends(stamp) and _MAYBE.search(line[:_LONG]) is not None:
            self._upto = self._found_at = offset
            self._found, self._tried, self._candidate = stamp, 0, True

    def _lends(self, stamp: Stamp) -> bool:
        """Whether others may borrow it. In job output a bracketed number of seconds is some timer, no clock."""
        return not stamp.borrowed and stamp.kind != "none" and not (stamp.kind == "mono" and self._fmt.progress)

    def borrow(self, offset: int, back: Back, line: bytes) -> Stamp:
        """The stamp of the nearest line before `offset` that has one, marked as borrowed; NO_STAMP if there is none."""
        tried = 0
        for at, raw in back.raw():
            if at <= self._upto:
                tried += self._tried + self._candidate
                break
            if _MAYBE.search(raw) is None:
                continue
            tried += 1
            stamp = self._fmt.frame(decode(raw), NoBack()).stamp if tried <= _TRIES else NO_STAMP
            if tried > _TRIES:
                break
            if self._lends(stamp):
                self._found_at, self._found = at, stamp
                break
        else:
            self._found_at = -1
        self._upto, self._tried = offset, tried
        self._candidate = _MAYBE.search(line[:_LONG]) is not None
        if tried > _TRIES or self._found_at < max(0, offset - LOOK_BACK):
            self._found_at = -1
            self._tried = _TRIES + 1
            return NO_STAMP
        return self._found._replace(borrowed=True)
