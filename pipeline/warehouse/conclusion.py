"""What deciding concludes from the facts that are held, before anything is written.

`conclude` runs the steps of `pipeline.analyse` on what `Kept` holds and on what it reads, and says which subjects are
to be decided, which are no more, and which derived rows of facts are to be written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from classifiers.api import Ruleset
from pipeline.joining.events import Placed, place_signals
from pipeline.joining.join import join
from pipeline.placing.place import Clock, place
from pipeline.runs.assemble import assemble
from pipeline.warehouse.affected import Span, subject_span
from pipeline.warehouse.kept import Kept
from pipeline.warehouse.stages import Stages
from schemas.facts import Facts
from schemas.settings import Settings
from schemas.subject import JobRun, Subject

if TYPE_CHECKING:
    from sql.store import Store


@dataclass(frozen=True, slots=True)
class Conclusion:
    """subjects: to be decided. retract: keys of subjects that are no more. renew: sources whose facts are placed anew.

    placed: their signals. spans: times of the episodes among the subjects. marks: up to which loads of which sources
    this is the answer.
    """

    clocks: Mapping[str, Clock]
    runs: tuple[JobRun, ...]
    subjects: tuple[Subject, ...]
    retract: tuple[str, ...]
    renew: frozenset[str]
    placed: Sequence[Placed]
    spans: Mapping[str, Span | None]
    marks: Mapping[str, int]


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
    store: Store, kept: Kept, ruleset: Ruleset, settings: Settings, touched: Collection[str], stages: Stages
) -> Conclusion:
    """Decide all subjects of all facts. touched: sources with changes that are not decided."""
    del touched
    facts = kept.assembling()
    clocks = place(facts.sources, facts.fragments, settings)
    stages.done("place")
    runs = tuple(assemble(facts, clocks, ruleset, settings))
    stages.done("runs")
    facts = Facts(facts.sources, store.read_signals(kept.cluster), facts.progress, facts.fragments)
    stages.done("read")
    placed = place_signals(facts, clocks, ruleset)
    subjects = join(runs, facts, clocks, ruleset, settings, placed)
    stages.done("join")
    marks = kept.undecided()
    return Conclusion(
        clocks=clocks,
        runs=runs,
        subjects=tuple(subjects),
        retract=tuple(sorted(kept.subjects - {s.key for s in subjects})),
        renew=frozenset(kept.sources),
        placed=placed,
        spans={s.key: subject_span(s) for s in subjects if s.run is None},
        marks=marks,
    )
