"""Incidents for other systems: rows written in the transaction of the decision, delivered by one relay, at least once.

A consumer sees every incident as `new`, then `changed` whenever any part of it changes (a final answer that replaces a
provisional one as well), and `retracted` when it is no more; `replaced_by` names the id under which it lives on.
Messages of one incident are delivered in the order in which they were written; one that was delivered just before the
relay died is delivered again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select, update

from sql.dialect import batches
from sql.models import incident_outbox

if TYPE_CHECKING:
    from sql.store import Store

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message. seq: order of writing. revision: number of facts seen. incident: JSON text, None where retracted."""

    seq: int
    cluster: str
    incident_id: str
    what: str  # new | changed | retracted
    revision: int
    provisional: bool
    incident: str | None
    replaced_by: str | None
    created_us: int

    def message(self) -> bytes:
        """The message as JSON: its envelope, and below `incident` what `diagnose` prints."""
        envelope = {
            "cluster": self.cluster,
            "incident_id": self.incident_id,
            "what": self.what,
            "revision": self.revision,
            "provisional": self.provisional,
            "sequence": self.seq,
            "replaced_by": self.replaced_by,
        }
        head = json.dumps(envelope, separators=(",", ":"))
        return f'{head[:-1]},"incident":{self.incident or "null"}}}'.encode()


#: Delivers messages in order; returns the `seq` of those that are known to have arrived. May raise: then none counts.
Send = Callable[[Sequence[Outgoing]], Collection[int]]


def outgoing_rows(
    old: Row | None, new: Row | None, document: Callable[[], str], moves: Mapping[str, str], now_us: int
) -> list[dict[str, Any]]:
    """The messages that a subject's replaced row means. old and new: its stored and its new decision, None for none."""
    before = old if old is not None and old["incident"] else None
    after = new if new is not None and new["incident"] else None
    rows = []
    if before is not None and (after is None or before["incident_id"] != after["incident_id"]):
        heir = moves.get(before["incident_id"])
        rows.append({**_envelope(before, "retracted", now_us), "incident": None, "replaced_by": heir})
    if after is not None:
        same = before is not None and before["incident_id"] == after["incident_id"]
        what = "changed" if same else "new"
        rows.append({**_envelope(after, what, now_us), "incident": document(), "replaced_by": None})
    return rows


def _envelope(row: Row, what: str, now_us: int) -> dict[str, Any]:
    names = ("cluster", "incident_id", "subject_key", "revision", "provisional")
    return {**{name: row[name] for name in names}, "what": what, "created_us": now_us}


def write_outgoing(connection: Connection, rows: Sequence[Row]) -> None:
    """Put messages into the outbox; retractions first, so that an id that moves from subject to subject ends alive."""
    ordered = sorted(rows, key=lambda row: row["what"] != "retracted")
    for chunk in batches(ordered):
        connection.execute(insert(incident_outbox), [dict(row) for row in chunk])


def read_outgoing(connection: Connection, limit: int, cluster: str | None = None) -> list[Outgoing]:
    """The oldest messages that were not delivered, of each incident at most one."""
    table = incident_outbox.c
    firsts = (
        select(func.min(table.seq).label("seq"))
        .where(table.sent_us.is_(None), *([] if cluster is None else [table.cluster == cluster]))
        .group_by(table.cluster, table.incident_id)
        .order_by(func.min(table.seq))
        .limit(limit)
    )
    columns = [table[name] for name in Outgoing.__dataclass_fields__]
    query = select(*columns).where(table.seq.in_(firsts.scalar_subquery())).order_by(table.seq)
    return [
        Outgoing(**{**row, "provisional": bool(row["provisional"])}) for row in connection.execute(query).mappings()
    ]


def relay(store: Store, send: Send, limit: int = 500, cluster: str | None = None) -> int:
    """Deliver what waits; returns how many messages arrived.

    The next message of an incident is not given to `send` before the one before it is known to have arrived. Ends when
    nothing waits, or when a round brings nothing through. What `send` raises goes to the caller; what arrived in
    earlier rounds is noted.
    """
    arrived = 0
    while True:
        with store.reading() as connection:
            waiting = read_outgoing(connection, limit, cluster)
        if not waiting:
            return arrived
        known = {message.seq for message in waiting}
        delivered = known & set(send(waiting))
        if not delivered:
            return arrived
        with store.writing() as connection:
            statement = (
                update(incident_outbox)
                .where(incident_outbox.c.seq == bindparam("b_seq"))
                .values(sent_us=store.now_us())
            )
            connection.execute(statement, [{"b_seq": seq} for seq in sorted(delivered)])
        arrived += len(delivered)


def waiting_count(connection: Connection, cluster: str | None = None) -> int:
    """How many messages wait."""
    table = incident_outbox.c
    query = select(func.count()).where(
        table.sent_us.is_(None), *([] if cluster is None else [table.cluster == cluster])
    )
    return connection.execute(query).scalar_one()


def forget_sent(connection: Connection, before_us: int, unsent_before_us: int | None = None) -> int:
    """Forget messages delivered before this wall-clock time; returns how many.

    unsent_before_us: also those made before this time that nobody took: where no topic is named, nobody ever will, and
    what they say stands in the warehouse.
    """
    table = incident_outbox
    old = table.c.sent_us < before_us
    if unsent_before_us is not None:
        old = or_(old, and_(table.c.sent_us.is_(None), table.c.created_us < unsent_before_us))
    return connection.execute(delete(table).where(old)).rowcount
