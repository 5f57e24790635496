"""Container logs as the CRI runtimes (containerd, CRI-O) write them: `/var/log/pods/...` and `/var/log/containers/...`.

    2026-03-03T16:22:56.299648000Z stdout F [rank3]: RuntimeError: ...

The text goes through the frame of job output; the stamp is the runtime's, in UTC. A line longer than the runtime's
buffer comes as partial pieces (`P`) that end with a full one (`F`): a piece is read together with the pieces before it.
A literal that is cut by the border of two pieces is not found; runtimes cut at 8 or 16 KiB.

Where the path names the pod (`<namespace>_<pod>_<uid>/<container>/0.log`, `<pod>_<namespace>_<container>-<id>.log`),
its job, container and uid become facts of the file (`pipeline.scanning.shipped`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from pipeline.formats.base import Frame, LookBack
from pipeline.formats.sniffing import sample, shares
from pipeline.records.rank_prefix import clean
from pipeline.scanning.lookback import NoBack
from pipeline.scanning.shipped import JOB
from pipeline.stamps import parse_field

_LINE = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([PF])(?::\w+)*(?: (.*)|$)",
    re.DOTALL,
)
#: Most pieces that are joined, and most characters.
_PIECES, _JOINED = 64, 64 * 1024


class Cri:
    """Lines of a container runtime."""

    name = "k8s.cri"
    family = "job"
    progress = True
    joins = True
    marks: tuple[bytes, ...] = JOB.marks

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        found = shares(sample(head), lambda line: "cri" if _LINE.match(line) else None)
        return 0.97 * found.by_name.get("cri", 0.0)

    def frame(self, line: str, back: LookBack) -> Frame:
        m = _LINE.match(line)
        if m is None:
            return Frame(clean(line), ok=False)
        text = m[4] or ""
        before = _pieces(m[2], back)
        inner = JOB.frame(before + text, NoBack())
        extra = {k: v for k, v in inner.extra.items() if k != "utc_offset"}
        return replace(inner, stamp=parse_field(m[1]), extra=extra)

    def mark(self, line: str, frame: Frame) -> dict[str, str]:
        m = _LINE.match(line)
        return JOB.mark((m[4] or "") if m else line, frame)


def _pieces(stream: str, back: LookBack) -> str:
    """The partial pieces of the same stream just before a line."""
    parts: list[str] = []
    size = 0
    for earlier in back.lines():
        m = _LINE.match(earlier)
        if m is None:
            break
        if m[2] != stream:
            continue  # both streams of a container are written to one file
        if m[3] != "P" or len(parts) >= _PIECES or size > _JOINED:
            break
        parts.append(m[4] or "")
        size += len(parts[-1])
    return "".join(reversed(parts))


FORMATS = (Cri(),)
