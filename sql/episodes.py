"""When the episodes that have a decision were: what a load does not touch need not be read to know that it stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import Connection, delete, select

from sql.dialect import batches, upsert
from sql.models import decisions, episodes

Span = tuple[int, int]


def read_spans(connection: Connection, cluster: str) -> tuple[dict[str, Span | None], frozenset[str]]:
    """(key of each decided episode -> its times, None without a clock; keys of those whose times are unknown)."""
    table, d = episodes, decisions
    query = (
        select(d.c.subject_key, table.c.subject_key, table.c.from_us, table.c.to_us)
        .select_from(d.outerjoin(table, (table.c.cluster == d.c.cluster) & (table.c.subject_key == d.c.subject_key)))
        # tickets of a site are decided by no log: their times are not looked at
        .where(d.c.cluster == cluster, d.c.kind == "host_fault", d.c.decided_by != "ticket")
    )
    spans: dict[str, Span | None] = {}
    unknown: set[str] = set()
    for key, known, low, high in connection.execute(query):
        if known is None:
            unknown.add(key)
        else:
            spans[key] = None if low is None or high is None else (low, high)
    return spans, frozenset(unknown)


def write_spans(
    connection: Connection, cluster: str, spans: Mapping[str, Span | None], gone: Collection[str] = ()
) -> None:
    """Note the times of these episodes, and forget those that are gone."""
    table = episodes
    for chunk in batches(sorted(set(gone) - spans.keys()), 5_000):
        connection.execute(delete(table).where(table.c.cluster == cluster, table.c.subject_key.in_(chunk)))
    statement = upsert(table, connection.dialect.name)
    rows = (
        {"cluster": cluster, "subject_key": k, "from_us": s and s[0], "to_us": s and s[1]}
        for k, s in sorted(spans.items())
    )
    for part in batches(rows):
        connection.execute(statement, part)
