"""Deciding again: from the facts of a warehouse to its runs, placements and decisions.

`ingest` calls this at its end with what it touched, `reattribute` with nothing (everything), `stream` every few
minutes. The steps are those of `pipeline.analyse`, so the rows are those that `diagnose` would show. What no longer
holds is retracted: a host fault that became part of a job's interruption, a run that its scheduler record adopted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from classifiers.api import Ruleset
from pipeline.analyse import decide_all
from pipeline.joining.events import Placed, place_signals
from pipeline.joining.join import join
from pipeline.placing.place import Clock, place
from pipeline.runs.assemble import assemble
from pipeline.warehouse.affected import (
    Scope,
    Span,
    affected_episodes,
    affected_runs,
    join_spans,
    meets,
    run_span,
    scope_of,
    subject_span,
)
from pipeline.warehouse.reading import Reading, episode_gap, read_for_runs, read_for_scope
from pipeline.warehouse.stages import Stages
from pipeline.warehouse.ticket_load import PREFIX as TICKETS
from pipeline.warehouse.writeback import (
    coverage_rows,
    host_rows,
    placed_span,
    placement_rows,
    progress_rows,
    replace_all,
)
from schemas.facts import Facts, SourceFact
from schemas.identity import digest
from schemas.renaming import moved_incidents
from schemas.settings import Settings
from schemas.subject import Decision, JobRun, Subject
from sql.clocks import clock_marks, write_clock_marks
from sql.touched import reopen_since

if TYPE_CHECKING:
    from sql.decide import Change
    from sql.store import Store

#: Subjects decided at once: models predict on the batch.
BATCH = 64

Batches = Iterable[Sequence[Subject]]
#: Decides batches of subjects in order; `pipeline.beam.decide_graph.BeamBatches` is another one.
MapBatches = Callable[[Batches], Iterator[Sequence[Decision]]]


@dataclass(frozen=True, slots=True)
class Redecided:
    """What came of it. decided: subjects looked at. changes: incidents that are new, changed or retracted."""

    decided: int
    placed: int
    written: int
    retracted: int
    runs: int
    changes: tuple[Change, ...]
    components: dict[str, int]
    seconds: dict[str, float] = field(default_factory=dict)


def make_decider(settings: Settings, rules_version: int) -> Callable[[Sequence[Subject]], Sequence[Decision]]:
    """A function that decides one batch."""
    return partial(decide_all, settings=settings, rules_version=rules_version)


def in_process(settings: Settings, rules_version: int) -> MapBatches:
    """Batches decided one after the other in this process."""

    def decide(batches: Batches) -> Iterator[Sequence[Decision]]:
        for batch in batches:
            yield decide_all(batch, settings, rules_version)

    return decide


def redecide(
    store: Store,
    settings: Settings,
    ruleset: Ruleset,
    touched: Collection[str] | None = None,
    map_batches: MapBatches | None = None,
    *,
    span: Span | None = None,
    moves: Mapping[str, str] | None = None,
) -> Redecided:
    """Decide again what the facts of these sources may have changed.

    Args:
        touched: ids of sources with new or changed facts; None decides everything.
        map_batches: how batches of subjects are decided; in this process by default.
        span: with `touched=None`, only subjects that meet these times (microseconds UTC) are decided.
        moves: source ids that were replaced, old -> new: what is named by them keeps its labels.
    """
    if touched is not None and not touched:
        return Redecided(0, 0, 0, 0, len(store.read_runs(settings.cluster)), (), {})
    cluster = settings.cluster
    stages = Stages()
    started_us = store.now_us()
    sources = store.read_sources(cluster)
    known = {s.source_id: s for s in sources}
    episodes, unknown = store.read_episodes(cluster)
    everything = touched is None or any(not key.startswith(TICKETS) for key in unknown)
    signals = store.read_signals(cluster) if everything else read_for_runs(store, cluster, sources)
    facts = Facts(sources, signals, store.read_progress(cluster), store.read_fragments(cluster))
    stages.done("read")
    clocks = place(facts.sources, facts.fragments, settings)
    stages.done("place")
    with store.reading() as connection:
        old_marks = clock_marks(connection, cluster)
    marks = {sid: clock_mark(clock) for sid, clock in clocks.items()}
    before = store.read_runs(cluster)
    runs = assemble(facts, clocks, ruleset, settings)
    stages.done("runs")
    if touched is None:
        scope, renew = Scope(everything=True), set(known)
    else:
        moved = _moved(old_marks, marks)
        renew = (set(touched) | moved) & known.keys()
        scope = scope_of(renew, sources, clocks, before, runs, settings)
        scope = _with_old_times(store, cluster, scope, [known[sid] for sid in sorted(moved & known.keys())])
    reading = Reading(facts.signals, None)
    if not everything:
        reading = read_for_scope(store, cluster, scope, runs, renew, facts.signals, settings)
        facts = replace(facts, signals=reading.signals)
    placed = place_signals(facts, clocks, ruleset)
    n_placed = store.update_placements(placement_rows(placed, renew), cluster)
    store.update_progress_placements(cluster, progress_rows(facts.progress, renew, before, runs, clocks))
    store.replace_coverage(cluster, renew, coverage_rows([known[sid] for sid in sorted(renew)], clocks))
    store.replace_hosts(cluster, host_rows(sources, clocks))
    stages.done("placements")
    subjects, grown, valid, spans = _subjects(facts, scope, runs, clocks, ruleset, settings, placed)
    retract = _gone(store, cluster, grown, valid, episodes, reading, settings)
    if retract is None:  # something reaches out of what was read
        reading = Reading(store.read_signals(cluster), None)
        facts = replace(facts, signals=reading.signals)
        placed = place_signals(facts, clocks, ruleset)
        subjects, grown, valid, spans = _subjects(facts, scope, runs, clocks, ruleset, settings, placed)
        retract = _gone(store, cluster, grown, valid, episodes, reading, settings)
    if span is not None:
        subjects = [s for s in subjects if _within(s, span, settings)]
    stages.done("join")
    retract = retract or []
    batches = (subjects[i : i + BATCH] for i in range(0, len(subjects), BATCH))
    decide = map_batches or in_process(settings, ruleset.number)
    decisions = [d for batch in decide(batches) for d in batch]
    stages.done("decide")
    sure = spans.keys() if reading.window is None else {s.key for s in subjects}
    store.write_episodes(cluster, {key: times for key, times in spans.items() if key in sure})
    aliases = moved_incidents(before, moves or {})
    written, retracted, changes = replace_all(store, cluster, decisions, retract, aliases)
    store.write_episodes(cluster, {}, [key for key in retract if key in episodes])
    # Runs and clocks come last: what differs from them is what a killed process has not decided yet.
    same = {run.run_key: run for run in before}
    gone = same.keys() - {run.run_key for run in runs}
    store.replace_runs(cluster, [run for run in runs if same.get(run.run_key) != run], gone)
    with store.writing(cluster) as connection:
        write_clock_marks(connection, cluster, {sid: mark for sid, mark in marks.items() if old_marks.get(sid) != mark})
        reopen_since(connection, cluster, started_us)
    stages.done("write")
    return Redecided(
        decided=len(decisions),
        placed=n_placed,
        written=written,
        retracted=retracted,
        runs=len(runs),
        changes=changes,
        components=dict(sorted(Counter(d.component for d in decisions if d.incident).items())),
        seconds=stages.seconds,
    )


def clock_mark(clock: Clock) -> str:
    """Names a clock and its host."""
    return digest(repr(clock))


def _moved(old: Mapping[str, str], new: Mapping[str, str]) -> set[str]:
    """Sources whose clock or host is not the one that was last decided with; new ones are not among them."""
    return {sid for sid, mark in new.items() if sid in old and old[sid] != mark}


def _with_old_times(store: Store, cluster: str, scope: Scope, moved: Sequence[SourceFact]) -> Scope:
    """The scope with the times at which sources that moved were placed before."""
    if not moved or scope.everything:
        return scope
    old = placed_span(store, cluster, [s.source_id for s in moved])
    return replace(scope, span=join_spans([scope.span, old]), roots=scope.roots | {s.root for s in moved})


def _subjects(
    facts: Facts,
    scope: Scope,
    runs: Sequence[JobRun],
    clocks: Mapping[str, Clock],
    ruleset: Ruleset,
    settings: Settings,
    placed: Sequence[Placed],
) -> tuple[list[Subject], Scope, frozenset[str], dict[str, Span | None]]:
    """Subjects to decide, the scope that they fill, all keys, and the times of the episodes that were seen."""
    if scope.empty:
        return [], scope, frozenset(run.run_key for run in runs), {}
    keys = affected_runs(scope, runs, settings)
    subjects = join(runs, facts, clocks, ruleset, settings, placed, keys)
    episodes, scope = affected_episodes(scope, [s for s in subjects if s.run is None], settings)
    wanted = keys | {s.key for s in episodes}
    spans = {s.key: subject_span(s) for s in subjects if s.run is None}
    valid = frozenset(run.run_key for run in runs) | frozenset(spans)
    return [s for s in subjects if s.key in wanted], scope, valid, spans


def _within(subject: Subject, span: Span, settings: Settings) -> bool:
    mine = run_span(subject.run, settings) if subject.run is not None else subject_span(subject)
    return mine is None or (mine[1] >= span[0] and mine[0] <= span[1])


def _gone(
    store: Store,
    cluster: str,
    scope: Scope,
    valid: Collection[str],
    episodes: Mapping[str, Span | None],
    reading: Reading,
    settings: Settings,
) -> list[str] | None:
    """Stored subjects that exist no more; None where it takes more than what was read to know.

    All runs are known. An episode that does not meet the scope stands as it is.
    """
    if scope.empty:
        return []
    gap = episode_gap(settings)
    if not reading.holds(scope.span, gap):
        return None
    # a site's own tickets are nobody's to retract
    missing = {key for key in store.subject_keys(cluster) - frozenset(valid) if not key.startswith(TICKETS)}
    if reading.window is None:
        return sorted(missing)
    out = []
    for key in sorted(missing):
        span = episodes.get(key)
        if key in episodes and span is not None:
            if not meets(span, scope.span, gap):
                continue
            if not reading.holds(span, gap):
                return None
        out.append(key)
    return out
