"""Counters of a stream's workers, one row of `meta` a worker: how they reach whoever shows them, on any runner.

A worker writes its own row, with all that it has counted since it began, so writing again changes nothing. Rows of
workers that ended stay until they are folded into one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select

from sql.dialect import upsert
from sql.models import meta

if TYPE_CHECKING:
    from sql.store import Store

#: The row that holds what workers counted whose own rows are gone.
PAST = "past"


def write_stats(store: Store, cluster: str, worker: str, text: str) -> None:
    """Replace the row of a worker. Raises CannotConnect where the database is away."""
    with store.writing() as connection:
        connection.execute(upsert(meta, store.dialect), {"name": _prefix(cluster) + worker, "value": text})


def read_stats(connection: Connection, cluster: str) -> dict[str, str]:
    """Worker -> what it wrote last."""
    prefix = _prefix(cluster)
    query = select(meta.c.name, meta.c.value).where(meta.c.name.startswith(prefix, autoescape=True))
    found = {name.removeprefix(prefix): value for name, value in connection.execute(query)}
    return {worker: value for worker, value in found.items() if ":" not in worker}  # not of a cluster named `x:y`


def fold_stats(
    store: Store, cluster: str, fold: Callable[[Mapping[str, str]], tuple[Iterable[str], str] | None]
) -> None:
    """Replace rows by their sum, in one transaction.

    fold: is given all rows; returns the workers whose rows go and the text of the row `past` that holds them, or None.
    """
    with store.writing(derived_of=cluster) as connection:
        done = fold(read_stats(connection, cluster))
        if done is None:
            return
        gone, past = done
        names = [_prefix(cluster) + worker for worker in gone]
        connection.execute(delete(meta).where(meta.c.name.in_(names)))
        connection.execute(upsert(meta, store.dialect), {"name": _prefix(cluster) + PAST, "value": past})


def _prefix(cluster: str) -> str:
    return f"stream_stats:{cluster}:"
