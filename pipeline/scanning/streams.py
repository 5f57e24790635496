"""Records of shippers that are read as documents, gathered by stream: facts, signals and progress of each.

The same as `line_scan` does for shippers' lines: each stream becomes a source of its own. Places are bytes of the file:
the document's offset and, to keep order, one byte more for each record in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pipeline.formats.base import Frame, LineMatcher, SourceInfo, Stream
from pipeline.formats.kernel_text import marked
from pipeline.runs.progress import read_cell
from pipeline.scanning.context import Context
from pipeline.scanning.mask import secrets
from pipeline.scanning.shipped import JOB
from schemas.facts import CELL, Facts, ProgressFact, SourceFact
from schemas.identity import stream_id
from schemas.moments import bounded

_MARKS = tuple(mark.decode() for mark in JOB.marks)


def stream_fact(shipped: SourceInfo | SourceFact, source_id: str, stream: Stream, context: Context) -> SourceFact:
    """The row of one stream. Its bytes and lines are accounted for in the shipped file's own row."""
    paths = (shipped.inner_path,) if isinstance(shipped, SourceInfo) else shipped.inner_paths
    return SourceFact(
        source_id=source_id,
        inner_paths=tuple(f"{path}!{stream.key}" for path in paths),
        root=shipped.root,
        format=stream.format,
        family=stream.family,
        size=0,
        mtime_us=shipped.mtime_us,
        host=context.host() or stream.host,
        spans=context.spans(),
        clocks=context.clocks(),
        names=context.names(),
        job_ids=tuple(sorted({*stream.job_ids, *context.job_ids})),
        rank_hosts=tuple(sorted(context.rank_hosts)),
        facts=bounded({*stream.facts, *context.told()}),
        note="one stream of a shipped file",
    )


class Streams:
    """Takes framed records in order of their places; gives the facts of all streams."""

    def __init__(self, info: SourceInfo, match: LineMatcher) -> None:
        self._info, self._match = info, match
        self._streams: dict[str, tuple[Stream, Context, LineMatcher]] = {}
        self._steps: dict[str, dict[int, list[tuple[int, str, Frame]]]] = defaultdict(lambda: defaultdict(list))
        self._parts: list[Facts] = []

    def add(self, frame: Frame, offset: int, line: int) -> None:
        stream = frame.stream
        if stream is None:
            return
        known = self._streams.get(stream.key)
        if known is None:
            inner = getattr(self._match, "stream", None)
            match = inner(stream_id(self._info.source_id, stream.key), stream.family) if inner else self._match
            known = self._streams[stream.key] = (stream, Context(), match)
        _, context, match = known
        context.frame(offset // CELL, offset, frame)
        if stream.progress:
            self._steps[stream.key][offset // CELL].append((offset, frame.text, frame))
        for text in frame.text.split("\n"):
            found = match(text, offset=offset, line=line, stamp=frame.stamp, host=frame.host, rank=frame.rank)
            if found.signals:
                self._parts.append(found)
            if stream.family != "job":
                told = marked("", frame)
            else:
                told = JOB.mark(text, frame) if any(mark in text for mark in _MARKS) else {}
            context.mark({name: secrets(value) for name, value in told.items()})

    def facts(self) -> Iterable[Facts]:
        """Rows and progress of the streams. Signals are with the matcher; where it has no streams, they are here."""
        if not hasattr(self._match, "stream"):
            yield from (Facts(signals=part.signals) for part in self._parts)
        for key, (stream, context, _) in sorted(self._streams.items()):
            source_id = stream_id(self._info.source_id, key)
            progress: list[ProgressFact] = []
            for cell, lines in sorted(self._steps[key].items()):
                frames = {text: frame for _, text, frame in lines}
                fact = read_cell(source_id, cell, [(at, text) for at, text, _ in lines], frames.__getitem__)
                if fact is not None:
                    progress.append(fact)
            yield Facts((stream_fact(self._info, source_id, stream, context),), progress=tuple(progress))
