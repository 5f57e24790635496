"""Which subjects a load may have changed: always a superset, found from times and roots, never by looking at answers.

A decision looks at the events of its window, at 28 days of history before it, at the minutes around its end on other
hosts, at the runs of the same job and root, and at the hosts of its roots. So what changed at one time can reach runs
that overlap that time and runs up to 28 days later; an episode of a host only reaches as far as its own silence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.joining.events import ClockLike
from pipeline.joining.join import SITE_S, VAGUE_S
from pipeline.joining.windows import window
from schemas.facts import SourceFact, Stamp
from schemas.settings import Settings
from schemas.subject import JobRun, Subject

#: Slack on both sides of a touched time: what clocks and site events may be off by, microseconds.
SLACK_US = int((VAGUE_S + SITE_S) * 1e6)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Scope:
    """What to decide again. span: touched times in microseconds UTC, None for none. roots: inputs without a clock.

    everything: no bound is known; every subject is in.
    """

    everything: bool = False
    span: Span | None = None
    roots: frozenset[str] = frozenset()
    run_keys: frozenset[str] = frozenset()

    @property
    def empty(self) -> bool:
        return not (self.everything or self.span or self.roots or self.run_keys)


def join_spans(spans: Iterable[Span | None]) -> Span | None:
    """The least span that holds all of them."""
    known = [s for s in spans if s is not None]
    return (min(a for a, _ in known), max(b for _, b in known)) if known else None


def source_span(source: SourceFact, clock: ClockLike | None) -> Span | None:
    """First and last stamp of a source in UTC; None where no clock ties it."""
    if clock is None:
        return None
    times = [
        t for kind, low, high in source.spans for us in (low, high) if (t := clock.utc(Stamp(kind, us))[0]) is not None
    ]
    return (min(times), max(times)) if times else None


def run_span(run: JobRun, settings: Settings) -> Span | None:
    """From the first to the last moment that a run's decision looks at directly."""
    w = window(run, settings)
    times = [t for t in (run.start_us, run.end_us, run.log_start_us, run.log_end_us, w.low, w.high) if t is not None]
    return (min(times), max(times)) if times else None


def scope_of(
    touched: Collection[str],
    sources: Sequence[SourceFact],
    clocks: Mapping[str, ClockLike],
    before: Sequence[JobRun],
    after: Sequence[JobRun],
    settings: Settings,
) -> Scope:
    """The scope of touched sources and of runs that appeared, changed or went."""
    old, new = ({run.run_key: run for run in runs} for runs in (before, after))
    changed = [
        run for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key) for run in _both(old, new, key)
    ]
    mine = [s for s in sources if s.source_id in touched]
    spans = {s.source_id: source_span(s, clocks.get(s.source_id)) for s in mine}
    if _new_hosts(mine, [s for s in sources if s.source_id not in touched], clocks):
        return Scope(everything=True)
    roots = {s.root for s in mine if spans[s.source_id] is None}
    changed_spans = [run_span(run, settings) for run in changed]
    roots |= {root for run, span in zip(changed, changed_spans, strict=True) if span is None for root in run.roots}
    keys = {run.run_key for run in changed}
    keys |= _relatives(changed, after)
    return Scope(span=join_spans([*spans.values(), *changed_spans]), roots=frozenset(roots), run_keys=frozenset(keys))


def _both(old: Mapping[str, JobRun], new: Mapping[str, JobRun], key: str) -> list[JobRun]:
    return [runs[key] for runs in (old, new) if key in runs]


def _new_hosts(mine: Sequence[SourceFact], others: Sequence[SourceFact], clocks: Mapping[str, ClockLike]) -> set[str]:
    """Roots known before that may have got a host: all their subjects are told which hosts there are."""
    known: dict[str, set[str]] = {}
    for s in others:
        clock = clocks.get(s.source_id)
        known.setdefault(s.root, set()).update([clock.host] if clock is not None and clock.host else [])
    found = set()
    for s in mine:
        clock = clocks.get(s.source_id)
        if s.root in known and clock is not None and clock.host and clock.host not in known[s.root]:
            found.add(s.root)
    return found


def _relatives(changed: Sequence[JobRun], runs: Sequence[JobRun]) -> set[str]:
    """Runs that see the changed ones: of the same job, or of the same root."""
    jobs = {run.job_id for run in changed if run.job_id}
    roots = {root for run in changed for root in run.roots}
    return {run.run_key for run in runs if run.job_id in jobs or roots & set(run.roots)}


def affected_runs(scope: Scope, runs: Sequence[JobRun], settings: Settings) -> frozenset[str]:
    """Keys of the runs to decide again."""
    if scope.everything:
        return frozenset(run.run_key for run in runs)
    later = int(settings.history_days * 86400e6)
    out = set()
    for run in runs:
        span = run_span(run, settings)
        hit = run.run_key in scope.run_keys or bool(scope.roots & set(run.roots)) or span is None
        if not hit and span is not None and scope.span is not None:
            low, high = scope.span
            hit = span[1] + SLACK_US >= low and span[0] - SLACK_US <= high + later
        if hit:
            out.add(run.run_key)
    return frozenset(out)


def subject_span(subject: Subject) -> Span | None:
    """First and last event of an episode, microseconds UTC; None where it has no clock."""
    times = [t for e in subject.events for t in (e.t, e.t_last) if t is not None]
    return (int(min(times) * 1e6), int(max(times) * 1e6)) if times else None


def affected_episodes(scope: Scope, episodes: Sequence[Subject], settings: Settings) -> tuple[list[Subject], Scope]:
    """The episodes that meet the scope, and the scope grown until none of them sticks out of it."""
    if scope.everything:
        return list(episodes), scope
    gap = int(max(settings.episode_gap_s, SITE_S) * 1e6) + 1_000_000
    spans = {s.key: subject_span(s) for s in episodes}
    while True:
        hit = [s for s in episodes if meets(spans[s.key], scope.span, gap)]
        grown = join_spans([scope.span, *(spans[s.key] for s in hit)])
        if grown == scope.span:
            return hit, scope
        scope = replace(scope, span=grown)


def meets(span: Span | None, other: Span | None, gap: int) -> bool:
    """Whether an episode of these times may touch what happened in the other ones."""
    if span is None:
        return True  # no clock: always read, always decided
    return other is not None and span[1] + gap >= other[0] and span[0] - gap <= other[1]
