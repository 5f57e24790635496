"""An open file: its bytes whatever happens to its name, and marks that tell whether it still holds what was read."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from pipeline.watch.listing import key_of
from schemas.facts import CELL
from schemas.trail import REACH, trail

#: Bytes at the begin and before the position that a mark speaks of.
_HEAD, _BEFORE = 4096, 256
#: How far back the end of a line is looked for; longer lines are cut at borders of cells. Bytes.
_LINE = 1 << 20
#: Cells before the last one whose reading depends on where the file ends.
_BACK = 2


class Opened:
    """A file held open by its descriptor. Raises OSError where it cannot be opened or is another file by now."""

    def __init__(self, path: str, key: str) -> None:
        self._path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        if key_of(os.fstat(self.fd)) != key:
            self.close()
            raise FileNotFoundError(2, "replaced meanwhile", path)

    @property
    def path(self) -> Path:
        """Where others may open the very same file: through the descriptor, where the system offers that."""
        for folder in ("/proc/self/fd", "/dev/fd"):
            through = Path(folder) / str(self.fd)
            if through.exists():
                return through
        return Path(self._path)

    @property
    def signature(self) -> tuple[int, int]:
        """(size, time of modification in ns), now."""
        status = os.fstat(self.fd)
        return status.st_size, status.st_mtime_ns

    def read(self, offset: int, count: int) -> bytes:
        """Bytes at a place, fewer only at the file's end."""
        parts = []
        while count > 0:
            data = os.pread(self.fd, count, offset)
            if not data:
                break
            parts.append(data)
            offset, count = offset + len(data), count - len(data)
        return b"".join(parts)

    def trail(self, size: int) -> str:
        """The trail of the first `size` bytes."""
        return trail(self.read(0, min(size, REACH)))

    def mark(self, position: int) -> str:
        """Names the bytes around a position: equal marks, same content up to there."""
        head = self.read(0, min(_HEAD, position))
        at = max(0, position - _BEFORE)
        h = blake2b(digest_size=12)
        for part in (head, self.read(at, position - at)):
            h.update(len(part).to_bytes(8, "big") + part)
        return h.hexdigest()

    def whole_lines(self, low: int, size: int) -> int:
        """Offset behind the last line end in [low, size), `low` for none; `size` where a line is too long to wait."""
        floor = max(low, size - _LINE)
        at = size
        while at > floor:
            begin = max(floor, at - CELL)
            data = self.read(begin, at - begin)
            end = max(data.rfind(b"\n"), data.rfind(b"\r"))
            if end >= 0:
                return begin + end + 1
            at = begin
        return low if floor == low else size

    def resume_at(self, end: int) -> int:
        """The border from which a longer view must read again, where this one ended at `end`.

        The line that may go on begins behind it, and so do the cells that are read in another way at a file's end.
        """
        line = self.whole_lines(max(0, end - _LINE - CELL), end)
        if line == end and self.read(end - 1, 1) not in (b"\n", b"\r"):
            line = max(0, end - _LINE - CELL)
        return max(0, min(line, end - 1) // CELL - _BACK) * CELL

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
