"""Which event explains which.

An explanation is one of: a back pointer on the line itself, a causal link of the knowledge, or a general one
(a hardware or system fault explains what the job saw afterwards; a strong failure explains the tear-down after it).
Order is by time where both events have a clock (with their uncertainty), by place in the log where they share a
source, and otherwise open: an open order does not forbid an explanation that the knowledge names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from schemas.subject import Event

#: Two stamps of different hosts closer than this say nothing about order, seconds.
TIE_S = 1.0


def before(a: Event, b: Event) -> bool | None:
    """Whether `a` came before `b`; None where nobody can tell (a tie counts as None)."""
    if a.source_id == b.source_id and a.order != b.order:
        return (a.order, a.offset) < (b.order, b.offset)
    if a.source_id == b.source_id:
        return a.offset < b.offset
    if a.t is None or b.t is None:
        return None
    gap = b.t - a.t
    if (gap > 0 and a.at_least) or (gap < 0 and b.at_least):
        return None  # the earlier one may in truth be the later
    if abs(gap) <= max(TIE_S, min(a.unc, 5.0) + min(b.unc, 5.0)):
        return None
    return gap > 0


def _same_host(a: Event, b: Event) -> bool:
    if not a.hosts or not b.hosts:
        return a.source_id == b.source_id or not (a.hosts and b.hosts)
    return bool(set(a.hosts) & set(b.hosts))


def _where(a: Event, b: Event, where: str) -> bool:
    if where == "job":
        return True
    if where == "same_device":
        return _same_host(a, b) and (a.device == b.device or not a.device or not b.device)
    return _same_host(a, b)  # same_host, nvlink_peer: one host or NVLink domain


def linked(a: Event, b: Event) -> bool:
    """Whether the knowledge says that `a` explains `b`: a back pointer of `b`, or one of its links."""
    if a.id == b.id:
        return False
    if b.back and (a.signal == b.back or a.signal.startswith(b.back + ".")) and _same_host(a, b):
        return True
    for cause, where, within_s in b.links:
        if not fnmatchcase(a.signal, cause) or not _where(a, b, where):
            continue
        if a.t is not None and b.t is not None and abs(b.t - a.t) > within_s + max(a.unc, b.unc, TIE_S):
            continue
        if before(b, a) is not True:
            return True
    return False


def believed(events: Sequence[Event]) -> tuple[Event, ...]:
    """The events, with those that another line of their host names as its cause ("caused by previous Xid 145") as
    causes that stopped work, whatever severity their own line claims: the driver calls some errors non-fatal that
    channels die of."""
    named = [e for e in events if e.back]
    if not named:
        return tuple(events)
    return tuple(
        replace(e, role="cause", fatal="y")
        if e.role != "context" and any(e.id != b.id and e.signal == b.back and _same_host(e, b) for b in named)
        else e
        for e in events
    )


def explained_by(event: Event, causes: Sequence[Event], general: Callable[[Event, Event], bool]) -> Event | None:
    """The first of `causes` (in the order given) that explains the event, or None."""
    for cause in causes:
        if cause.id == event.id:
            continue
        if linked(cause, event) and not (linked(event, cause) and before(event, cause) is not False):
            return cause
        if before(event, cause) is not True and general(cause, event):
            return cause
    return None
