"""Sources that a stream changed, and whether that has been decided: durable, so that a killed process loses none.

A row is written in the transaction of the facts and carries a new `mark` each time; who decides reads the marks
before the facts, and settles those marks only, in the transaction of the decisions. Rows stay afterwards: who keeps
facts in memory sees by them what others have loaded meanwhile. `generation` counts what was decided of a cluster:
whoever decided from facts that he read before another one wrote sees it, and decides again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, bindparam, delete, select, update

from sql.dialect import batches, upsert
from sql.models import meta, stream_touched


def mark_touched(connection: Connection, cluster: str, source_ids: Iterable[str], now_us: int) -> None:
    """Note that these sources have changed and are to be decided."""
    mark = secrets.randbits(62)
    rows = [
        {"cluster": cluster, "source_id": source_id, "mark": mark, "changed_us": now_us, "decided": False}
        for source_id in sorted(source_ids)
    ]
    statement = upsert(stream_touched, connection.dialect.name)
    for chunk in batches(rows):
        connection.execute(statement, chunk)


def marks_since(connection: Connection, cluster: str, since_us: int | None) -> dict[str, tuple[int, int, bool]]:
    """Source id -> (mark, wall-clock time, decided): of those that changed since a time, and all undecided ones."""
    table = stream_touched.c
    query = select(table.source_id, table.mark, table.changed_us, table.decided).where(table.cluster == cluster)
    if since_us is not None:
        query = query.where((table.changed_us >= since_us) | table.decided.is_(False))
    return {source_id: (mark, at, bool(done)) for source_id, mark, at, done in connection.execute(query)}


def undecided(connection: Connection, cluster: str) -> dict[str, int]:
    """Source id -> mark of what has not been decided."""
    table = stream_touched.c
    query = select(table.source_id, table.mark).where(table.cluster == cluster, table.decided.is_(False))
    return dict(connection.execute(query).tuples())


def settle_marks(connection: Connection, cluster: str, marks: Mapping[str, int]) -> None:
    """Note that what these marks stand for is decided; a source that changed since keeps its newer mark."""
    table = stream_touched
    statement = (
        update(table)
        .where(
            table.c.cluster == cluster,
            table.c.source_id == bindparam("b_source"),
            table.c.mark == bindparam("b_mark"),
            table.c.decided.is_(False),
        )
        .values(decided=True)
    )
    for chunk in batches(sorted(marks.items())):
        connection.execute(statement, [{"b_source": source_id, "b_mark": mark} for source_id, mark in chunk])


def reopen_since(connection: Connection, cluster: str, since_us: int) -> None:
    """Have decided again what changed since a wall-clock time: someone else may have decided without it."""
    table = stream_touched
    connection.execute(
        update(table).where(table.c.cluster == cluster, table.c.changed_us >= since_us).values(decided=False)
    )


def forget_touched(connection: Connection, cluster: str, before_us: int) -> int:
    """Forget decided rows that are older than this wall-clock time; returns how many."""
    table = stream_touched
    return connection.execute(
        delete(table).where(table.c.cluster == cluster, table.c.decided, table.c.changed_us < before_us)
    ).rowcount


def _name(cluster: str) -> str:
    return f"generation:{cluster}"


def generation(connection: Connection, cluster: str) -> int:
    """How many times a stream has written decisions of this cluster."""
    value = connection.execute(select(meta.c.value).where(meta.c.name == _name(cluster))).scalar()
    return int(value or 0)


def next_generation(connection: Connection, cluster: str, seen: int) -> bool:
    """Count one more; False, and nothing done, where somebody else wrote since `seen`. Holds the cluster's lock."""
    if generation(connection, cluster) != seen:
        return False
    connection.execute(upsert(meta, connection.dialect.name), {"name": _name(cluster), "value": str(seen + 1)})
    return True
