"""`dmesg -J`: one JSON document, list `dmesg` of objects with `pri` (facility * 8 + level), `time` (uptime) and `msg`.

Read as a whole, in any layout (as util-linux prints it, through `jq`, on one line). util-linux pads `time` with blanks;
`caller` may follow. The document is taken apart object by object, so a cut one gives all that came before the cut.
"""

from __future__ import annotations

import json
import re

from pipeline.formats.base import Frame, LineMatcher, SourceInfo
from pipeline.formats.kernel_text import clean, join_split, marked
from pipeline.formats.records import Collector
from schemas.facts import NO_STAMP, Facts, Stamp

_HEAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"dmesg"\s*:\s*\[')
_OBJECT = re.compile(rb'\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")


class DmesgJson:
    """The document of `dmesg -J`."""

    name = "dmesg.json"
    family = "kernel"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        return 0.98 if _HEAD.match(head) else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        head = _HEAD.match(data)
        pos = head.end() if head else 0
        line, counted, end = 1, 0, pos
        earlier: list[Frame] = []
        for m in _OBJECT.finditer(data, pos):
            line, counted, end = line + data.count(b"\n", counted, m.start()), m.start(), m.end()
            frame = _frame(m[0])
            if frame is None:
                out.quarantine(m.start(), len(m[0]), "not a dmesg record: no msg")
                continue
            joined = join_split(frame, reversed(earlier))
            earlier = [*earlier[-7:], frame]
            out.facts.update(f"{key}={value}" for key, value in marked("", joined).items())
            out.matched(match(joined.text, offset=m.start(), line=line, stamp=frame.stamp), frame.stamp)
        if data[end:].strip(b" \t\r\n]},"):
            out.quarantine(end, len(data) - end, "torn dmesg record at the end")
        return out.result()


def _frame(raw: bytes) -> Frame | None:
    """One object; None where it is no message."""
    try:
        fields = json.loads(raw.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    text = fields.get("msg")
    if not isinstance(text, str):
        return None
    try:
        stamp = Stamp("mono", round(float(str(fields["time"]).strip()) * 1_000_000))
    except (KeyError, ValueError, OverflowError):
        stamp = NO_STAMP
    pri = fields.get("pri")
    extra = {"level": _LEVELS[pri & 7]} if isinstance(pri, int) else {}
    return Frame(clean(text.replace("\n", " ")), stamp, extra=extra)


FORMATS = (DmesgJson(),)
