"""Line bounds inside a block. `\\n` and `\\r` both end a line (progress bars may never print `\\n`)."""

from __future__ import annotations


def line_bounds(data: bytes | bytearray, inside: int) -> tuple[int, int]:
    """(start, end) of the line whose last matched byte is at `inside - 1`; the line end itself is not in it."""
    start = data.rfind(b"\n", 0, inside) + 1
    start = data.rfind(b"\r", start, inside) + 1 or start  # only inside the line: most blocks have no carriage return
    newline = data.find(b"\n", inside)
    stop = newline if newline >= 0 else len(data)
    carriage = data.find(b"\r", inside, stop)
    return start, carriage if carriage >= 0 else stop
