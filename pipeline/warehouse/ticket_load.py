"""Tickets into the warehouse: each becomes an incident of its host that carries the site's own word as a label.

A ticket's incident is a subject of its own (`ticket:<key>`): no load of logs retracts it, and loading the same file
again changes nothing. Its repair is the incident's `resumed_at`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.warehouse.tickets import Ticket, Tickets
from schemas.identity import digest, incident_id
from schemas.subject import Decision

if TYPE_CHECKING:
    from sql.store import Store

#: Beginning of the subject keys of tickets.
PREFIX = "ticket:"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did. hosts: distinct. components: tickets by component. new: incidents that were not there before."""

    records: int
    tickets: int
    hosts: int
    new: int
    labelled: int
    refused: int
    components: dict[str, int]


def decision_of(ticket: Ticket) -> Decision:
    """The incident of a ticket."""
    key = f"{PREFIX}{ticket.key}"
    extra = {"ticket": ticket.words[:500]}
    if ticket.end_us is not None:
        extra["resumed_us"] = str(ticket.end_us)
    return Decision(
        subject_key=key,
        kind="host_fault",
        incident=True,
        incident_id=incident_id("ticket", ticket.key),
        fault_id=digest("fault", "ticket", ticket.key),
        component=ticket.component,
        cause="ticket",
        confidence=1.0,
        decided_by="ticket",
        summary=f"{ticket.host}: {ticket.words}"[:500],
        first_host=ticket.host,
        first_gpu=None,
        first_rank=None,
        onset_us=ticket.start_us,
        evidence=(),
        why=("the site's own fault history says so",),
        host=ticket.host,
        extra=extra,
    )


def load_tickets(store: Store, cluster: str, found: Tickets, who: str) -> Loaded:
    """Write all tickets and their labels; `who` is the name that the labels carry."""
    known = store.subject_keys(cluster)
    decisions = [decision_of(ticket) for ticket in found.tickets]
    store.replace_decisions(cluster, decisions)
    have = store.current_labels(cluster)
    labelled = 0
    for ticket, decision in zip(found.tickets, decisions, strict=True):
        # a label that a person gave since is newer than the file
        if decision.incident_id not in have:
            store.add_label(decision.incident_id, ticket.component, note=ticket.note or ticket.words, who=who)
            labelled += 1
    return Loaded(
        records=found.records,
        tickets=len(found.tickets),
        hosts=len({ticket.host for ticket in found.tickets}),
        new=sum(d.subject_key not in known for d in decisions),
        labelled=labelled,
        refused=len(found.refused),
        components=dict(sorted(Counter(ticket.component for ticket in found.tickets).items())),
    )
