"""Small macros that let one SQL text serve both databases, and the merging upsert.

A macro takes plain column names or constants, never another call with a comma in it:
`@epoch(c)` seconds since 1970 as a float; `@week(c)` the Monday of the ISO week, `@day(c)` the date, both as text
`YYYY-MM-DD` in UTC; `@hour(c)` hour of the day 0..23 in UTC; `@iso(c)` the moment as ISO-8601 text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

from sql.types import iso, to_datetime

Rows = list[dict[str, Any]]
F = TypeVar("F")
#: Rows of one executemany and keys of one look-up.
BATCH = 10_000

_MACRO = re.compile(r"@(epoch|week|day|hour|iso)\(([A-Za-z0-9_.:]+)\)")

_SQLITE = {
    "epoch": "(CAST(strftime('%s', substr({0}, 1, 19)) AS REAL) + CAST(substr({0}, 21, 6) AS REAL) / 1000000.0)",
    "week": "date(substr({0}, 1, 19), 'weekday 0', '-6 days')",
    "day": "substr({0}, 1, 10)",
    "hour": "CAST(substr({0}, 12, 2) AS INTEGER)",
    "iso": "{0}",
}
_POSTGRES = {
    "epoch": "CAST(extract(epoch FROM {0}) AS double precision)",
    "week": "to_char(date_trunc('week', {0} AT TIME ZONE 'UTC'), 'YYYY-MM-DD')",
    "day": "to_char({0} AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
    "hour": "CAST(extract(hour FROM {0} AT TIME ZONE 'UTC') AS integer)",
    "iso": "to_char({0} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24\\:MI\\:SS.US\"Z\"')",
}


def expand(text: str, dialect: str) -> str:
    """The SQL text with its macros written out for `sqlite` or `postgresql`, for use in `sqlalchemy.text`."""
    table = _POSTGRES if dialect == "postgresql" else _SQLITE
    return _MACRO.sub(lambda m: table[m[1]].format(m[2]), text)


def batches(items: Iterable[F], size: int = BATCH) -> Iterator[list[F]]:
    """The items in lists of at most `size`."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def driver_many(connection: Connection, statement: Any, names: Sequence[str]) -> Callable[[Rows], None]:  # noqa: ANN401
    """Runs a statement over many rows by the driver's executemany: twice as fast as through SQLAlchemy's processors.

    The rows must hold what the driver takes: storable text, JSON as text, moments by `moment`.
    """
    compiled = statement.compile(dialect=connection.dialect, column_keys=list(names))
    order: list[str] | None = compiled.positiontup

    def run(rows: Rows) -> None:
        values: Any = rows if order is None else [tuple([row[name] for name in order]) for row in rows]
        connection.exec_driver_sql(str(compiled), values)

    return run


def moment(dialect: str) -> Callable[[int], Any]:
    """How the driver takes microseconds since 1970 UTC."""
    return to_datetime if dialect == "postgresql" else iso


def upsert(table: Table, dialect: str, *, keep: Sequence[str] = (), least: str = "") -> Any:  # noqa: ANN401 - two dialects' Insert
    """INSERT that replaces the row of the same primary key; columns in `keep` stay as they are in that row.

    least: a column that must not fall: a row with a larger value there is left as it is.
    """
    insert: Any = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    keys = [column.name for column in table.primary_key]
    values = {
        column.name: insert.excluded[column.name]
        for column in table.columns
        if column.name not in keys and column.name not in keep
    }
    if not values:
        return insert.on_conflict_do_nothing(index_elements=keys)
    where = insert.excluded[least] >= table.c[least] if least else None
    return insert.on_conflict_do_update(index_elements=keys, set_=values, where=where)
