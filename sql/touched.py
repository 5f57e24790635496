"""Sources that a stream changed, and how far that has been decided: durable, so that a killed process loses none.

Each load that changes a source gives it the next `mark`, in the transaction of the facts; changed rows bear it,
negative, as their `ingest_id`. Who decides reads the marks before the facts, and notes in the transaction of the
decisions up to which mark he has come. Rows stay afterwards: who keeps facts in memory sees by them what others have
loaded meanwhile. `generation` counts how often decisions of a cluster were written: whoever decided from facts that he
read before another one wrote sees it, and decides again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, select, update

from sql.dialect import batches, upsert
from sql.models import meta, signals, stream_touched

_KEYS = 5_000


@dataclass(frozen=True, slots=True)
class Mark:
    """How often a source was changed by a stream, up to which time that is decided, and when it last changed."""

    mark: int
    decided: int
    changed_us: int


def marks_of(connection: Connection, cluster: str, source_ids: Collection[str]) -> dict[str, Mark]:
    """Source id -> mark, of those of these sources that a stream has changed."""
    found: dict[str, Mark] = {}
    for chunk in batches(sorted(source_ids), _KEYS):
        found.update(_marks(connection, cluster, stream_touched.c.source_id.in_(chunk)))
    return found


def marks_since(connection: Connection, cluster: str, since_us: int | None) -> dict[str, Mark]:
    """Source id -> mark, of those that changed at or after a wall-clock time (None: ever) or are not decided."""
    table = stream_touched.c
    if since_us is None:
        return _marks(connection, cluster)
    return _marks(connection, cluster, (table.changed_us >= since_us) | (table.mark > table.decided_mark))


def _marks(connection: Connection, cluster: str, *conditions: object) -> dict[str, Mark]:
    table = stream_touched.c
    query = select(table.source_id, table.mark, table.decided_mark, table.changed_us)
    rows = connection.execute(query.where(table.cluster == cluster, *conditions))  # type: ignore[arg-type]
    return {source_id: Mark(mark, decided, at) for source_id, mark, decided, at in rows}


def undecided(connection: Connection, cluster: str) -> frozenset[str]:
    """Sources whose changes have not all been decided."""
    table = stream_touched.c
    return frozenset(_marks(connection, cluster, table.mark > table.decided_mark))


def write_marks(
    connection: Connection, cluster: str, source_ids: Iterable[str], known: Mapping[str, Mark], now_us: int
) -> None:
    """Give these sources their next mark. known: the marks that they have, read under the locks of the sources."""
    rows = []
    for source_id in sorted(source_ids):
        old = known.get(source_id)
        rows.append(
            {
                "cluster": cluster,
                "source_id": source_id,
                "mark": old.mark + 1 if old else 1,
                "decided_mark": old.decided if old else 0,
                "changed_us": now_us,
            }
        )
    statement = upsert(stream_touched, connection.dialect.name, keep=("decided_mark",))
    for chunk in batches(rows):
        connection.execute(statement, chunk)


def settle_marks(connection: Connection, cluster: str, marks: Mapping[str, int]) -> None:
    """Note that what sources had up to these marks is decided; what came since stays to be decided."""
    table = stream_touched
    statement = (
        update(table)
        .where(
            table.c.cluster == cluster,
            table.c.source_id == bindparam("b_source"),
            table.c.decided_mark < bindparam("b_mark"),
        )
        .values(decided_mark=bindparam("b_mark"))
    )
    for chunk in batches(sorted(marks.items())):
        connection.execute(statement, [{"b_source": source_id, "b_mark": mark} for source_id, mark in chunk])


def reopen_since(connection: Connection, cluster: str, since_us: int) -> None:
    """Have decided again what changed since a wall-clock time: someone else may have decided without it."""
    table = stream_touched
    connection.execute(
        update(table)
        .where(table.c.cluster == cluster, table.c.changed_us >= since_us, table.c.mark == table.c.decided_mark)
        .values(decided_mark=table.c.mark - 1)
    )


def forget_touched(connection: Connection, cluster: str, before_us: int) -> int:
    """Forget decided sources that have not changed since a wall-clock time; returns how many.

    Marks start at 1 again then, so the facts that bear old ones lose them.
    """
    table = stream_touched
    old = [
        source_id
        for source_id, mark in _marks(connection, cluster, table.c.changed_us < before_us).items()
        if mark.decided >= mark.mark
    ]
    for chunk in batches(sorted(old), _KEYS):
        connection.execute(
            update(signals)
            .where(signals.c.cluster == cluster, signals.c.source_id.in_(chunk), signals.c.ingest_id < 0)
            .values(ingest_id=0)
        )
        connection.execute(delete(table).where(table.c.cluster == cluster, table.c.source_id.in_(chunk)))
    return len(old)


def _name(cluster: str) -> str:
    return f"generation:{cluster}"


def generation(connection: Connection, cluster: str) -> int:
    """How many times decisions of this cluster were written while a stream ran."""
    value = connection.execute(select(meta.c.value).where(meta.c.name == _name(cluster))).scalar()
    return int(value or 0)


def next_generation(connection: Connection, cluster: str, seen: int) -> bool:
    """Count one more; False, and nothing done, where somebody else wrote since `seen`. Holds the cluster's lock."""
    if generation(connection, cluster) != seen:
        return False
    connection.execute(upsert(meta, connection.dialect.name), {"name": _name(cluster), "value": str(seen + 1)})
    return True
