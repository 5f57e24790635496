"""What must be equal whatever the order, cut or repetition of loads, and whoever loaded: batch, stream, diagnose.

Sorted rows of job_runs, incidents, evidence and signals, without ingest ids, wall-clock columns, paths and
provisional rows. Ids are the current ones, so aliases are resolved.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnClause, Table, column, select, table

from sql import models
from sql.store import Store
from sql.types import Str, to_json

#: Columns that may differ between equal warehouses: when and by which load a row was written, and where files lay.
_APART: dict[str, frozenset[str]] = {
    "job_runs": frozenset(),
    "decisions": frozenset({"detected_at", "decided_at", "content"}),
    "evidence": frozenset({"source"}),
    "signals": frozenset({"ingest_id"}),
}
#: Columns of the view `incidents` that come from people or from other tables than `decisions`.
_OF_VIEW = (
    "resumed_at",
    "component",
    "llama3_row",
    "planned",
    "counts_as",
    "decided_by",
    "host",
    "rack",
    "driver_version",
)


def _columns(of: Table) -> list[Any]:
    return [c for c in of.columns if c.name not in _APART[of.name]]


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=to_json)


def dump_same(store: Store) -> dict[str, list[dict[str, Any]]]:
    """Rows by table, each a dict, sorted; times in microseconds since 1970 UTC."""
    d = models.decisions
    typed: list[ColumnClause[Any]] = [column(name, d.c[name].type if name in d.c else Str()) for name in _OF_VIEW]
    view = table("incidents", *typed, column("cluster", Str()), column("subject_key", Str()))
    shown = [view.c[name].label(name) for name in _OF_VIEW]
    facts = [c for c in _columns(d) if c.name not in _OF_VIEW]
    queries = {
        "job_runs": select(*_columns(models.job_runs)),
        "incidents": select(*facts, *shown)
        .join(view, (view.c.cluster == d.c.cluster) & (view.c.subject_key == d.c.subject_key))
        .where(d.c.provisional.is_(False)),
        "evidence": select(*_columns(models.evidence))
        .join(d, (models.evidence.c.cluster == d.c.cluster) & (models.evidence.c.subject_key == d.c.subject_key))
        .where(d.c.provisional.is_(False), d.c.incident),
        "signals": select(*_columns(models.signals)),
    }
    with store.reading() as connection:
        return {
            name: _sorted([dict(row) for row in connection.execute(query).mappings()])
            for name, query in queries.items()
        }


def same_bytes(store: Store) -> bytes:
    """`dump_same` as bytes, one row a line: equal warehouses give equal bytes."""
    lines = [f"{name}\t{to_json(row)}" for name, rows in sorted(dump_same(store).items()) for row in rows]
    return "\n".join(lines).encode()
