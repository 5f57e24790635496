"""Ids of incidents that were replaced, and where they went. Labels follow: they are resolved when read.

An id is replaced when its subject gets another id, or when its subject is retracted and its root evidence turns up in
the decision of another subject (a host fault that became a job's interruption, a log's run that was adopted).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select, update

from sql.dialect import batches, upsert
from sql.models import decisions, evidence, incident_aliases

Row = Mapping[str, Any]
_ROLE_ORDER = {"root": 0, "cascade": 1, "teardown": 2, "context": 3}


def successors(
    connection: Connection,
    cluster: str,
    old_rows: Sequence[Row],
    new: Sequence[tuple[Row, Sequence[Row]]],
) -> dict[str, str]:
    """Old id -> new id for stored decisions that are about to be replaced or retracted.

    Must run before the old evidence is removed. Of several heirs the one in which the old root plays the greatest
    part wins, then the smallest id, so that the order of the decisions cannot show.
    """
    incidents = [(row, items) for row, items in new if row["incident"]]
    by_subject = {row["subject_key"]: row["incident_id"] for row, _ in incidents}
    kept = set(by_subject.values())
    lost = [row for row in old_rows if row["incident"] and row["incident_id"] not in kept]
    moves = {row["incident_id"]: by_subject[row["subject_key"]] for row in lost if row["subject_key"] in by_subject}
    orphans = {row["subject_key"]: row["incident_id"] for row in lost if row["incident_id"] not in moves}
    if not orphans:
        return moves
    heirs: dict[str, tuple[int, str]] = {}
    for row, items in incidents:
        for item in items:
            entry = (_ROLE_ORDER.get(item["role"], 9), row["incident_id"])
            heirs[item["evidence_id"]] = min(entry, heirs.get(item["evidence_id"], entry))
    best: dict[str, tuple[int, str]] = {}
    for chunk in batches(sorted(orphans), 5_000):
        query = select(evidence.c.subject_key, evidence.c.evidence_id).where(
            evidence.c.cluster == cluster, evidence.c.subject_key.in_(chunk), evidence.c.role == "root"
        )
        for subject_key, evidence_id in connection.execute(query):
            if evidence_id in heirs:
                heir = heirs[evidence_id]
                best[subject_key] = min(heir, best.get(subject_key, heir))
    moves.update({orphans[subject_key]: new_id for subject_key, (_, new_id) in best.items()})
    return moves


def follow(connection: Connection, cluster: str, moves: Mapping[str, str], live: Collection[str]) -> None:
    """Record that ids moved; chains are kept one step long. An id that is in use again is no alias any more."""
    table = incident_aliases
    for chunk in batches(sorted({*live, *moves.values()}), 5_000):
        connection.execute(delete(table).where(table.c.cluster == cluster, table.c.alias.in_(chunk)))
    statement = upsert(table, connection.dialect.name)
    for old, new in sorted(moves.items()):
        if old == new:
            continue
        connection.execute(
            update(table).where(table.c.cluster == cluster, table.c.incident_id == old).values(incident_id=new)
        )
        connection.execute(statement, {"cluster": cluster, "alias": old, "incident_id": new})


def resolve(connection: Connection, incident_id: str, cluster: str | None = None) -> list[tuple[str, str, str]]:
    """(cluster, subject key, incident id) of the incidents that an id, an old id, or the beginning of one names."""
    found: dict[tuple[str, str, str], None] = {}
    pattern = incident_id.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    alias_query = select(incident_aliases.c.cluster, incident_aliases.c.incident_id).where(
        incident_aliases.c.alias.like(pattern, escape="\\")
    )
    wanted = [(c, i) for c, i in connection.execute(alias_query)]
    columns = select(decisions.c.cluster, decisions.c.subject_key, decisions.c.incident_id).where(decisions.c.incident)
    if cluster is not None:
        columns = columns.where(decisions.c.cluster == cluster)
    for row in connection.execute(columns.where(decisions.c.incident_id.like(pattern, escape="\\"))):
        found[(row[0], row[1], row[2])] = None
    for of_cluster, new_id in wanted:
        query = columns.where(decisions.c.cluster == of_cluster, decisions.c.incident_id == new_id)
        for row in connection.execute(query):
            found[(row[0], row[1], row[2])] = None
    exact = [entry for entry in found if entry[2] == incident_id]
    return sorted(exact or found)
