"""Reading decisions back as `Decision` objects. Functions on a connection; `Store` wraps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, func, or_, select

from schemas.subject import Decision
from sql.aliases import resolve
from sql.dialect import batches
from sql.errors import UnknownIncident
from sql.models import decisions, evidence, health_events
from sql.rows import decision_of

_KEYS = 5_000


def find_subject(connection: Connection, incident_id: str, cluster: str | None = None) -> tuple[str, str, str]:
    """(cluster, subject key, incident id) of the one incident that the id, or its beginning, names."""
    found = resolve(connection, incident_id, cluster) if incident_id else []
    if not found:
        msg = f"no incident {incident_id!r} in this warehouse: list them with faultbeam query incidents"
        raise UnknownIncident(msg)
    if len(found) > 1:
        some = ", ".join(f"{i} ({c})" for c, _, i in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        msg = f"{incident_id!r} names {len(found)} incidents: {some}{more}; give more of the id, or --cluster"
        raise UnknownIncident(msg)
    return found[0]


def _events(connection: Connection, table: Table, cluster: str, keys: Sequence[str]) -> dict[str, list[Any]]:
    query = (
        select(table)
        .where(table.c.cluster == cluster, table.c.subject_key.in_(keys))
        .order_by(table.c.subject_key, table.c.seq)
    )
    found: dict[str, list[Any]] = {}
    for row in connection.execute(query).mappings():
        found.setdefault(row["subject_key"], []).append(row)
    return found


def read_decisions(connection: Connection, cluster: str, keys: Sequence[str]) -> list[Decision]:
    """Decisions of these subjects, in this order; unknown subjects are left out."""
    found: dict[str, Decision] = {}
    for chunk in batches(keys, _KEYS):
        query = select(decisions).where(decisions.c.cluster == cluster, decisions.c.subject_key.in_(chunk))
        roots = _events(connection, evidence, cluster, chunk)
        health = _events(connection, health_events, cluster, chunk)
        for row in connection.execute(query).mappings():
            key = row["subject_key"]
            found[key] = decision_of(dict(row), roots.get(key, []), health.get(key, []))
    return [found[key] for key in keys if key in found]


def list_decisions(
    connection: Connection,
    cluster: str | None,
    *,
    since_us: int | None,
    until_us: int | None,
    job_id: str | None,
    host: str | None,
    incidents_only: bool,
) -> tuple[Decision, ...]:
    """See `Store.list_decisions`."""
    d = decisions.c
    when = func.coalesce(d.interrupted_at, d.onset_at, type_=d.onset_at.type)
    query = select(d.cluster, d.subject_key).order_by(when, d.subject_key)
    if cluster is not None:
        query = query.where(d.cluster == cluster)
    if since_us is not None:
        query = query.where(when >= since_us)
    if until_us is not None:
        query = query.where(when < until_us)
    if job_id is not None:
        query = query.where(d.job_id == job_id)
    if host is not None:
        query = query.where(or_(d.first_host == host, d.subject_host == host))
    if incidents_only:
        query = query.where(d.incident)
    order = [(c, k) for c, k in connection.execute(query)]
    by_cluster: dict[str, list[str]] = {}
    for of_cluster, key in order:
        by_cluster.setdefault(of_cluster, []).append(key)
    found = {
        (of_cluster, decision.subject_key): decision
        for of_cluster, keys in by_cluster.items()
        for decision in read_decisions(connection, of_cluster, keys)
    }
    return tuple(found[entry] for entry in order)
