"""Reading facts back, equal to what was loaded. Functions on a connection; `Store` wraps them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, bindparam, or_, select, update

from sql.dialect import batches, driver_many, moment
from sql.factrows import SIGNALS, Kind
from sql.load import Tally, Touched
from sql.models import ingests, run_fragments, signals, sources, training_progress
from sql.types import storable

F = TypeVar("F")
_KEYS = 5_000

#: (signal_id, host, first_us, last_us, signal, component, device): what placing a signal derived; times in UTC.
Placement = tuple[str, str | None, int | None, int | None, str | None, str | None, str | None]
#: (source_id, cell, first_us, last_us, run_key): what placing progress derived; times in UTC.
ProgressPlacement = tuple[str, int, int | None, int | None, str | None]


def _chosen(kind: Kind[F], cluster: str, source_ids: Collection[str] | None) -> Iterator[Select[Any]]:
    table = kind.table
    columns = [c for c in table.columns if c.name not in kind.derived and c.name not in ("cluster", "ingest_id")]
    keys = [c for c in table.primary_key if c.name != "cluster"]
    query = select(*columns).where(table.c.cluster == cluster).order_by(*keys)
    if source_ids is None:
        yield query
        return
    for chunk in batches(sorted(set(source_ids)), _KEYS):
        yield query.where(table.c.source_id.in_(chunk))


def read(
    connection: Connection, kind: Kind[F], cluster: str, source_ids: Collection[str] | None = None
) -> tuple[F, ...]:
    """Facts of one kind, sorted by key."""
    found: list[F] = []
    for query in _chosen(kind, cluster, source_ids):
        found.extend([kind.fact(row) for row in connection.execute(query).mappings()])
    if source_ids is not None and len(source_ids) > _KEYS:
        found.sort(key=kind.key)
    return tuple(found)


def read_signals(
    connection: Connection,
    cluster: str,
    source_ids: Collection[str] | None,
    since_us: int | None,
    until_us: int | None,
    *,
    include_untimed: bool,
) -> tuple[Any, ...]:
    """Signals whose placed interval meets [since_us, until_us], sorted by id."""
    table = signals.c
    found: list[Any] = []
    for query in _chosen(SIGNALS, cluster, source_ids):
        timed = []
        if since_us is not None:
            timed.append(table.last_at >= since_us)
        if until_us is not None:
            timed.append(table.first_at <= until_us)
        chosen = query
        if timed and include_untimed:
            condition = timed[0] if len(timed) == 1 else timed[0] & timed[1]
            chosen = query.where(or_(table.first_at.is_(None), condition))
        elif timed:
            chosen = query.where(*timed)
        elif not include_untimed:
            chosen = query.where(table.first_at.is_not(None))
        found.extend([SIGNALS.fact(row) for row in connection.execute(chosen).mappings()])
    if source_ids is not None and len(source_ids) > _KEYS:
        found.sort(key=SIGNALS.key)
    return tuple(found)


def read_signals_with(connection: Connection, cluster: str, text: str) -> tuple[Any, ...]:
    """Signals whose text holds this, sorted by id."""
    (query,) = _chosen(SIGNALS, cluster, None)
    found = connection.execute(query.where(signals.c.text.contains(text, autoescape=True))).mappings()
    return tuple([SIGNALS.fact(row) for row in found])


def update_placements(connection: Connection, rows: Iterable[Placement], cluster: str | None) -> int:
    """Fill the derived columns of signals; returns the number of rows given."""
    statement = (
        update(signals)
        .where(signals.c.signal_id == bindparam("b_id"))
        .values({name: bindparam(f"b_{name}") for name in SIGNALS.derived})
    )
    fixed: dict[str, str] = {}
    if cluster is not None:
        statement = statement.where(signals.c.cluster == bindparam("b_cluster"))
        fixed["b_cluster"] = cluster
    names = ("b_host", "b_first_at", "b_last_at", "b_signal", "b_component", "b_device", "b_id")
    run = driver_many(connection, statement, names)
    of, total = moment(connection.dialect.name), 0
    for chunk in batches(rows):
        run(
            [
                {
                    **fixed,
                    "b_id": signal_id,
                    "b_host": host and storable(host),
                    "b_first_at": None if first is None else of(first),
                    "b_last_at": None if last is None else of(last),
                    "b_signal": signal and storable(signal),
                    "b_component": component,
                    "b_device": device and storable(device),
                }
                for signal_id, host, first, last, signal, component, device in chunk
            ]
        )
        total += len(chunk)
    return total


def update_progress_placements(connection: Connection, cluster: str, rows: Iterable[ProgressPlacement]) -> int:
    """Fill the derived columns of training progress; returns the number of rows given."""
    table = training_progress
    statement = (
        update(table)
        .where(
            table.c.cluster == cluster, table.c.source_id == bindparam("b_source"), table.c.cell == bindparam("b_cell")
        )
        .values(first_at=bindparam("b_first"), last_at=bindparam("b_last"), run_key=bindparam("b_run"))
    )
    names = ("b_source", "b_cell", "b_first", "b_last", "b_run")
    total = 0
    for chunk in batches(rows):
        connection.execute(statement, [dict(zip(names, row, strict=True)) for row in chunk])
        total += len(chunk)
    return total


def pending(connection: Connection, cluster: str) -> Touched:
    """What ingests that never finished have changed: their subjects may not have been decided."""
    unfinished = select(ingests.c.ingest_id).where(ingests.c.cluster == cluster, ingests.c.finished_at.is_(None))
    tally = Tally()
    for table in (sources, signals, training_progress, run_fragments):
        query = select(table.c.source_id).where(table.c.cluster == cluster, table.c.ingest_id.in_(unfinished))
        ids = [source_id for (source_id,) in connection.execute(query)]
        if ids:
            tally.rows[table.name] = len(ids)
            tally.source_ids.update(ids)
    return tally.done()
