"""Loading facts: merging upserts on a connection whose transaction the caller holds.

Rows of the same keys are read, merged in Python by the very functions of `schemas.facts`, and written back by
executemany; what a load does not change is not written. On PostgreSQL writers of the same sources wait for each
other (advisory locks), since a row that neither of two sees yet could not be locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from zlib import crc32

from sqlalchemy import JSON, Connection, delete, exists, or_, select, text

from schemas.facts import Facts, SignalFact, SourceFact, Stamp, torn_away
from sql.dialect import batches, driver_many, upsert
from sql.factrows import FRAGMENTS, PROGRESS, QUARANTINE, SIGNALS, SOURCES, Kind, storable_facts
from sql.lines import count_lines
from sql.touched import marks_of, write_marks
from sql.types import to_json

F = TypeVar("F")
#: Source id -> number of the load that its changed rows bear.
Number = Callable[[str], int]
_LOCK_SPACE = 7_302_212
_DERIVED_SPACE = 7_302_213
_LOCKS = 256


@dataclass(frozen=True, slots=True)
class Touched:
    """What a load changed: enough to find the subjects that must be decided again.

    source_ids: sources with a new or changed row of any kind. spans: (kind of stamp, least us, greatest us) of the
    changed rows, in the frames as printed. hosts: names printed in, or known of, what changed. job_ids: jobs named.
    rows: rows written by table; empty if the load changed nothing.
    """

    source_ids: frozenset[str] = frozenset()
    spans: tuple[tuple[str, int, int], ...] = ()
    hosts: frozenset[str] = frozenset()
    job_ids: frozenset[str] = frozenset()
    rows: tuple[tuple[str, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(slots=True)
class Tally:
    """Gathers a `Touched`."""

    source_ids: set[str] = field(default_factory=set)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    job_ids: set[str] = field(default_factory=set)
    rows: dict[str, int] = field(default_factory=dict)

    def span(self, kind: str, low: int, high: int) -> None:
        if kind != "none":
            seen = self.spans.get(kind, (low, high))
            self.spans[kind] = (min(low, seen[0]), max(high, seen[1]))

    def stamps(self, *stamps: Stamp) -> None:
        for stamp in stamps:
            self.span(stamp.kind, stamp.us, stamp.us)

    def source(self, fact: SourceFact) -> None:
        for kind, low, high in fact.spans:
            self.span(kind, low, high)
        self.hosts.update(name for name, _ in fact.names)
        self.hosts.add(fact.host)
        self.hosts.update(host for _, host in fact.rank_hosts)
        self.job_ids.update(fact.job_ids)

    def done(self) -> Touched:
        return Touched(
            source_ids=frozenset(self.source_ids - {""}),
            spans=tuple((kind, low, high) for kind, (low, high) in sorted(self.spans.items())),
            hosts=frozenset(self.hosts - {""}),
            job_ids=frozenset(self.job_ids - {""}),
            rows=tuple(sorted(self.rows.items())),
        )


def lock_derived(connection: Connection, cluster: str) -> None:
    """Wait until nobody else replaces derived rows (placements, runs, decisions) of the cluster; until the commit."""
    if connection.dialect.name == "postgresql":
        slot = crc32(cluster.encode()) & 0x7FFFFFFF
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_DERIVED_SPACE}, {slot})"))


def _lock(connection: Connection, source_ids: Iterable[str]) -> None:
    if connection.dialect.name != "postgresql":
        return
    for slot in sorted({crc32(s.encode()) % _LOCKS for s in source_ids}):
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_SPACE}, {slot})"))


def _known(connection: Connection, kind: Kind[F], cluster: str, keys: Sequence[tuple[Any, ...]]) -> dict[Any, F]:
    """Stored facts with these keys (and perhaps some others), by key."""
    table = kind.table
    columns = [c for c in table.columns if c.name not in kind.derived and c.name not in ("cluster", "ingest_id")]
    query = select(*columns).where(table.c.cluster == cluster, table.c[kind.by].in_({key[0] for key in keys}))
    if kind.then is not None:
        query = query.where(table.c[kind.then].between(min(k[1] for k in keys), max(k[1] for k in keys)))
    facts = [kind.fact(row) for row in connection.execute(query).mappings()]
    return {kind.key(fact): fact for fact in facts}


def _writer(connection: Connection, kind: Kind[F]) -> Callable[[list[dict[str, Any]]], object]:
    """Writes rows of clean texts; the JSON is made here."""
    table = kind.table
    statement = upsert(table, connection.dialect.name, keep=kind.derived)
    names = [c.name for c in table.columns if c.name not in kind.derived]
    run = driver_many(connection, statement, names)
    documents = [c.name for c in table.columns if isinstance(c.type, JSON)]

    def write(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            for name in documents:
                row[name] = to_json(row[name])
        run(rows)

    return write


def _merge_in(
    connection: Connection, kind: Kind[F], cluster: str, number: Number, facts: Iterable[F], tally: Tally
) -> list[F]:
    """Merge the facts into the table; returns what was written, as merged."""
    merged: dict[tuple[Any, ...], F] = {}
    for fact in facts:
        key = kind.key(fact)
        seen = merged.get(key)
        merged[key] = fact if seen is None else kind.merge(seen, fact)
    write = _writer(connection, kind)
    written: list[F] = []
    for chunk in batches(sorted(merged)):
        known = _known(connection, kind, cluster, chunk)
        rows = []
        for key in chunk:
            fact, old = merged[key], known.get(key)
            if old == fact:
                continue
            new = fact if old is None else kind.merge(old, fact)
            if new != old:
                row = kind.row(new)
                rows.append({"cluster": cluster, "ingest_id": number(row["source_id"]), **row})
                written.append(new)
        if rows:
            write(rows)
            tally.rows[kind.table.name] = tally.rows.get(kind.table.name, 0) + len(rows)
    return written


def load_facts(
    connection: Connection, facts: Facts, ingest_id: int, cluster: str, now_us: int = 0, *, mark: bool = False
) -> Touched:
    """Merge facts into the tables, inside the caller's transaction.

    now_us: wall clock, for lines of a stream. mark: of a stream: what changes is marked as to be decided.
    """
    facts = storable_facts(facts)
    ids = {f.source_id for f in facts.sources}
    ids.update(f.source_id for f in facts.signals)
    ids.update(f.source_id for f in facts.progress)
    ids.update(f.source_id for f in facts.fragments)
    ids.update(f.source_id for f in facts.quarantine)
    _lock(connection, ids)
    marks = marks_of(connection, cluster, ids) if mark else {}

    def number(source_id: str) -> int:
        if not mark:
            return ingest_id
        known = marks.get(source_id)
        return -(known.mark + 1 if known else 1)

    tally = Tally()
    for source in _merge_in(connection, SOURCES, cluster, number, facts.sources, tally):
        tally.source_ids.add(source.source_id)
        tally.source(source)
    signals = count_lines(connection, cluster, _standing(connection, cluster, facts.signals), now_us)
    for signal in _merge_in(connection, SIGNALS, cluster, number, signals, tally):
        tally.source_ids.add(signal.source_id)
        tally.hosts.add(signal.host)
        tally.stamps(signal.first, signal.last)
    for progress in _merge_in(connection, PROGRESS, cluster, number, facts.progress, tally):
        tally.source_ids.add(progress.source_id)
        tally.stamps(progress.first, progress.last)
    for fragment in _merge_in(connection, FRAGMENTS, cluster, number, facts.fragments, tally):
        tally.source_ids.add(fragment.source_id)
        tally.hosts.update(fragment.nodes)
        tally.job_ids.add(fragment.job_id)
        tally.stamps(fragment.submit, fragment.start, fragment.end)
    for part in _merge_in(connection, QUARANTINE, cluster, number, facts.quarantine, tally):
        tally.source_ids.add(part.source_id)
    _retract_torn(connection, cluster, tally.source_ids)
    touched = tally.done()
    if mark:
        write_marks(connection, cluster, touched.source_ids, marks, now_us)
    return touched


def _standing(connection: Connection, cluster: str, signals: Sequence[SignalFact]) -> list[SignalFact]:
    """The signals without those of cut lines whose source is stored with what follows. Sources are loaded before."""
    keys = sorted({(s.source_id,) for s in signals if s.torn >= 0})
    sources: dict[Any, SourceFact] = {}
    for chunk in batches(keys, 5_000):
        sources.update(_known(connection, SOURCES, cluster, chunk))
    return [s for s in signals if not torn_away(s, sources.get((s.source_id,)))]


def _retract_torn(connection: Connection, cluster: str, source_ids: Iterable[str]) -> None:
    """Remove signals of cut lines of these sources that are known to go on: `torn_away` in SQL."""
    signals, sources = SIGNALS.table, SOURCES.table
    further = exists().where(
        sources.c.cluster == cluster,
        sources.c.source_id == signals.c.source_id,
        or_(sources.c.size > signals.c.torn, sources.c.reach > signals.c.torn),
    )
    for chunk in batches(sorted(source_ids), 5_000):
        connection.execute(
            delete(signals).where(
                signals.c.cluster == cluster, signals.c.source_id.in_(chunk), signals.c.torn >= 0, further
            )
        )
