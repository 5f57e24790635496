"""Moments: what one source says of an event that another source may tell of too, so that their clocks can be compared.

A moment is a fact of a source, `moment:<host>:<what><digest>=<stamp kind>.<microseconds>`. host: as printed in the
line, "" where the log is one host's own. what: `l` for the text of a line (the first line with this text), `s` for the
launch of a step of a job. The stamp stays in its frame; `pipeline.placing.skew` compares them.

A source keeps, of each host and each kind, those `KEPT` moments whose digests are smallest. So two logs that share
events keep the same ones, however long they are, and views of one log merge to what one reading of all of it gives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schemas.identity import digest

PREFIX = "moment:"
#: Moments of one host and kind that a source keeps: more than enough for a median.
KEPT = 24
#: Hosts of which one source keeps moments: those whose names come first.
MAX_HOSTS = 4_096
_HEX = 12
LINE, STEP = "l", "s"


class Moment(NamedTuple):
    """One moment. event: kind and digest, equal in all sources that tell of it. stamp: kind and microseconds."""

    host: str
    event: str
    kind: str
    us: int


def step_event(step: str) -> str:
    """The event of a job step's launch. step: `700.0`."""
    return STEP + digest("step", step)[:_HEX]


def line_event(text: str) -> str:
    """The event that a line's text tells of."""
    return LINE + digest("line", text)[:_HEX]


def moment_fact(host: str, event: str, kind: str, us: int) -> str:
    """The fact of a source that states a moment."""
    return f"{PREFIX}{host}:{event}={kind}.{us}"


def moment_of(fact: str) -> Moment | None:
    """The moment that a fact states; None for every other fact."""
    if not fact.startswith(PREFIX):
        return None
    name, _, value = fact[len(PREFIX) :].partition("=")
    host, _, event = name.rpartition(":")
    kind, _, us = value.partition(".")
    if not event or not us.lstrip("-").isdigit():
        return None
    return Moment(host, event, kind, int(us))


def bounded(facts: Iterable[str]) -> tuple[str, ...]:
    """The facts, sorted, with no more moments than a source keeps; the earliest stamp of each event.

    `bounded(bounded(a) + b) == bounded(a + b)`.
    """
    out: list[str] = []
    groups: dict[tuple[str, str], dict[str, Moment]] = {}
    for fact in facts:
        moment = moment_of(fact)
        if moment is None:
            out.append(fact)
            continue
        group = groups.setdefault((moment.host, moment.event[:1]), {})
        known = group.get(moment.event)
        if known is None or (moment.us, moment.kind) < (known.us, known.kind):
            group[moment.event] = moment
    if groups:
        hosts = sorted({host for host, _ in groups})[:MAX_HOSTS]
        among = set(hosts)
        for (host, _), group in groups.items():
            if host in among:
                out.extend(moment_fact(*group[event]) for event in sorted(group)[:KEPT])
    return tuple(sorted(set(out)))
