"""The outbox of recommended actions: rows written with the decision, carried out by one other process.

A proposal whose decision changed or vanished is withdrawn, unless somebody has taken it up. Provisional decisions
propose nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, case, select, update

from schemas.identity import digest
from sql.dialect import batches, upsert
from sql.models import actions

_KEPT = ("state", "dry_run", "policy", "command", "result", "attempts", "created_at", "started_at", "finished_at")


def withdraw(connection: Connection, cluster: str, incident_ids: Collection[str]) -> None:
    """Take back the open proposals of these incidents."""
    for chunk in batches(sorted(incident_ids), 5_000):
        connection.execute(
            update(actions)
            .where(actions.c.cluster == cluster, actions.c.incident_id.in_(chunk), actions.c.state == "proposed")
            .values(state="withdrawn")
        )


def propose(connection: Connection, cluster: str, rows: Sequence[Mapping[str, Any]], now_us: int) -> None:
    """Propose the actions of decisions just written; one that was withdrawn a moment ago is open again."""
    proposals = [
        {
            "cluster": cluster,
            "action_id": digest("action", cluster, row["incident_id"], row["action"]["kind"], row["action"]["target"]),
            "incident_id": row["incident_id"],
            "fault_id": row["fault_id"],
            **{name: row["action"][name] for name in ("kind", "target", "why", "source")},
            "component": row["component"],
            "confidence": row["confidence"],
            "state": "proposed",
            "dry_run": True,
            "attempts": 0,
            "created_at": now_us,
        }
        for row in rows
        if row["incident"] and not row["provisional"] and row["action"] and row["action"]["kind"] != "none"
    ]
    statement = upsert(actions, connection.dialect.name, keep=_KEPT)
    for chunk in batches(proposals):
        connection.execute(statement, chunk)
        connection.execute(
            update(actions)
            .where(
                actions.c.cluster == cluster,
                actions.c.action_id.in_([p["action_id"] for p in chunk]),
                actions.c.state == "withdrawn",
            )
            .values(state="proposed")
        )


def open_actions(connection: Connection, cluster: str) -> list[dict[str, Any]]:
    """Proposals that nobody has taken up, the surest first."""
    query = (
        select(actions)
        .where(actions.c.cluster == cluster, actions.c.state == "proposed")
        .order_by(case((actions.c.kind == "collect_evidence", 1), else_=0), actions.c.confidence.desc())
        .order_by(actions.c.action_id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]
