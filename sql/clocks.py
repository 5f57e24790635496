"""With which clock and host each source was last decided: what differs from it has moved, and is decided again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, bindparam, select, update

from sql.dialect import batches
from sql.models import sources

_KEYS = 5_000


def clock_marks(connection: Connection, cluster: str, source_ids: Collection[str] | None = None) -> dict[str, str]:
    """Source id -> digest of the clock that it was last decided with; sources never decided are left out."""
    query = select(sources.c.source_id, sources.c.clock).where(
        sources.c.cluster == cluster, sources.c.clock.is_not(None)
    )
    if source_ids is None:
        return {source_id: str(mark) for source_id, mark in connection.execute(query)}
    found: dict[str, str] = {}
    for chunk in batches(sorted(source_ids), _KEYS):
        some = query.where(sources.c.source_id.in_(chunk))
        found.update({source_id: str(mark) for source_id, mark in connection.execute(some)})
    return found


def write_clock_marks(connection: Connection, cluster: str, marks: Mapping[str, str]) -> None:
    """Remember the clocks that sources were decided with."""
    statement = (
        update(sources)
        .where(sources.c.cluster == cluster, sources.c.source_id == bindparam("b_source"))
        .values(clock=bindparam("b_clock"))
    )
    for chunk in batches(sorted(marks.items())):
        connection.execute(statement, [{"b_source": source_id, "b_clock": mark} for source_id, mark in chunk])
