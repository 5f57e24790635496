"""How far is a host's clock off? Estimated from events that its own log and another clock's log both tell of.

Two kinds of events are compared (`schemas.moments`): the launch of a job's step, which a node's slurmd logs and the
scheduler's record dates, and lines that a host's own log holds and a receiver of many hosts stamps anew. Per host and
other clock, the differences must agree: `LEAST` of them or more, and more than half, within `AGREE_S`. Where most of
three or more hosts agree with each other, they are right and it is the other clock that is off; else that clock is
trusted. Nothing moves for less than `LEAST_MOVE_S`, which delays explain, or for more than `MOST_MOVE_S`, which is a
wrong zone or another event.

One offset a host: a clock that was set right within the time of the logs has no difference that most events share, so
it stays as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import NamedTuple, TypeVar

from pipeline.placing.clock import SECOND, Clock, Shift
from schemas.facts import RunFragment, SourceFact, Stamp
from schemas.identity import short_host
from schemas.moments import STEP, Moment, moment_of, step_event

#: Pairs that must agree, and how well, seconds.
LEAST, AGREE_S = 3, 2.0
LEAST_MOVE_S, MOST_MOVE_S = 3.0, 1_800.0
#: Hosts that must agree before the other clock is called wrong.
LEAST_HOSTS = 3
#: Events that lie further apart than this are not one event. Seconds.
_SAME_S = 4 * 3_600.0
_SCHEDULER = "scheduler"
K = TypeVar("K", str, tuple[str, str])
_LOGS = frozenset({"syslog", "journal", "kernel"})


class Agreed(NamedTuple):
    """A value that most of some values agree on. spread: from the least to the greatest of them. All microseconds."""

    value: int
    spread: int
    n: int


def agreed(values: Iterable[int], least: int = LEAST, width: int = round(AGREE_S * SECOND)) -> Agreed | None:
    """The median of the most values that lie within `width`; None for fewer than `least`, or half of all or fewer."""
    ordered = sorted(values)
    best: tuple[int, int, int, int] | None = None
    low = 0
    for high, value in enumerate(ordered):
        while value - ordered[low] > width:
            low += 1
        found = (low - high, value - ordered[low], low, high)
        best = found if best is None else min(best, found)
    if best is None:
        return None
    n = 1 - best[0]
    if n < least or n * 2 <= len(ordered):
        return None
    return Agreed(median_low(ordered[best[2] : best[3] + 1]), best[1], n)


@dataclass(frozen=True, slots=True)
class _Views:
    """When hosts' own logs and other clocks put each event, microseconds UTC."""

    own: dict[str, dict[str, int]]  # host -> event -> time
    others: dict[str, dict[tuple[str, str], int]]  # other clock -> (host, event) -> time


def with_skew(
    sources: Sequence[SourceFact], fragments: Sequence[RunFragment], clocks: Mapping[str, Clock]
) -> dict[str, Clock]:
    """The clocks, with the offsets that can be told from events seen by two of them. Equal for any order.

    sources, fragments: as `place` takes them. clocks: by source id, as without any offset.
    """
    moments = {s.source_id: found for s in sources if (found := _moments(s))}
    if not moments:
        return dict(clocks)
    views = _views(sources, fragments, clocks, moments)
    labels = {s.source_id: s.inner_paths[0] if s.inner_paths else s.source_id for s in sources}
    hosts, hubs = _estimate(views, labels)
    if not hosts and not hubs:
        return dict(clocks)
    dated = {f.source_id for f in fragments if f.scheduler == "slurm"} if _SCHEDULER in hubs else set()
    return {s.source_id: _moved(s, clocks[s.source_id], hosts, hubs, dated, moments) for s in sources}


def _moments(source: SourceFact) -> list[Moment]:
    return [moment for fact in source.facts if (moment := moment_of(fact)) is not None]


def _views(
    sources: Sequence[SourceFact],
    fragments: Iterable[RunFragment],
    clocks: Mapping[str, Clock],
    moments: Mapping[str, Sequence[Moment]],
) -> _Views:
    own: dict[str, dict[str, int]] = defaultdict(dict)
    relayed: dict[str, dict[str, int]] = defaultdict(dict)
    others: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for source in sources:
        clock = clocks[source.source_id]
        for moment in moments.get(source.source_id, ()):
            t, _ = clock.utc(Stamp(moment.kind, moment.us))
            if t is None:
                continue
            if clock.host:
                _earliest(own[clock.host], moment.event, t)
            elif moment.host and moment.event.startswith(STEP):
                _earliest(relayed[moment.host], moment.event, t)
            elif moment.host:
                _earliest(others[source.source_id], (moment.host, moment.event), t)
    for host, events in relayed.items():  # syslog as relayed keeps the host's own stamps, as a rule
        if not any(event.startswith(STEP) for event in own[host]):
            own[host].update(events)
    asked = {event for events in own.values() for event in events if event.startswith(STEP)}
    for fragment in fragments if asked else ():
        if not fragment.step.isdigit() or fragment.scheduler != "slurm" or fragment.source_id not in clocks:
            continue
        t, _ = clocks[fragment.source_id].utc(fragment.start)
        if t is None:
            continue
        raw = next((word[11:] for word in fragment.extra if word.startswith("job_id_raw=")), "")
        for job in {fragment.job_id, raw.partition(".")[0]} - {""}:
            event = step_event(f"{job}.{fragment.step}")
            for node in fragment.nodes if event in asked else ():
                _earliest(others[_SCHEDULER], (short_host(node), event), t)
    return _Views(own, others)


def _earliest(times: dict[K, int], key: K, t: int) -> None:
    times[key] = min(t, times.get(key, t))


# --- estimating ---------------------------------------------------------------------------------------------------


class _Compared(NamedTuple):
    """What one other clock says of the hosts: how far each host's stamps lie behind its own (negative: before)."""

    name: str
    hosts: dict[str, Agreed]


def _compare(views: _Views) -> list[_Compared]:
    out = []
    for name, seen in sorted(views.others.items()):
        pairs: dict[str, list[int]] = defaultdict(list)
        for (host, event), t in seen.items():
            mine = views.own.get(host, {}).get(event)
            if mine is not None and abs(mine - t) <= _SAME_S * SECOND:
                pairs[host].append(mine - t)
        hosts = {host: found for host, values in sorted(pairs.items()) if (found := agreed(values)) is not None}
        if hosts:
            out.append(_Compared(name, hosts))
    return out


def _estimate(views: _Views, labels: Mapping[str, str]) -> tuple[dict[str, Shift], dict[str, Shift]]:
    """(shifts of hosts, shifts of other clocks). A clock with the shift 0 stamps lines anew and is right."""
    hosts: dict[str, Shift] = {}
    others: dict[str, Shift] = {}
    pairs_of: dict[str, int] = {}
    # the scheduler first, then receivers by how many hosts they tell of: each host takes the first word with most pairs
    for name, found in sorted(_compare(views), key=lambda c: (c.name != _SCHEDULER, -len(c.hosts), c.name)):
        label = "the scheduler" if name == _SCHEDULER else labels.get(name, name)
        values = {host: each.value for host, each in found.items()}
        same = agreed(values.values(), LEAST_HOSTS, round(2 * AGREE_S * SECOND))
        common = same.value if same is not None else 0
        if same is not None and _moves(common, same.spread):
            why = f"clock of {label} taken to be {_off(-common)}: {same.n} of {len(values)} hosts agree on it"
            others[name] = Shift(common, same.spread / SECOND, why)
        for host, each in found.items():
            shift = common - each.value
            if not _moves(shift, each.spread):
                continue
            if name != _SCHEDULER:
                others.setdefault(name, Shift(0, 0.0, ""))
            if pairs_of.get(host, 0) < each.n:
                pairs_of[host] = each.n
                doubt = max(1.0, each.spread / SECOND)
                why = (
                    f"clock of {host} taken to be {_off(-shift)}, +-{doubt:.0f} s: {label} dates {each.n} of its events"
                )
                hosts[host] = Shift(shift, doubt, why)
    return hosts, others


def _moves(shift: int, spread: int) -> bool:
    return LEAST_MOVE_S * SECOND + spread < abs(shift) <= MOST_MOVE_S * SECOND


def _off(by: int) -> str:
    return f"{abs(by) / SECOND:.0f} s {'fast' if by > 0 else 'slow'}"


# --- applying -----------------------------------------------------------------------------------------------------


def _moved(
    source: SourceFact,
    clock: Clock,
    hosts: Mapping[str, Shift],
    others: Mapping[str, Shift],
    dated: Iterable[str],
    moments: Mapping[str, Sequence[Moment]],
) -> Clock:
    """The clock of one source with the shift of whoever wrote its stamps."""
    sid = source.source_id
    if sid in others:
        return _shifted(clock, others[sid])
    if clock.host:
        several = len({short_host(host) for _, host in source.rank_hosts}) > 1
        return _shifted(clock, hosts[clock.host]) if clock.host in hosts and not several else clock
    controller = source.family == "scheduler" and sid not in moments
    if _SCHEDULER in others and (sid in dated or controller):
        return _shifted(clock, others[_SCHEDULER])
    if source.family not in _LOGS:
        return clock
    # lines of several hosts, each with the stamp that its host gave it
    mine = {short_host(name) for name, _ in source.names} & hosts.keys()
    if not mine:
        return clock
    told = (*clock.assumed, *(hosts[host].why for host in sorted(mine)))
    return replace(clock, by_host=tuple((host, hosts[host]) for host in sorted(mine)), assumed=told)


def _shifted(clock: Clock, shift: Shift) -> Clock:
    return replace(clock, shift=shift, assumed=(*clock.assumed, shift.why) if shift.why else clock.assumed)
