"""What deciding concludes from the facts that are held, before anything is written.

`conclude` runs the steps of `pipeline.analyse` on what `Kept` holds and on what it reads, and says which subjects are
to be decided, which are no more, and which derived rows of facts are to be written. It reads and joins no more than
what changed reaches (`pipeline.warehouse.narrow`), or everything where no bound is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from classifiers.api import Ruleset
from pipeline.joining.events import Placed, place_signals
from pipeline.joining.fabric import one_fabric
from pipeline.joining.join import HISTORY_TAGS, join
from pipeline.joining.windows import window
from pipeline.placing.hosts import pod_nodes
from pipeline.placing.place import Clock, place
from pipeline.runs.assemble import assemble
from pipeline.warehouse.affected import SLACK_US, subject_span
from pipeline.warehouse.kept import Kept
from pipeline.warehouse.narrow import Narrow, narrow
from pipeline.warehouse.reading import episode_gap
from pipeline.warehouse.regions import Span, merged
from pipeline.warehouse.special import Special
from pipeline.warehouse.stages import Stages
from schemas.facts import SignalFact
from schemas.settings import Settings
from schemas.subject import JobRun, Subject
from sql.changed import signals_between, signals_of_rules, untimed_signals
from sql.read import read_signals

if TYPE_CHECKING:
    from sql.store import Store


@dataclass(frozen=True, slots=True)
class Conclusion:
    """subjects: to be decided. retract: keys of subjects that are no more. renew: sources whose facts are placed anew.

    placed: their changed signals. spans: times of the episodes among the subjects. marks: up to which loads of which
    sources this is the answer. whole: whether everything was decided.
    """

    clocks: Mapping[str, Clock]
    runs: tuple[JobRun, ...]
    subjects: tuple[Subject, ...]
    retract: tuple[str, ...]
    renew: frozenset[str]
    placed: Sequence[Placed]
    spans: Mapping[str, Span | None]
    marks: Mapping[str, int]
    whole: bool


def end_of_run(run: JobRun) -> int | None:
    """When a run ended as far as is known, microseconds UTC."""
    if run.end_us is not None and run.end_known:
        return run.end_us
    return max((t for t in (run.end_us, run.log_end_us) if t is not None), default=None)


def end_of(subject: Subject) -> int | None:
    """When a subject ended, microseconds UTC; None where it has no clock."""
    if subject.run is not None:
        return end_of_run(subject.run)
    span = subject_span(subject)
    return None if span is None else span[1]


def conclude(
    store: Store,
    kept: Kept,
    ruleset: Ruleset,
    settings: Settings,
    touched: Collection[str],
    overdue: Collection[str],
    stages: Stages,
    *,
    everything: bool = False,
) -> Conclusion:
    """What the facts say now of all that they may have changed.

    touched: sources with changes that are not decided. overdue: subjects that are wanted all the same. everything:
    whether all subjects are.
    """
    facts = kept.assembling()
    clocks = place(facts.sources, facts.fragments, settings)
    stages.done("place")
    runs = tuple(assemble(facts, clocks, ruleset, settings, kept.memo))
    stages.done("runs")
    with store.reading() as connection:
        found = None if everything else narrow(connection, kept, clocks, runs, touched, overdue, ruleset, settings)
        stages.done("narrow")
        if found is None:
            return _whole(connection, kept, clocks, runs, ruleset, settings, stages)
        return _narrow(connection, kept, clocks, runs, found, touched, ruleset, settings, stages)


def _whole(
    connection: Connection,
    kept: Kept,
    clocks: Mapping[str, Clock],
    runs: tuple[JobRun, ...],
    ruleset: Ruleset,
    settings: Settings,
    stages: Stages,
) -> Conclusion:
    """Everything, decided from all facts."""
    marks = kept.undecided()
    facts = kept.facts(read_signals(connection, kept.cluster, None, None, None, include_untimed=True))
    placed = place_signals(facts, clocks, ruleset)
    kept.special = Special(placed)
    stages.done("read")
    subjects = join(runs, facts, clocks, ruleset, settings, placed)
    stages.done("join")
    return Conclusion(
        clocks=clocks,
        runs=runs,
        subjects=tuple(subjects),
        retract=tuple(sorted(kept.subjects - {s.key for s in subjects})),
        renew=frozenset(kept.sources),
        placed=placed,
        spans={s.key: subject_span(s) for s in subjects if s.run is None},
        marks=marks,
        whole=True,
    )


def _narrow(
    connection: Connection,
    kept: Kept,
    clocks: Mapping[str, Clock],
    runs: tuple[JobRun, ...],
    found: Narrow,
    touched: Collection[str],
    ruleset: Ruleset,
    settings: Settings,
    stages: Stages,
) -> Conclusion:
    """The subjects that `found` names, from the signals that they look at."""
    gap = episode_gap(settings)
    marks = {sid: mark for sid, mark in kept.undecided().items() if sid in touched}
    special = kept.special or Special(())
    signals = _Signals(connection, kept, special, runs, found, ruleset, settings)
    fabrics = one_fabric(special.of_switches(), kept.sources)
    while True:
        facts = kept.facts(signals.all())
        placed = place_signals(facts, clocks, ruleset)
        stages.done("read")
        subjects = join(runs, facts, clocks, ruleset, settings, placed, found.runs, fabrics)
        stages.done("join")
        spans = {s.key: subject_span(s) for s in subjects if s.run is None}
        near = [
            s
            for s in subjects
            if s.run is None and _meets(found, s.host, spans[s.key], {e.source_id for e in s.events}, gap)
        ]
        beyond = [span for s in near if (span := spans[s.key]) is not None and not signals.holds(span, gap)]
        if not beyond:
            break
        signals.extend(beyond, gap)
    wanted = [s for s in subjects if s.run is not None]
    untimed = {s.key for s in subjects if s.run is None and spans[s.key] is None}
    gone = {run.run_key for run in kept.runs} - {run.run_key for run in runs}
    lost = {
        key
        for key, (host, span) in kept.episodes.items()
        if (key not in untimed if span is None else found.regions.meets(host, span, gap))
    }
    valid = {s.key for s in near} | untimed
    fresh = {s.key for s in near} | (untimed - kept.episodes.keys())
    chosen = [*wanted, *(s for s in subjects if s.run is None and s.key in fresh)]
    return Conclusion(
        clocks=clocks,
        runs=runs,
        subjects=tuple(sorted(chosen, key=lambda s: s.key)),
        retract=tuple(sorted(((gone & kept.subjects) | lost) - valid - {s.key for s in chosen})),
        renew=found.renew,
        placed=found.placed,
        spans={key: spans[key] for key in fresh},
        marks=marks,
        whole=False,
    )


def _meets(found: Narrow, host: str, span: Span | None, sources: Collection[str], gap: int) -> bool:
    if span is None:
        return not found.regions.sources.isdisjoint(sources)
    return found.regions.meets(host, span, gap)


class _Signals:
    """The signals that the subjects of a `Narrow` look at, by id: whole stretches of time, and history."""

    def __init__(
        self,
        connection: Connection,
        kept: Kept,
        special: Special,
        runs: Sequence[JobRun],
        found: Narrow,
        ruleset: Ruleset,
        settings: Settings,
    ) -> None:
        self._connection = connection
        self._kept = kept
        self._held = dict(found.read)
        self._whole = list(found.whole)
        gap = episode_gap(settings)
        spans = [(low - 2 * gap, high + 2 * gap) for low, high in found.regions.spans()]
        mine, jobs = _with_previous(runs, found.runs)
        for run in mine:
            w = window(run, settings)
            if w.low is not None and w.high is not None:
                spans.append((w.low - SLACK_US, w.high + SLACK_US))
            end = run.end_us or run.log_end_us
            if end is not None:
                spans.append((end - SLACK_US, end + SLACK_US))
        for host, span in kept.episodes.values():
            if span is not None and found.regions.meets(host, span, gap):
                spans.append((span[0] - 2 * gap, span[1] + 2 * gap))
        self._read(spans)
        self._add(untimed_signals(connection, kept.cluster))
        self._add(s for run in mine for sid in run.source_ids for s in kept.run_signals.get(sid, ()))
        self._add(p.fact for p in special.of_jobs(jobs))
        self._read_history([run for run in mine if run.run_key in found.runs], ruleset, settings)

    def all(self) -> list[SignalFact]:
        return [self._held[key] for key in sorted(self._held)]

    def holds(self, span: Span, gap: int) -> bool:
        """Whether everything around these times was read, so that an episode of them is known to end there."""
        return any(low <= span[0] - gap and span[1] + gap <= high for low, high in self._whole)

    def extend(self, spans: Sequence[Span], gap: int) -> None:
        """Read further around these times: twice as far as they reach."""
        self._read([(low - 2 * gap - (high - low), high + 2 * gap + (high - low)) for low, high in spans])

    def _add(self, facts: Iterable[SignalFact]) -> None:
        self._held.update({s.signal_id: s for s in facts})

    def _read(self, spans: Sequence[Span]) -> None:
        """Read whole stretches, but for those that were read before."""
        for low, high in merged(spans):
            if not any(a <= low and high <= b for a, b in self._whole):
                self._add(signals_between(self._connection, self._kept.cluster, low, high))
        self._whole = merged([*self._whole, *spans])

    def _read_history(self, runs: Sequence[JobRun], ruleset: Ruleset, settings: Settings) -> None:
        """What counts as history, on whatever host: there is little of it."""
        starts = [run.start_us for run in runs if run.start_us is not None]
        if starts:
            rules = [rule.id for rule in ruleset.rules.values() if HISTORY_TAGS & rule.tags]
            oldest = min(starts) - int(settings.history_days * 86400e6)
            self._add(signals_of_rules(self._connection, self._kept.cluster, rules, (oldest, max(starts))))


def _with_previous(runs: Sequence[JobRun], keys: Collection[str]) -> tuple[list[JobRun], set[str]]:
    """The runs of these keys with the attempts before them, and the ids of their jobs."""
    jobs = {run.job_id for run in runs if run.run_key in keys and run.job_id}
    attempts: dict[str, list[JobRun]] = {}
    for run in runs:
        if run.job_id in jobs and run.job_id:
            attempts.setdefault(run.job_id, []).append(run)
    wanted = set(keys)
    for own in attempts.values():
        own.sort(key=lambda r: (r.attempt, r.run_key))
        wanted.update(a.run_key for a, b in pairwise(own) if b.run_key in keys)
    return [run for run in runs if run.run_key in wanted], jobs


def remember(kept: Kept, found: Conclusion) -> None:
    """Have `kept` know what was concluded, once it is written."""
    kept.clocks = dict(found.clocks)
    kept.pods = pod_nodes(f for own in kept.fragments.values() for f in own)
    undecided = kept.undecided().keys()
    if not kept.decided or found.whole:
        kept.decided = {sid: s for sid, s in kept.sources.items() if sid not in undecided}
    else:
        for sid in found.renew & kept.sources.keys():
            if sid not in undecided:
                kept.decided[sid] = kept.sources[sid]
