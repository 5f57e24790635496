"""What the review reads: answers of saved queries, as rows by column name. Every number names the query behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sql.saved import run_query
from sql.store import Store
from sql.types import from_iso, iso

Row = dict[str, Any]

#: Saved queries that the review runs, and whether each takes a period.
QUERIES: Mapping[str, bool] = {
    "review_incidents": True,
    "review_attempts": True,
    "review_checkpoint_marks": True,
    "review_throughput": True,
    "review_handled": True,
    "review_to_label": True,
    "review_telemetry": True,
    "review_power": True,
    "review_unattributed": True,
    "review_coverage": False,
    "review_fleet": False,
    "review_false_alarms": False,
    "review_versions": False,
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a period. since_us, until_us: microseconds UTC, None where the data has no time at all."""

    cluster: str | None
    since_us: int | None
    until_us: int | None
    tables: dict[str, list[Row]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> list[Row]:
        return self.tables[name]


#: What an attempt kept is told by the attempts beside it, which may lie outside of the period.
_BESIDE_US = 2 * 86_400_000_000
_WIDER = ("review_attempts", "review_checkpoint_marks")


def read(store: Store, cluster: str | None, since_us: int | None, until_us: int | None) -> Rows:
    """Run all queries of the review for one period; attempts and their checkpoints from two days around it."""
    tables = {}
    for name, timed in QUERIES.items():
        given: dict[str, str | float | None] = {"cluster": cluster}
        if timed:
            wider = _BESIDE_US if name in _WIDER else 0
            given["since"] = None if since_us is None else iso(since_us - wider)
            given["until"] = None if until_us is None else iso(until_us + wider)
        columns, rows = run_query(store, name, given)
        tables[name] = [dict(zip(columns, row, strict=True)) for row in rows]
    return Rows(cluster, since_us, until_us, tables)


def bounds(store: Store, cluster: str | None) -> tuple[int, int] | None:
    """First start and last end of any attempt or incident, in microseconds UTC; None in an empty warehouse."""
    times = []
    for name, columns in (
        ("review_attempts", ("started_at", "ended_at")),
        ("review_incidents", ("interrupted_at", "onset_at")),
    ):
        names, rows = run_query(store, name, {"cluster": cluster})
        at = [names.index(c) for c in columns]
        times += [us for row in rows for i in at if (us := micros(row[i])) is not None]
    return (min(times), max(times)) if times else None


def micros(value: Any) -> int | None:  # noqa: ANN401 - a cell of an answer
    """A time of an answer in microseconds UTC."""
    return from_iso(value) if isinstance(value, str) and value else None


def seconds(value: Any) -> float | None:  # noqa: ANN401
    """A time of an answer in seconds since 1970 UTC."""
    us = micros(value)
    return None if us is None else us / 1e6


def document(value: Any) -> Any:  # noqa: ANN401
    """The value of a JSON cell."""
    return json.loads(value) if isinstance(value, str) and value else None
