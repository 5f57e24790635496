"""Which stored signals deciding again must read: those of job logs, and of all others the times that it looks at.

Runs are assembled from all sources, records and job logs; what hosts printed is read only from `history_days` before
the first subject that is decided until a margin behind the last one. Whoever finds that a subject reaches out of what
was read (an episode of months, a run without a clock) reads everything instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.joining.join import SITE_S
from pipeline.warehouse.affected import SLACK_US, Scope, Span, affected_runs, join_spans, run_span
from schemas.facts import SignalFact, SourceFact
from schemas.settings import Settings
from schemas.subject import JobRun

if TYPE_CHECKING:
    from sql.store import Store

#: What a controller's line that tells of a run holds (`pipeline.runs.slurm_log`).
_RECORD = "JobId="


@dataclass(frozen=True, slots=True)
class Reading:
    """Signals that were read. window: times from which all are there, microseconds UTC; None: all there are."""

    signals: tuple[SignalFact, ...]
    window: Span | None

    def holds(self, span: Span | None, margin: int) -> bool:
        """Whether everything within the margin around these times was read."""
        if self.window is None or span is None:
            return True
        return self.window[0] < span[0] - margin and span[1] + margin < self.window[1]


def read_for_runs(store: Store, cluster: str, sources: Iterable[SourceFact]) -> tuple[SignalFact, ...]:
    """The signals that runs are assembled from, sorted by id."""
    job = [s.source_id for s in sources if s.family == "job"]
    return _joined(store.read_signals(cluster, job), store.read_signals_with(cluster, _RECORD))


def read_for_scope(
    store: Store,
    cluster: str,
    scope: Scope,
    runs: Sequence[JobRun],
    renew: Collection[str],
    known: Sequence[SignalFact],
    settings: Settings,
) -> Reading:
    """The signals that the subjects of a scope may look at, with those `known` and all of the sources in `renew`."""
    window = _window(scope, runs, settings)
    if window is None:
        return Reading(store.read_signals(cluster), None)
    timed = store.read_signals(cluster, None, *window)
    return Reading(_joined(known, timed, store.read_signals(cluster, renew)), window)


def _window(scope: Scope, runs: Sequence[JobRun], settings: Settings) -> Span | None:
    if scope.everything:
        return None
    keys = affected_runs(scope, runs, settings)
    jobs = {run.job_id for run in runs if run.run_key in keys and run.job_id}
    seen = [run_span(run, settings) for run in runs if run.run_key in keys or run.job_id in jobs]
    if any(span is None for span in seen):
        return None  # no clock ties it: whatever names it may be anywhere
    hull = join_spans([scope.span, *seen])
    if hull is None:
        return None
    margin = SLACK_US + 2 * episode_gap(settings)
    return hull[0] - int(settings.history_days * 86400e6) - margin, hull[1] + margin


def episode_gap(settings: Settings) -> int:
    """Silence, in microseconds, by which an episode and what it may reach are parted for sure."""
    return int(max(settings.episode_gap_s, SITE_S) * 1e6) + 1_000_000


def _joined(*parts: Iterable[SignalFact]) -> tuple[SignalFact, ...]:
    return tuple(s for _, s in sorted({s.signal_id: s for part in parts for s in part}.items()))
