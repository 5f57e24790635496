"""Job runs in the table: functions on a connection; `Store` wraps them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, select

from schemas.subject import JobRun
from sql.dialect import batches, upsert
from sql.models import job_runs
from sql.runrows import run_of, run_row


def replace_runs(connection: Connection, cluster: str, runs: Sequence[JobRun], retract: Collection[str] = ()) -> None:
    """Write these runs as they are and remove those in `retract` (run keys)."""
    rows = {run.run_key: run_row(cluster, run) for run in runs}
    gone = sorted(set(retract) - rows.keys())
    for keys in batches(gone, 5_000):
        connection.execute(delete(job_runs).where(job_runs.c.cluster == cluster, job_runs.c.run_key.in_(keys)))
    for chunk in batches(rows.values()):
        connection.execute(upsert(job_runs, connection.dialect.name), chunk)


def read_runs(connection: Connection, cluster: str) -> tuple[JobRun, ...]:
    """All runs, sorted by key."""
    query = select(job_runs).where(job_runs.c.cluster == cluster).order_by(job_runs.c.run_key)
    return tuple([run_of(dict(row)) for row in connection.execute(query).mappings()])
