"""Earlier lines of a source, nearest first, and the stamp that an unstamped line borrows from them.

Both depend on bytes before the line only, by absolute offset, so the cut into ranges never shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.formats.base import LOOK_BACK, LineFormat
from schemas.facts import NO_STAMP, Stamp

#: What every stamp has: a clock, a long number, an uptime. Lines without are not framed when a stamp is looked for.
_MAYBE = re.compile(rb"\d:\d\d|\d{6}|\d,\d|\[ *\d+\.\d")
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
    """See `pipeline.formats.base.LookBack`. used: whether the format looked (then its frame depends on more than the line).

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
    """The nearest earlier stamp for lines that carry none. Lines must be asked for in rising order of offset."""

    def __init__(self, fmt: LineFormat) -> None:
        self._fmt = fmt
        self._upto = -1  # offset of the last line that was seen
        self._found_at = -1
        self._found = NO_STAMP

    def saw(self, offset: int, stamp: Stamp) -> None:
        """A stamped line at `offset`: lines behind it need not look further."""
        self._upto = self._found_at = offset
        self._found = stamp

    def borrow(self, offset: int, back: Back) -> Stamp:
        """The stamp of the nearest line before `offset` that has one, marked as borrowed; NO_STAMP if there is none."""
        for at, raw in back.raw():
            if at <= self._upto:
                break
            if _MAYBE.search(raw) is None:
                continue
            stamp = self._fmt.frame(decode(raw), NoBack()).stamp
            if stamp.kind != "none" and not stamp.borrowed:
                self._found_at, self._found = at, stamp
                break
        self._upto = offset
        if self._found_at < 0 or self._found_at < offset - LOOK_BACK:
            return NO_STAMP
        return self._found._replace(borrowed=True)
