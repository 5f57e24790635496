"""The table `fault`: one row a fault, however many jobs it stopped; made again for the faults that a load touched."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, delete, insert, select

from sql.dialect import batches
from sql.models import decisions, fault


def refresh_faults(connection: Connection, cluster: str, fault_ids: Collection[str]) -> None:
    """Make the rows of these faults from the current decisions: the surest decision names the component."""
    for chunk in batches(sorted(set(fault_ids) - {""}), 5_000):
        connection.execute(delete(fault).where(fault.c.cluster == cluster, fault.c.fault_id.in_(chunk)))
        d = decisions.c
        query = (
            select(d.fault_id, d.component, d.cause, d.first_host, d.subject_host, d.onset_at, d.kind)
            .where(d.cluster == cluster, d.fault_id.in_(chunk), d.incident)
            .order_by(d.fault_id, d.confidence.desc(), d.incident_id)
        )
        rows: dict[str, dict[str, object]] = {}
        onsets: dict[str, list[int]] = {}
        counts: dict[str, list[int]] = {}
        for fault_id, component, cause, first_host, host, onset, kind in connection.execute(query):
            rows.setdefault(
                fault_id,
                {
                    "cluster": cluster,
                    "fault_id": fault_id,
                    "component": component,
                    "cause": cause,
                    "host": first_host or host or None,
                },
            )
            onsets.setdefault(fault_id, []).extend([] if onset is None else [onset])
            count = counts.setdefault(fault_id, [0, 0])
            count[0] += 1
            count[1] += kind == "job_interruption"
        if rows:
            connection.execute(
                insert(fault),
                [
                    {
                        **row,
                        "onset_at": min(onsets[fault_id], default=None),
                        "n_incidents": counts[fault_id][0],
                        "n_interruptions": counts[fault_id][1],
                    }
                    for fault_id, row in rows.items()
                ],
            )
