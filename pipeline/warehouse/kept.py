"""What deciding keeps of a cluster in memory between two calls, and how it learns what others have loaded meanwhile.

Sources, fragments of runs, training progress and the signals that runs are assembled from are held whole; other
signals stay in the warehouse. `refresh` reads again what streams have changed, by their marks, and everything after a
batch load.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, func, select

from pipeline.runs.memo import Memo
from pipeline.warehouse.special import Special
from pipeline.warehouse.ticket_load import PREFIX as TICKETS
from pipeline.warehouse.touches import RunTable
from schemas.facts import Facts, ProgressFact, RunFragment, SignalFact, SourceFact
from schemas.subject import JobRun
from sql import models
from sql.clocks import clock_marks
from sql.episodes import read_spans
from sql.factrows import FRAGMENTS, PROGRESS, SOURCES
from sql.read import read, read_signals, read_signals_with
from sql.runs import read_runs
from sql.touched import Mark, generation, marks_since

if TYPE_CHECKING:
    from pipeline.placing.place import Clock

#: Marks that are this much older than the newest one may still turn up: clocks of writers, long transactions.
_LATE_US = 600 * 1_000_000
#: What a controller's line that tells of a run holds.
RECORD = "JobId="

Span = tuple[int, int]
F = TypeVar("F", ProgressFact, RunFragment, SignalFact)


class Kept:
    """The facts of one cluster, and what was concluded from them last. Filled by `refresh`.

    fragments, progress and run_signals stand by source. clock_marks, runs, episodes (key -> host and times),
    provisional and subjects (keys), and oldest_rules (the oldest ruleset of an answer) are what the warehouse holds.
    clocks, decided (sources as they were), pods and special (signals that name jobs, or are of switches) are of the
    last conclusion of this process, empty before it.
    """

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.sources: dict[str, SourceFact] = {}
        self.fragments: dict[str, tuple[RunFragment, ...]] = {}
        self.progress: dict[str, tuple[ProgressFact, ...]] = {}
        self.run_signals: dict[str, tuple[SignalFact, ...]] = {}
        self.marks: dict[str, Mark] = {}
        self.generation = -1
        self.clock_marks: dict[str, str] = {}
        self.clocks: dict[str, Clock] = {}
        self.runs: tuple[JobRun, ...] = ()
        self.episodes: dict[str, tuple[str, Span | None]] = {}
        self.provisional: frozenset[str] = frozenset()
        self.subjects: frozenset[str] = frozenset()
        self.oldest_rules: int | None = None
        self.decided: dict[str, SourceFact] = {}
        self.pods: dict[str, str] | None = None
        self.special: Special | None = None
        self.table = RunTable()
        self.memo = Memo()
        self._batch: tuple[int, int, int] | None = None

    def forget(self) -> None:
        """Have the next `refresh` read everything."""
        self._batch = None
        self.clocks, self.decided, self.pods, self.special = {}, {}, None, None

    def refresh(self, connection: Connection) -> bool:
        """Read what has changed; True where everything was read. The marks are read before the facts."""
        batch = _batch_loads(connection, self.cluster)
        now = generation(connection, self.cluster)
        everything = self._batch is None or batch != self._batch
        latest = max((m.changed_us for m in self.marks.values()), default=None)
        marks = marks_since(connection, self.cluster, None if everything or latest is None else latest - _LATE_US)
        if everything:
            self.marks = {}
            self.forget()
        changed = {sid for sid, m in marks.items() if _load_of(self.marks.get(sid)) != _load_of(m)}
        self.marks.update(marks)
        if everything:
            self._read(connection, None)
        elif changed:
            self._read(connection, changed)
        if everything or now != self.generation:
            self._read_decided(connection)
        self.generation = now
        self._batch = batch
        return everything

    def undecided(self) -> dict[str, int]:
        """Source id -> mark, of what streams have changed and nobody has decided."""
        return {sid: m.mark for sid, m in self.marks.items() if m.mark > m.decided and sid in self.sources}

    def facts(self, signals: Iterable[SignalFact]) -> Facts:
        """All that is held, with these signals."""
        return Facts(
            sources=tuple(self.sources[sid] for sid in sorted(self.sources)),
            signals=tuple(signals),
            progress=tuple(p for sid in sorted(self.progress) for p in self.progress[sid]),
            fragments=tuple(f for sid in sorted(self.fragments) for f in self.fragments[sid]),
        )

    def assembling(self) -> Facts:
        """The facts that runs are assembled from."""
        return self.facts(sorted((s for own in self.run_signals.values() for s in own), key=lambda s: s.signal_id))

    def _read(self, connection: Connection, source_ids: Collection[str] | None) -> None:
        cluster = self.cluster
        found = read(connection, SOURCES, cluster, source_ids)
        if source_ids is None:
            for held in (self.sources, self.fragments, self.progress, self.run_signals):
                held.clear()
            job = [s.source_id for s in found if s.family == "job"]
            signals = {s.signal_id: s for s in read_signals_with(connection, cluster, RECORD)}
            signals |= {s.signal_id: s for s in _signals(connection, cluster, job)}
            of_runs: Iterable[SignalFact] = signals.values()
        else:
            families = {s.source_id: s.family for s in found}
            of_runs = [
                s
                for s in _signals(connection, cluster, source_ids)
                if families.get(s.source_id) == "job" or RECORD in s.text
            ]
            for sid in source_ids:
                for held in (self.sources, self.fragments, self.progress, self.run_signals):
                    held.pop(sid, None)
        self.sources.update({s.source_id: s for s in found})
        self.fragments.update(_by_source(read(connection, FRAGMENTS, cluster, source_ids)))
        self.progress.update(_by_source(read(connection, PROGRESS, cluster, source_ids)))
        self.run_signals.update(_by_source(of_runs))

    def _read_decided(self, connection: Connection) -> None:
        """What the warehouse holds of conclusions: somebody else may have written them."""
        cluster, d = self.cluster, models.decisions.c
        self.clock_marks = clock_marks(connection, cluster)
        self.runs = read_runs(connection, cluster)
        spans, _ = read_spans(connection, cluster)
        query = select(d.subject_key, d.subject_host, d.provisional, d.rules_version).where(d.cluster == cluster)
        rows = [row for row in connection.execute(query) if not row[0].startswith(TICKETS)]
        self.subjects = frozenset(row[0] for row in rows)
        self.provisional = frozenset(key for key, _, provisional, _ in rows if provisional)
        self.oldest_rules = min((row[3] for row in rows), default=None)
        runs = {run.run_key for run in self.runs}
        self.episodes = {key: (host, spans.get(key)) for key, host, _, _ in rows if key not in runs}


def _signals(connection: Connection, cluster: str, source_ids: Collection[str]) -> tuple[SignalFact, ...]:
    return read_signals(connection, cluster, source_ids, None, None, include_untimed=True)


def _by_source(facts: Iterable[F]) -> dict[str, tuple[F, ...]]:
    out: dict[str, list[F]] = {}
    for fact in facts:
        out.setdefault(fact.source_id, []).append(fact)
    return {sid: tuple(own) for sid, own in out.items()}


def _batch_loads(connection: Connection, cluster: str) -> tuple[int, int, int]:
    """Number of loads, number of finished ones, and the newest end: any of them changes with a batch load."""
    table = models.ingests.c
    query = select(func.count(), func.count(table.finished_at), func.max(table.finished_at)).where(
        table.cluster == cluster
    )
    n, done, last = connection.execute(query).one()
    return n, done, last or 0


def _load_of(mark: Mark | None) -> tuple[int, int] | None:
    """Names the load that changed a source last; marks alone begin anew once a source was forgotten."""
    return None if mark is None else (mark.mark, mark.changed_us)
