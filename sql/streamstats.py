"""Counters of a stream's workers, one row of `meta` a worker: how they reach whoever shows them, on any runner.

A worker writes its own row, with all that it has counted since it began, so writing again changes nothing. Rows of
workers that ended stay until they are folded into one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, func, select

from sql.dialect import upsert
from sql.models import incident_outbox, job_runs, meta

if TYPE_CHECKING:
    from sql.store import Store

#: The row that holds what workers counted whose own rows are gone.
PAST = "past"


@dataclass(frozen=True, slots=True)
class Answer:
    """A row of the outbox of incidents. ended_us: end of its job run as known now; None for faults of hosts."""

    seq: int
    incident_id: str
    what: str
    provisional: bool
    incident: str | None
    created_us: int
    ended_us: int | None


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


def newest_answer(connection: Connection) -> int:
    """Number of the newest row of the outbox; 0 where there is none."""
    return connection.execute(select(func.max(incident_outbox.c.seq))).scalar() or 0


def answers_since(connection: Connection, cluster: str, seq: int) -> Iterator[Answer]:
    """Rows of the outbox behind this number, in order."""
    out, runs = incident_outbox.c, job_runs.c
    ended = (runs.run_key == out.subject_key) & (runs.cluster == out.cluster)
    query = (
        select(out.seq, out.incident_id, out.what, out.provisional, out.incident, out.created_us, runs.ended_at)
        .select_from(incident_outbox.outerjoin(job_runs, ended))
        .where(out.cluster == cluster, out.seq > seq)
        .order_by(out.seq)
    )
    for row in connection.execute(query):
        yield Answer(row[0], row[1], row[2], bool(row[3]), row[4], row[5], row[6])


def _prefix(cluster: str) -> str:
    return f"stream_stats:{cluster}:"
