"""Text that no other format claims: every line is its own message, without stamp or host.

It keeps readable inputs from being quarantined; its score is so low that any format with a reason goes first.
"""

from __future__ import annotations

from pipeline.formats.base import Frame, LookBack
from pipeline.stamps import find_stamp
from schemas.facts import NO_STAMP

_TEXT = bytes({*range(32, 256), 8, 9, 10, 12, 13, 27})
_HIGH = bytes(range(128, 256))


class PlainText:
    """Line format of last resort."""

    name = "text"
    family = "other"
    marks: tuple[bytes, ...] = ()
    progress = False

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        """0.31 for valid, mostly printable UTF-8 or single-byte text, else 0."""
        sample = head[:16384]
        if not sample.strip():
            return 0.0
        printable = 1 - len(sample.translate(None, _TEXT)) / len(sample)
        try:
            sample.decode("utf-8")
        except UnicodeDecodeError as err:
            torn = err.start >= len(sample) - 4
            high = 1 - len(sample.translate(None, _HIGH)) / len(sample)
            if not torn and high > 0.3:
                return 0.0
        return 0.31 if printable >= 0.97 else 0.0

    def frame(self, line: str, back: LookBack) -> Frame:  # noqa: ARG002
        found = find_stamp(line)
        return Frame(line.strip(), found[0] if found else NO_STAMP)

    def mark(self, line: str, frame: Frame) -> dict[str, str]:  # noqa: ARG002
        return {}


FORMATS = (PlainText(),)
