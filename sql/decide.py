"""Replacing decisions: each subject's decision, evidence and health rows as a whole, inside the caller's transaction.

Guard: (ruleset number, model number, revision, final before provisional); an older decision never replaces a newer
one, an equal one is not written again. History, aliases, faults and the outbox of actions are kept in step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from schemas.subject import Decision
from sql.aliases import follow, successors
from sql.dialect import batches, upsert
from sql.faults import refresh_faults
from sql.models import decisions, evidence, health_events, incident_revisions
from sql.outbox import propose, withdraw
from sql.published import outgoing_rows, write_outgoing
from sql.rows import content_digest, decision_row, event_rows

Row = Mapping[str, Any]
#: Parameters of one statement that looks rows up.
_KEYS = 5_000


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one incident. before and after: (component, cause, confidence), None where there was none."""

    incident_id: str
    job_id: str | None
    what: str  # new | changed | retracted
    before: tuple[str, str, float] | None
    after: tuple[str, str, float] | None


@dataclass(frozen=True, slots=True)
class Replaced:
    """What `replace_decisions` did: subjects written, unchanged (equal), and kept (the stored one is newer)."""

    written: int
    unchanged: int
    kept: int
    retracted: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A decision as the rows that it becomes."""

    decision: Decision
    row: dict[str, Any]
    evidence: list[dict[str, Any]]
    health: list[dict[str, Any]]

    @property
    def subject_key(self) -> str:
        return str(self.row["subject_key"])


def guard_key(row: Row) -> tuple[int, tuple[int, ...], int, bool]:
    """Orders decisions of one subject: a decision is never replaced by one that sorts before it."""
    model = tuple(int(n) for n in re.findall(r"\d+", row["model_version"]))
    return (row["rules_version"], model, row["revision"], not row["provisional"])


def _older(new: Row, old: Row, latest: bool, reopened: bool) -> bool:
    """Whether `new` must not replace `old`. `latest`: revisions are not compared, only ruleset, model and finality.

    reopened: the subject went on, so that its answer may be provisional again.
    """
    a, b = guard_key(new), guard_key(old)
    if latest and reopened:
        return (a[0], a[1]) < (b[0], b[1])
    return (a[0], a[1], a[3]) < (b[0], b[1], b[3]) if latest else a < b


def prepare(cluster: str, decision: Decision) -> _Prepared:
    row = decision_row(cluster, decision)
    events = event_rows(cluster, decision, decision.evidence)
    health = event_rows(cluster, decision, decision.health)
    row["content"] = content_digest(row, events, health)
    return _Prepared(decision, row, events, health)


def _answer(row: Row) -> tuple[str, str, float]:
    return (row["component"], row["cause"], row["confidence"])


#: What of a stored decision is looked at: not its documents, which are long.
_LOOKED_AT = (
    *("cluster", "subject_key", "incident", "incident_id", "fault_id", "job_id", "component", "cause", "confidence"),
    *("decided_by", "rules_version", "model_version", "revision", "provisional", "content", "detected_at"),
)


def _stored(connection: Connection, cluster: str, keys: Iterable[str]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for chunk in batches(sorted(keys), _KEYS):
        columns = [decisions.c[name] for name in _LOOKED_AT]
        query = select(*columns).where(decisions.c.cluster == cluster, decisions.c.subject_key.in_(chunk))
        if connection.dialect.name == "postgresql":
            query = query.order_by(decisions.c.subject_key).with_for_update()
        found.update({row["subject_key"]: row for row in connection.execute(query).mappings()})
    return found


def _revision(row: Row, what: str, now_us: int) -> dict[str, Any]:
    names = ("cluster", "incident_id", "subject_key", "component", "cause", "confidence", "decided_by")
    more = ("rules_version", "model_version", "revision", "provisional")
    return {**{name: row[name] for name in (*names, *more)}, "what": what, "changed_at": now_us}


def _change(old: Row | None, new: Row | None) -> Change | None:
    """What the two rows of a subject mean for its incident, if anything."""
    before = _answer(old) if old is not None and old["incident"] else None
    after = _answer(new) if new is not None and new["incident"] else None
    row = new if after is not None else old
    if before == after or row is None:
        return None
    what = "new" if before is None else "retracted" if after is None else "changed"
    return Change(row["incident_id"], row["job_id"], what, before, after)


def replace_decisions(
    connection: Connection,
    cluster: str,
    new: Sequence[Decision],
    retract: Collection[str],
    now_us: int,
    aliases: Mapping[str, str],
    latest: bool = False,
    reopened: Collection[str] = (),
    document: Callable[[Decision], str] | None = None,
) -> Replaced:
    """See `Store.replace_decisions`."""
    prepared: dict[str, _Prepared] = {}
    for item in (prepare(cluster, decision) for decision in new):
        twin = prepared.setdefault(item.subject_key, item)
        if guard_key(item.row) > guard_key(twin.row):
            prepared[item.subject_key] = item
    gone = set(retract) - prepared.keys()
    stored = _stored(connection, cluster, prepared.keys() | gone)
    write: list[_Prepared] = []
    changes: list[Change] = []
    history: list[dict[str, Any]] = []
    unchanged = 0
    kept: set[str] = set()
    for key in sorted(prepared):
        item, old = prepared[key], stored.get(key)
        if old is not None and _older(item.row, old, latest, key in reopened):
            kept.add(key)
            continue
        if old is not None and old["content"] == item.row["content"]:
            unchanged += 1
            continue
        first = old["detected_at"] if old is not None and old["incident"] else None
        item.row["detected_at"] = (first or now_us) if item.row["incident"] else None
        item.row["decided_at"] = now_us
        write.append(item)
        change = _change(old, item.row)
        if change is not None:
            changes.append(change)
            history.append(_revision(item.row if change.after is not None or old is None else old, change.what, now_us))
    retracted = [stored[key] for key in sorted(gone & stored.keys())]
    for old in retracted:
        change = _change(old, None)
        if change is not None:
            changes.append(change)
            history.append(_revision(old, "retracted", now_us))

    replaced = [stored[item.subject_key] for item in write if item.subject_key in stored]
    current = [(item.row, item.evidence) for key, item in prepared.items() if key not in kept]
    moves = successors(connection, cluster, [*replaced, *retracted], current)
    _inherit_detection(write, [*replaced, *retracted], moves)
    _remove(connection, cluster, [row["subject_key"] for row in (*replaced, *retracted)])
    _write(connection, write)
    if history:
        connection.execute(insert(incident_revisions), history)
    live = {item.row["incident_id"] for item in write if item.row["incident"]}
    follow(connection, cluster, {**moves, **aliases}, live)
    touched = {row["fault_id"] for row in (*replaced, *retracted)} | {item.row["fault_id"] for item in write}
    refresh_faults(connection, cluster, touched)
    if document is not None:
        _tell(connection, write, retracted, stored, {**moves, **aliases}, document, now_us)
    withdraw(connection, cluster, {row["incident_id"] for row in (*replaced, *retracted)})
    propose(connection, cluster, [item.row for item in write], now_us)
    return Replaced(len(write), unchanged, len(kept), len(retracted), tuple(changes))


def _inherit_detection(write: Sequence[_Prepared], old_rows: Sequence[Row], moves: Mapping[str, str]) -> None:
    """An incident that goes on under another id or subject was detected when the old one was."""
    known: dict[str, int] = {}
    for row in old_rows:
        heir = moves.get(row["incident_id"])
        if heir is not None and row["detected_at"] is not None:
            known[heir] = min(row["detected_at"], known.get(heir, row["detected_at"]))
    for item in write:
        if item.row["incident"] and item.row["incident_id"] in known:
            item.row["detected_at"] = min(item.row["detected_at"], known[item.row["incident_id"]])


def _tell(
    connection: Connection,
    write: Sequence[_Prepared],
    retracted: Sequence[Row],
    stored: Mapping[str, Row],
    moves: Mapping[str, str],
    document: Callable[[Decision], str],
    now_us: int,
) -> None:
    """Put what changed into the outbox of incidents."""
    rows: list[dict[str, Any]] = []
    for item in write:
        rows.extend(
            outgoing_rows(stored.get(item.subject_key), item.row, partial(document, item.decision), moves, now_us)
        )
    for old in retracted:
        rows.extend(outgoing_rows(old, None, str, moves, now_us))
    write_outgoing(connection, rows)


def _remove(connection: Connection, cluster: str, keys: Sequence[str]) -> None:
    for table in (evidence, health_events, decisions):
        for chunk in batches(keys, _KEYS):
            connection.execute(delete(table).where(table.c.cluster == cluster, table.c.subject_key.in_(chunk)))


def _write(connection: Connection, items: Sequence[_Prepared]) -> None:
    if not items:
        return
    statement = upsert(decisions, connection.dialect.name)
    for chunk in batches(items):
        connection.execute(statement, [item.row for item in chunk])
    for table, rows in (
        (evidence, [row for item in items for row in item.evidence]),
        (health_events, [row for item in items for row in item.health]),
    ):
        for part in batches(rows):
            connection.execute(insert(table), part)


def set_detected(connection: Connection, cluster: str, subject_key: str, detected_us: int) -> None:
    """Put the wall-clock time of detection of one subject (a stream knows it better than the load)."""
    where = (decisions.c.cluster == cluster, decisions.c.subject_key == subject_key)
    connection.execute(update(decisions).where(*where).values(detected_at=detected_us))
