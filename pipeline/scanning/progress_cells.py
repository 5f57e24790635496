"""Which 64 KiB cells of a job log are read for training progress while it is scanned, and the reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline.formats.base import Frame, LineFormat
from pipeline.runs.progress import read_cell
from pipeline.scanning.lookback import NoBack, decode
from pipeline.scanning.window import Window, first_end
from schemas.facts import CELL, ProgressFact
from schemas.identity import stream_id

#: (up to this cell, every how many cells are read for progress), by absolute cell number: sparser further in.
SAMPLING = ((256, 16), (4096, 64), (1 << 62, 256))
#: Lines that are read of a cell which is only sampled.
_SAMPLE = 120
#: A cell with more hit lines than this is a storm and not read for progress on their account.
STORM = 32
#: Bytes of a line that are read for progress.
_PROGRESS_LINE = 4096


class Cells:
    """Which cells are read for training progress, and the reading.

    Some by absolute number (`SAMPLING`), the source's last two, and around hits that may be fatal (their cell and the
    next one), unless the cell is full of hits.
    """

    def __init__(self, fmt: LineFormat, source_id: str, window: Window, size: int | None) -> None:
        self._fmt, self._source_id, self._w = fmt, source_id, window
        self._last = None if size is None else max(0, size - 1) // CELL
        self._next = window.start // CELL
        self._hits: dict[int, list[int]] = {}
        self._after = -1  # the cell behind one with a fatal hit
        self.facts: list[ProgressFact] = []

    def hit(self, cell: int, *, fatal: bool) -> None:
        entry = self._hits.get(cell)
        if entry is None:
            entry = self._hits[cell] = [0, 0]
        entry[0] += 1
        entry[1] += fatal

    def upto(self, offset: int, *, last: bool) -> None:
        """Reads what is wanted of the cells that lie before `offset`; with `last` the source's end is there."""
        final = max(0, offset - 1) // CELL
        stop = offset // CELL if not last else final + 1
        w = self._w
        for cell in range(self._next, stop):
            count, fatal = self._hits.pop(cell, (0, 0))
            serious = bool(fatal) and count <= STORM
            ending = cell >= self._last - 1 if self._last is not None else last and cell >= final - 1
            if ending or serious or cell == self._after:
                self._read(cell, w.data, w.base, w.have)
            elif cell % next(every for upto, every in SAMPLING if cell < upto) == 0:
                self._read(cell, w.data, w.base, w.have, most=_SAMPLE)
            if serious:
                self._after = cell + 1
        if last and self._last is None and stop - 2 >= 0 and stop - 2 < self._next:
            self._read(stop - 2, w.data, w.base, w.have)  # known only now to be the last but one
        self._next = max(self._next, stop)

    def behind(self, end: int) -> None:
        """Reads the cell behind a range's end if it follows a fatal hit; the next range does not know of it."""
        if self._after * CELL == end:
            data = bytearray(1 + CELL + _PROGRESS_LINE)
            have = self._w.read_at(end - 1, memoryview(data))
            self._read(self._after, data, end - 1, have)

    def _read(self, cell: int, data: bytearray, base: int, have: int, most: int = CELL) -> None:
        begin, stop = cell * CELL - base, min((cell + 1) * CELL - base, have)
        if begin < 0 or begin >= have:
            return
        if begin > 0 and data[begin - 1] not in b"\r\n":
            begin = first_end(data, begin, stop) + 1
            if begin == 0:
                return
        lines: list[tuple[int, str]] = []
        upto = base + begin
        while begin < stop and len(lines) < most:
            end = first_end(data, begin, have)
            end = have if end < 0 else end
            upto = base + end
            if end > begin:
                lines.append((base + begin, decode(data[begin : min(end, begin + _PROGRESS_LINE)])))
            begin = end + 1
        for source_id, mine, frame in self._by_stream(lines):
            fact = read_cell(source_id, cell, mine, frame)
            if fact is not None:
                self.facts.append(replace(fact, upto=upto))

    def _by_stream(
        self, lines: list[tuple[int, str]]
    ) -> list[tuple[str, list[tuple[int, str]], Callable[[str], Frame]]]:
        """(source id, its lines, how one is framed): one for the whole cell, or one a stream with the inner lines."""
        if not getattr(self._fmt, "shipped", False):
            return [(self._source_id, lines, self._frame)]
        inner: dict[str, list[tuple[int, str]]] = {}
        frames: dict[str, dict[str, Frame]] = {}
        for offset, line in lines:
            frame = self._frame(line)
            if frame.stream is not None and frame.stream.progress:
                inner.setdefault(frame.stream.key, []).append((offset, frame.text))
                frames.setdefault(frame.stream.key, {})[frame.text] = frame
        return [(stream_id(self._source_id, key), mine, frames[key].__getitem__) for key, mine in inner.items()]

    def _frame(self, line: str) -> Frame:
        return self._fmt.frame(line, NoBack())
