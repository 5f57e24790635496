"""Labels, hosts, coverage, telemetry: functions on a connection; `Store` wraps them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, and_, delete, func, insert, select

from schemas.taxonomy import component as taxonomy_component
from sql.answers import find_subject
from sql.dialect import batches, upsert
from sql.models import coverage, hosts, incident_aliases, power_hourly, telemetry_hourly
from sql.models import labels as labels_table


@dataclass(frozen=True, slots=True)
class Label:
    """What a person said of one incident. when_us: microseconds since 1970 UTC."""

    cluster: str
    incident_id: str
    component: str
    note: str
    who: str
    when_us: int


def add_label(connection: Connection, incident_id: str, component: str, note: str, who: str, when_us: int) -> Label:
    """Write a label for the one incident that the id, or its beginning, names."""
    taxonomy_component(component)
    cluster, _, full_id = find_subject(connection, incident_id)
    row = {
        "cluster": cluster,
        "incident_id": full_id,
        "component": component,
        "note": note,
        "who": who,
        "labelled_at": when_us,
    }
    connection.execute(insert(labels_table), row)
    return Label(cluster, full_id, component, note, who, when_us)


def labels(connection: Connection, cluster: str | None) -> tuple[Label, ...]:
    """All labels in the order in which they were given, ids resolved."""
    table, alias = labels_table, incident_aliases
    current = func.coalesce(alias.c.incident_id, table.c.incident_id)
    query = (
        select(table.c.cluster, current, table.c.component, table.c.note, table.c.who, table.c.labelled_at)
        .select_from(
            table.outerjoin(alias, and_(alias.c.cluster == table.c.cluster, alias.c.alias == table.c.incident_id))
        )
        .order_by(table.c.label_id)
    )
    if cluster is not None:
        query = query.where(table.c.cluster == cluster)
    return tuple(Label(*row) for row in connection.execute(query))


def replace_coverage(
    connection: Connection,
    cluster: str,
    source_ids: Collection[str],
    rows: Iterable[tuple[str, str, str, int | None, int | None]],
) -> None:
    """Replace what these sources cover. rows: (source_id, host, what, from_us, to_us)."""
    for chunk in batches(sorted(set(source_ids)), 5_000):
        connection.execute(delete(coverage).where(coverage.c.cluster == cluster, coverage.c.source_id.in_(chunk)))
    names = ("source_id", "host", "what", "from_at", "to_at")
    unique = {row[:3]: {"cluster": cluster, **dict(zip(names, row, strict=True))} for row in rows}
    statement = upsert(coverage, connection.dialect.name)
    for part in batches(unique.values()):
        connection.execute(statement, part)


def upsert_hosts(connection: Connection, cluster: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Merge rows of `hosts`: first_seen_at by min, last_seen_at by max, else a new value wins over a known one."""
    columns = [column.name for column in hosts.columns if column.name not in ("cluster", "host")]
    merged: dict[str, dict[str, Any]] = {}
    for row in rows:
        _merge_host(merged.setdefault(row["host"], dict.fromkeys(columns)), row, columns)
    for chunk in batches(sorted(merged), 5_000):
        query = select(hosts).where(hosts.c.cluster == cluster, hosts.c.host.in_(chunk))
        known = {row["host"]: dict(row) for row in connection.execute(query).mappings()}
        out = []
        for name in chunk:
            row = known.get(name, dict.fromkeys(columns))
            _merge_host(row, merged[name], columns)
            out.append({**row, "cluster": cluster, "host": name})
        connection.execute(upsert(hosts, connection.dialect.name), out)


def replace_hosts(
    connection: Connection, cluster: str, rows: Sequence[Mapping[str, Any]], *, only_these: bool = False
) -> None:
    """Write what all hosts' logs say of them; rows (`host` and the same other columns each) that differ are written.

    only_these: hosts without a row stay as they are.
    """
    told = {row["host"]: dict(row) for row in rows}
    columns = sorted({name for row in rows for name in row if name != "host"})
    if not columns:
        return
    query = select(hosts).where(hosts.c.cluster == cluster)
    known: dict[str, dict[str, Any]] = {}
    for names in batches(sorted(told), 5_000) if only_these else [None]:
        some = query if names is None else query.where(hosts.c.host.in_(names))
        known.update({row["host"]: dict(row) for row in connection.execute(some).mappings()})
    blank = dict.fromkeys(columns)
    empty = dict.fromkeys(c.name for c in hosts.columns)
    changed = []
    for name in sorted(told.keys() | known.keys()):
        new = told.get(name, blank)
        old = known.get(name)
        if old is None or any(old[c] != new[c] for c in columns):
            changed.append({**empty, **(old or {}), **{c: new[c] for c in columns}, "cluster": cluster, "host": name})
    statement = upsert(hosts, connection.dialect.name)
    for chunk in batches(changed, 5_000):
        connection.execute(statement, chunk)


def _merge_host(into: dict[str, Any], row: Mapping[str, Any], columns: Iterable[str]) -> None:
    for name in columns:
        old, new = into.get(name), row.get(name)
        if new is None:
            continue
        if old is not None and name == "first_seen_at":
            new = min(old, new)
        elif old is not None and name == "last_seen_at":
            new = max(old, new)
        into[name] = new


def load_telemetry(connection: Connection, cluster: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write hourly telemetry; a row of the same key is replaced, unless it stands for more samples (a longer copy)."""
    _replace_hours(connection, cluster, telemetry_hourly, rows)


def load_power(connection: Connection, cluster: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write hours of `power_hourly`, as `load_telemetry` does."""
    _replace_hours(connection, cluster, power_hourly, rows)


def _replace_hours(connection: Connection, cluster: str, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
    keys = [column.name for column in table.primary_key if column.name != "cluster"]
    unique: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[k] for k in keys)
        if key not in unique or unique[key]["n"] <= row["n"]:
            unique[key] = {**row, "cluster": cluster}
    statement = upsert(table, connection.dialect.name, least="n")
    for chunk in batches(unique.values()):
        connection.execute(statement, chunk)
