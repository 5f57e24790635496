"""Runs that went on training after something that a host said: then it stopped nothing there, however it reads.

A fault that lies in no run's evidence window becomes an episode of its host. If a run had that host and made steps
afterwards, the episode's events are cleared by them, as events in the window are.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping, Sequence

from pipeline.joining.events import ClockLike, ProgressIndex
from schemas.facts import ProgressFact
from schemas.subject import Event, JobRun

Span = tuple[int, int]


def life(run: JobRun) -> Span | None:
    """First and last moment of a run, microseconds UTC; None where it has no clock."""
    starts = [t for t in (run.start_us, run.log_start_us) if t is not None]
    ends = [t for t in (run.end_us, run.log_end_us) if t is not None]
    return (min(starts), max(ends)) if starts and ends else None


class Lives:
    """Runs by their lives. alone: roots with one job, whose log may name no host."""

    def __init__(
        self,
        runs: Sequence[JobRun],
        alone: Collection[str],
        progress: Mapping[str, Sequence[ProgressFact]],
        clocks: Mapping[str, ClockLike],
    ) -> None:
        lived = sorted((span, run.run_key, run) for run in runs if (span := life(run)) is not None)
        self._lived = [(span, run) for span, _, run in lived]
        self._starts = [low for (low, _), _ in self._lived]
        self._longest = max((high - low for (low, high), _ in self._lived), default=0)
        self._alone = frozenset(alone)
        self._progress, self._clocks = progress, clocks
        self._nodes: dict[str, frozenset[str]] = {}
        self._steps: dict[str, ProgressIndex] = {}

    def steps_after(self, event: Event, roots: Collection[str]) -> int:
        """The most steps that a run which had the event's host made after it; roots: where the event was read."""
        if event.t is None:
            return 0
        low, high = int(event.t * 1e6), int((event.t_last or event.t) * 1e6)
        first = bisect.bisect_left(self._starts, low - self._longest)
        last = bisect.bisect_right(self._starts, low)
        held = [r for (_, end), r in self._lived[first:last] if end >= high and self._had(r, event, roots)]
        return max((self._of(r).around("", 0, 0, event.t, event.t_last, event.unc)[1] for r in held), default=0)

    def _had(self, run: JobRun, event: Event, roots: Collection[str]) -> bool:
        if run.nodes:
            if run.run_key not in self._nodes:
                self._nodes[run.run_key] = frozenset(run.nodes)
            return not self._nodes[run.run_key].isdisjoint(event.hosts)
        return any(root in self._alone for root in run.roots if root in roots)

    def _of(self, run: JobRun) -> ProgressIndex:
        if run.run_key not in self._steps:
            own = [p for sid in run.source_ids for p in self._progress.get(sid, ())]
            self._steps[run.run_key] = ProgressIndex(own, self._clocks, run.spans)
        return self._steps[run.run_key]
