"""Deciding while facts come in: the decisions of a stream, from the warehouse, at the cost of what changed.

A `Decider` keeps what deciding needs of all sources in memory and reads again only the sources that streams have
changed since (`sql.touched`). All that a call concludes is written in one transaction: decisions, runs, placements, the
outbox of incidents, and how far each source is decided. So a process may be killed anywhere; the next call, of this
process or another one, finds what is not decided. Two that decide at once see each other, and the later one does it
again. Afterwards the rows are those of `redecide`.

An answer is provisional until `grace_s` after the end of its subject; the final one replaces it, and later facts
replace that, as final. It is provisional again only if the subject itself went on.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from classifiers.api import Ruleset
from pipeline.document import incident as incident_document
from pipeline.errors import PipelineError
from pipeline.warehouse.conclusion import Conclusion, conclude, end_of, end_of_run
from pipeline.warehouse.kept import Kept
from pipeline.warehouse.live_writing import write
from pipeline.warehouse.redecide import BATCH, MapBatches, in_process
from pipeline.warehouse.stages import Stages
from schemas.settings import Settings
from schemas.subject import Decision

if TYPE_CHECKING:
    from sql.decide import Change
    from sql.store import Store

#: How often a call begins anew because somebody else wrote decisions meanwhile.
_TRIES = 20


class DecidingError(PipelineError):
    """Decisions could not be written."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What a call did. decided: subjects looked at. waiting: sources whose changes are left for a later call.

    changes: incidents whose answer is new, changed or retracted. provisional: subjects whose answer is provisional now.
    seconds: wall time by stage.
    """

    decided: int = 0
    written: int = 0
    retracted: int = 0
    changes: tuple[Change, ...] = ()
    provisional: int = 0
    waiting: int = 0
    components: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


class Decider:
    """Decides a cluster's subjects as facts come in. Threads may share one; calls go one after the other.

    settle_s: what changed within this time is left for the call that names it, so that facts of one moment are decided
    together. map_batches: how batches of subjects are decided; in this process by default.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        ruleset: Ruleset,
        *,
        settle_s: float = 10.0,
        map_batches: MapBatches | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self.ruleset = ruleset
        self._settle_us = int(settle_s * 1e6)
        self._map = map_batches or in_process(settings, ruleset.number)
        self._kept = Kept(settings.cluster)
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Have the next call read everything again."""
        with self._lock:
            self._kept.forget()

    def decide(self, source_ids: Collection[str], at_us: int) -> Decided:
        """Decide what these sources changed, what others changed `settle_s` ago, and what has become final.

        at_us: the time that tells provisional from final answers, microseconds UTC: event time of a stream, or now.
        """
        return self._decide(frozenset(source_ids), at_us, everything=False)

    def decide_pending(self, at_us: int) -> Decided:
        """The periodic pass: everything that is not decided yet, whoever loaded it, and what has become final.

        Subjects are all decided again where a stored answer is of an older ruleset.
        """
        with self._lock, self.store.reading() as connection:
            self._kept.refresh(connection)
            undecided, oldest = frozenset(self._kept.undecided()), self._kept.oldest_rules
        return self._decide(undecided, at_us, everything=oldest is not None and oldest < self.ruleset.number)

    def _decide(self, named: frozenset[str], at_us: int, *, everything: bool) -> Decided:
        with self._lock:
            for _ in range(_TRIES):
                done = self._once(named, at_us, everything=everything)
                if done is not None:
                    return done
        msg = (
            f"decisions of cluster {self.settings.cluster!r} in {self.store.url} were written by others {_TRIES} times "
            "while they were decided here: run one stream a cluster"
        )
        raise DecidingError(msg)

    def _once(self, named: frozenset[str], at_us: int, *, everything: bool) -> Decided | None:
        """One try; None where somebody else wrote meanwhile."""
        kept, stages = self._kept, Stages()
        with self.store.reading() as connection:
            kept.refresh(connection)
        undecided = kept.undecided()
        settled = self.store.now_us() - self._settle_us
        touched = {sid for sid in undecided if sid in named or kept.marks[sid].changed_us <= settled}
        overdue = self._overdue(at_us)
        stages.done("refresh")
        if not (touched or overdue or everything):
            return Decided(provisional=len(kept.provisional), waiting=len(undecided), seconds=stages.seconds)
        found = conclude(self.store, kept, self.ruleset, self.settings, touched, overdue, stages, everything=everything)
        decisions = self._answers(found)
        stages.done("decide")
        marked, reopened = self._marked(found, decisions, at_us)
        done = write(self.store, kept, found, marked, reopened, _document)
        stages.done("write")
        if done is None:
            return None
        return Decided(
            decided=len(decisions),
            written=done.written,
            retracted=done.retracted,
            changes=done.changes,
            provisional=len(kept.provisional),
            waiting=len(undecided) - len(found.marks),
            components=dict(sorted(Counter(d.component for d in decisions if d.incident).items())),
            seconds=stages.seconds,
        )

    def _answers(self, found: Conclusion) -> list[Decision]:
        batches = (found.subjects[i : i + BATCH] for i in range(0, len(found.subjects), BATCH))
        return [d for batch in self._map(batches) for d in batch]

    def _end(self, key: str, runs: dict[str, int | None]) -> int | None:
        """When a stored subject ended, as far as was known when it was decided."""
        if key in runs:
            return runs[key]
        span = self._kept.episodes.get(key, ("", None))[1]
        return None if span is None else span[1]

    def _overdue(self, at_us: int) -> frozenset[str]:
        """Subjects with a provisional answer whose grace is over."""
        if not self._kept.provisional:
            return frozenset()
        ends = {run.run_key: end_of_run(run) for run in self._kept.runs if run.run_key in self._kept.provisional}
        return frozenset(key for key in self._kept.provisional if not self._is_provisional(self._end(key, ends), at_us))

    def _is_provisional(self, end: int | None, at_us: int) -> bool:
        return end is not None and at_us < end + int(self.settings.grace_s * 1e6)

    def _marked(
        self, found: Conclusion, decisions: Sequence[Decision], at_us: int
    ) -> tuple[list[Decision], frozenset[str]]:
        """The decisions with provisional ones marked, and the subjects that went on after their final answer."""
        kept = self._kept
        ends = {run.run_key: end_of_run(run) for run in kept.runs}
        out, reopened = [], set()
        for subject, decision in zip(found.subjects, decisions, strict=True):
            end = end_of(subject)
            provisional = self._is_provisional(end, at_us)
            if provisional and subject.key in kept.subjects and subject.key not in kept.provisional:
                old = self._end(subject.key, ends)
                provisional = old is None or end is None or end > old
                if provisional:
                    reopened.add(subject.key)
            out.append(replace(decision, extra={**decision.extra, "provisional": "1"}) if provisional else decision)
        return out, frozenset(reopened)


def _document(decision: Decision) -> str:
    return incident_document(decision).model_dump_json(by_alias=True)
