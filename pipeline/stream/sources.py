"""What is known of the sources of a stream, and when it is written.

The first word about a source goes at once. After that its row is written when there is something new, together with
its progress: soon (`SOON_S`) where signals came, else `HOLD_S` after it was last written. So a source that says
something all the time costs a row every few seconds, and no more. What is held is lost with the process; a restart
reads it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.formats.base import SourceInfo
from pipeline.scanning.context import Context
from pipeline.scanning.streams import stream_fact
from pipeline.stream.messages import ROOT, Origin
from schemas.facts import Facts, ProgressFact, SourceFact, merge_facts

#: How long what a source says may be held, after signals and else, seconds.
SOON_S, HOLD_S = 2.0, 10.0
#: Sources that are remembered.
_REMEMBERED = 50_000
#: A context that was written so often is begun anew: what it holds of places in the log only grows.
_WRITTEN = 1_000


@dataclass(slots=True)
class Source:
    """One source as far as this process has read it. written: what was last said of it, and when."""

    origin: Origin
    context: Context = field(default_factory=Context)
    mtime_us: int = 0
    written: SourceFact | None = None
    at: float = 0.0
    times: int = 0
    progress: list[Facts] = field(default_factory=list)

    def fact(self) -> SourceFact:
        """Its row."""
        path = self.origin.path.partition("!")[0]
        info = SourceInfo(self.origin.source_id, path, ROOT, None, self.mtime_us or None)
        return stream_fact(info, self.origin.source_id, self.origin.stream, self.context)


class Sources:
    """All sources of one reader."""

    def __init__(self) -> None:
        self._known: dict[str, Source] = {}
        self._held: dict[str, Source] = {}

    def of(self, origin: Origin) -> Source:
        """The source of a line."""
        found = self._known.get(origin.source_id)
        if found is None:
            if len(self._known) >= _REMEMBERED:
                self._known = dict(self._held)
            found = self._known[origin.source_id] = Source(origin)
        return found

    def key(self, source_id: str) -> str:
        """What its news are gathered by until they are decided: its job, else its host, else itself."""
        found = self._known.get(source_id)
        if found is not None:
            stream = found.origin.stream
            jobs = stream.job_ids or tuple(found.context.job_ids)
            if jobs and stream.family == "job":
                return f"job:{min(jobs)}"
            if stream.host:
                return f"host:{stream.host}"
        return f"source:{source_id}"

    def said(self, source: Source, progress: tuple[ProgressFact, ...], now: float, *, urgent: bool) -> Facts:
        """What is to be written now that a batch has said something of a source. urgent: with signals."""
        if progress:
            source.progress.append(Facts(progress=progress))
        self._held[source.origin.source_id] = source
        if source.written is None or now - source.at >= (SOON_S if urgent else HOLD_S):
            return self._write(source, now)
        return Facts()

    def due(self, now: float | None) -> Facts:
        """What has been held for `HOLD_S`; all that is held where `now` is None."""
        ready = [s for s in self._held.values() if now is None or now - s.at >= HOLD_S]
        return merge_facts([self._write(source, source.at if now is None else now) for source in ready])

    def _write(self, source: Source, now: float) -> Facts:
        del self._held[source.origin.source_id]
        row = source.fact()
        parts, source.progress = source.progress, []
        if row != source.written:
            parts = [*parts, Facts((row,))]
        source.written, source.at, source.times = row, now, source.times + 1
        if source.times >= _WRITTEN:
            source.context, source.times = Context(), 0
        return merge_facts(parts)
