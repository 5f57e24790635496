"""From signal facts to events: decoded by the rules, placed in time and space, merged over minutes and sources.

`place_signals` gives one `Placed` a signal fact, with everything that joining needs; `merge_events` turns the placed
signals of one subject into the events that the engine reads. Both are pure and do not depend on the input's order.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Protocol

import hostlist

from classifiers.api import Meaning, Rule, Ruleset
from pipeline.placing.clock import Shift
from pipeline.placing.devices import Gpu, one_device, told
from pipeline.placing.hosts import pod_nodes
from pipeline.runs.progress import main_series, steps_after
from schemas.facts import Facts, ProgressFact, SignalFact, SourceFact, Stamp
from schemas.identity import digest, short_host
from schemas.subject import Event

#: Silence that parts two events of the same signal on the same device, seconds.
EVENT_GAP_S = 600.0
#: A doubt of a clock larger than this does not grow further when steps after an event are counted, seconds.
MOST_DOUBT_S = 5.0
_LAST = 1 << 62
#: Families whose own host is the scope of what they say; the others name hosts in their text.
OWN_HOST = frozenset({"kernel", "syslog", "journal", "bmc", "other"})
#: Fields that name hosts, in order of trust.
_HOST_FIELDS = ("node", "nodes", "host")
_JOB_FIELDS = ("job", "jobid", "job_id")


class ClockLike(Protocol):
    """What joining needs of a placed source (`pipeline.placing.place.Clock`)."""

    @property
    def host(self) -> str: ...
    @property
    def assumed(self) -> tuple[str, ...]: ...
    @property
    def shift(self) -> Shift | None: ...
    @property
    def aliases(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def gpus(self) -> tuple[Gpu, ...]: ...
    def on(self, host: str) -> ClockLike: ...
    def utc(self, stamp: Stamp) -> tuple[int | None, float]: ...


@dataclass(frozen=True, slots=True)
class Placed:
    """A signal fact with its meaning and its place. `t` is None where no clock ties the source to UTC."""

    fact: SignalFact
    rule: Rule
    meaning: Meaning
    t: int | None  # microseconds UTC
    t_last: int | None
    unc: float
    hosts: tuple[str, ...]
    job_id: str
    family: str
    root: str
    label: str
    back_component: str = ""
    skew: str = ""  # in words, by how much the clock that stamped it was taken to be off
    gpu: tuple[str, ...] = ()  # the names of its GPU, as facts of a subject


@lru_cache(maxsize=4096)
def expand_hosts(text: str) -> tuple[str, ...]:
    """`n[215,222],m101` as short host names; a text that is no host list comes back as one name."""
    try:
        names = hostlist.expand_hostlist(text, allow_duplicates=False)
    except (hostlist.BadHostlist, ValueError):
        names = [text]
    return tuple(dict.fromkeys(short_host(n) for n in names if n))


def _job_id(fields: Mapping[str, str]) -> str:
    for name in _JOB_FIELDS:
        value = fields.get(name, "")
        if value:
            return value.removeprefix("JobId=").split(".", 1)[0].removeprefix("StepId=")
    return ""


def _hosts(
    fact: SignalFact, fields: Mapping[str, str], family: str, clock: ClockLike | None, nodes: Mapping[str, str]
) -> tuple[str, ...]:
    for name in _HOST_FIELDS:
        value = fields.get(name, "")
        if value:
            named = expand_hosts(value)
            return tuple(dict.fromkeys(nodes.get(host, host) for host in named)) if nodes else named
    if fact.host:
        host = short_host(fact.host)
        if clock is not None and clock.aliases:
            host = dict(clock.aliases).get(host, host)
        return (nodes.get(host, host),)
    if clock is not None and clock.host and (family in OWN_HOST or family == "job"):
        return (clock.host,)
    return ()


def place_signals(facts: Facts, clocks: Mapping[str, ClockLike], ruleset: Ruleset) -> list[Placed]:
    """Every signal of a rule that still exists, decoded and placed, sorted by id."""
    sources: dict[str, SourceFact] = {s.source_id: s for s in facts.sources}
    meanings: dict[tuple[str, tuple[tuple[str, str], ...]], Meaning] = {}
    placed: list[Placed] = []
    nodes = pod_nodes(facts.fragments)
    gpus = {clock.host: clock.gpus for clock in clocks.values() if clock.gpus}
    for fact in facts.signals:
        rule = ruleset.rules.get(fact.rule)
        if rule is None or rule.maturity == "retired":
            continue
        source = sources.get(fact.source_id)
        family = source.family if source else "other"
        fields = dict(fact.fields)
        memo = (fact.rule, fact.fields)
        if memo not in meanings:
            meanings[memo] = ruleset.meaning(fact.rule, fields)
        clock = clocks.get(fact.source_id)
        if clock is not None and fact.host:
            clock = clock.on(short_host(fact.host))
        t, unc = clock.utc(fact.first) if clock else (None, float("inf"))
        t_last, _ = clock.utc(fact.last) if clock else (None, unc)
        hosts = _hosts(fact, fields, family, clock, nodes)
        meaning, names = _of_gpu(meanings[memo], hosts, family, gpus)
        placed.append(
            Placed(
                fact=fact,
                rule=rule,
                meaning=meaning,
                t=t,
                t_last=t_last if t_last is not None else t,
                unc=unc,
                hosts=hosts,
                job_id=_job_id(fields),
                family=family,
                root=source.root if source else "",
                label=source.inner_paths[0] if source and source.inner_paths else fact.source_id,
                back_component=_named_cause(meanings[memo], ruleset, fields),
                skew=clock.shift.why if clock is not None and clock.shift is not None else "",
                gpu=names,
            )
        )
    placed.sort(key=lambda p: p.fact.signal_id)
    return placed


def _of_gpu(
    meaning: Meaning, hosts: Sequence[str], family: str, gpus: Mapping[str, tuple[Gpu, ...]]
) -> tuple[Meaning, tuple[str, ...]]:
    """The meaning with its GPU named by address, and its other names. A job's own index is none of its host's."""
    if len(hosts) != 1 or family == "job" or not meaning.device.startswith(("gpu:", "pci:")):
        return meaning, ()
    known = gpus.get(hosts[0], ())
    device = one_device(meaning.device, known)
    names = next((told(hosts[0], gpu) for gpu in known if gpu.device == device), ())
    return (meaning if device == meaning.device else replace(meaning, device=device)), names


def _named_cause(meaning: Meaning, ruleset: Ruleset, fields: Mapping[str, str]) -> str:
    """The component of the Xid that a line names as its cause, decoded as if it had been printed without words."""
    prefix, _, code = (meaning.back or "").partition(".")
    if prefix != "xid" or not code or "nv_xid" not in ruleset.rules:
        return ""
    named = {"bdf": fields.get("bdf", ""), "xid": code}
    return ruleset.meaning("nv_xid", {k: v for k, v in named.items() if v}).component


class ProgressIndex:
    """Completed steps of one run, to tell how many came before and after an event."""

    def __init__(
        self,
        progress: Iterable[ProgressFact],
        clocks: Mapping[str, ClockLike],
        spans: Sequence[tuple[str, int, int]],
    ) -> None:
        inside = [p for p in progress if in_spans(p.source_id, p.first_offset, spans)]
        self._ends = {sid: end for sid, _, end in spans}
        self._by_source: dict[str, list[ProgressFact]] = defaultdict(list)
        for fact in sorted(inside, key=lambda p: (p.source_id, p.first_offset)):
            self._by_source[fact.source_id].append(fact)
        self._timed = sorted(
            (t / 1e6, step)
            for sid, facts in self._by_source.items()
            if (clock := clocks.get(sid)) is not None
            for step, stamp in _stamped(main_series(facts))
            if (t := clock.utc(stamp)[0]) is not None
        )

    def around(
        self, source_id: str, first: int, last: int, t: float | None, t_last: float | None, unc: float = 0.0
    ) -> tuple[int, int]:
        """(steps before the event, steps after it): by offset in its own log, else by time, else (0, 0).

        By time only steps count that are later than the event's clock may be off; between two printed steps the pace
        is taken as even.
        """
        own = self._by_source.get(source_id)
        if own:
            end = self._ends.get(source_id, -1)
            seen = sum(p.first_offset < first for p in own) + sum(
                1 for p in own for offset, _, _ in p.points if offset < first
            )
            return seen, steps_after(own, last, None if end < 0 else end)
        if t is None or not self._timed:
            return 0, 0
        seen = bisect.bisect_left(self._timed, (t, -1))
        moment = (t if t_last is None else t_last) + min(unc, MOST_DOUBT_S)
        nxt = bisect.bisect_right(self._timed, (moment, _LAST))
        if nxt == len(self._timed):
            return seen, 0
        most = max(step for _, step in self._timed[nxt:])
        if not nxt:
            return seen, max(0, most - self._timed[0][1])
        (t0, s0), (t1, s1) = self._timed[nxt - 1], self._timed[nxt]
        done = s0 + math.ceil(max(0, s1 - s0) * (moment - t0) / (t1 - t0))
        return seen, max(0, most - done)


def _stamped(facts: Iterable[ProgressFact]) -> Iterable[tuple[int, Stamp]]:
    for fact in facts:
        if fact.points:
            yield from ((step, Stamp(fact.first.kind, us)) for _, step, us in fact.points if us >= 0)
        else:
            yield from ((fact.first_step, fact.first), (fact.last_step, fact.last))


def in_spans(source_id: str, offset: int, spans: Sequence[tuple[str, int, int]]) -> bool:
    """Whether the place lies in one of an attempt's parts of that source; without any part, it does."""
    mine = [(a, b) for sid, a, b in spans if sid == source_id]
    if not mine:
        return not spans
    return any(a <= offset and (b < 0 or offset < b) for a, b in mine)


def _group_key(p: Placed) -> tuple[str, ...]:
    """What makes two placed signals the same event but for time: many ranks with one message are one event."""
    text = p.fact.template if p.meaning.strength == "weak" else ""
    if p.meaning.tags & {"recorder", "block"}:
        return ("recorder", p.meaning.signal, p.fact.source_id, p.fact.key)  # one a rank: each is accused by itself
    if p.family == "job":
        return ("job", p.meaning.signal, text)
    return (
        p.family if p.family in ("scheduler", "cluster", "bmc") else "host",
        ",".join(p.hosts),
        p.meaning.signal,
        p.meaning.device,
        f"{p.meaning.role}/{p.meaning.fatal}",  # corrected errors of a link, then the fatal one: two events
        text,
    )


def merge_events(placed: Sequence[Placed], progress: ProgressIndex | None = None) -> tuple[Event, ...]:
    """The events of one subject. Counts are summed inside a source; over sources the maximum is taken."""
    groups: dict[tuple[str, ...], list[Placed]] = defaultdict(list)
    for p in placed:
        groups[_group_key(p)].append(p)
    events = [_event(chunk, progress) for _, members in sorted(groups.items()) for chunk in _split_by_silence(members)]
    return tuple(sorted(events, key=lambda e: (e.t is None, e.t or 0.0, e.source, e.offset, e.id)))


def _split_by_silence(members: Sequence[Placed]) -> Iterable[list[Placed]]:
    """Chunks without a gap of EVENT_GAP_S; signals without a clock stay together by source."""
    timed = sorted((p for p in members if p.t is not None), key=lambda p: (p.t or 0, p.fact.signal_id))
    chunk: list[Placed] = []
    end = 0
    for p in timed:
        if chunk and (p.t or 0) - end > EVENT_GAP_S * 1e6:
            yield chunk
            chunk = []
        chunk.append(p)
        end = max(end, p.t_last or p.t or 0)
    if chunk:
        yield chunk
    by_source: dict[str, list[Placed]] = defaultdict(list)
    for p in members:
        if p.t is None:
            by_source[p.fact.source_id].append(p)
    for _, own in sorted(by_source.items()):
        yield sorted(own, key=lambda p: (p.fact.first_offset, p.fact.signal_id))


def _event(chunk: Sequence[Placed], progress: ProgressIndex | None) -> Event:
    lead = min(chunk, key=lambda p: (p.t if p.t is not None else 0, p.fact.first_offset, p.fact.signal_id))
    fact, meaning = lead.fact, lead.meaning
    tail = max((p.fact for p in chunk if p.fact.source_id == fact.source_id), key=lambda f: f.last_offset)
    lasts = [p.t_last for p in chunk if p.t_last is not None]
    per_source: dict[str, int] = defaultdict(int)
    for p in chunk:
        per_source[p.fact.source_id] += p.fact.count
    ranked = sorted({(us, off, rank) for p in chunk for us, off, rank in p.fact.ranks})
    ranks = tuple(dict.fromkeys(rank for _, _, rank in ranked))
    hosts = lead.hosts
    if any(p.hosts != hosts for p in chunk):
        by_time = sorted(chunk, key=lambda p: (p.t or 0, p.fact.first_offset))
        hosts = tuple(dict.fromkeys(h for p in by_time for h in p.hosts))
    t = lead.t / 1e6 if lead.t is not None else None
    t_last = max(lasts) / 1e6 if lasts else t
    before, after = (0, 0)
    if progress is not None:
        before, after = progress.around(fact.source_id, fact.first_offset, tail.last_offset, t, t_last, lead.unc)
    return Event(
        id=digest("event", fact.signal_id),
        signal=meaning.signal,
        rule=fact.rule,
        component=meaning.component,
        role=meaning.role,
        severity=meaning.severity,
        fatal=meaning.fatal,
        t=t,
        t_last=t_last,
        unc=lead.unc,
        host=hosts[0] if hosts else "",
        device=meaning.device,
        rank=ranks[0] if ranks else None,
        ranks=ranks,
        n_ranks=len(ranks),
        source=lead.label,
        source_id=fact.source_id,
        family=lead.family,
        offset=fact.first_offset,
        last_offset=tail.last_offset,
        line=fact.first_line,
        count=max(per_source.values()),
        text=fact.text,
        fields=fact.fields,
        alt=meaning.alt,
        action=meaning.action,
        action_source=meaning.action_source,
        maturity=meaning.maturity,
        strength=meaning.strength,
        progress_after=after,
        progress_before=before,
        tags=meaning.tags,
        hosts=hosts,
        back=meaning.back,
        back_component=lead.back_component,
        cause=meaning.cause,
        meaning=meaning.meaning,
        links=tuple(
            (link.cause, link.where, link.within_s)
            for link in meaning.links
            if fnmatchcase(meaning.signal, link.effect)
        ),
        at_least=fact.first.borrowed,
        keys=tuple(sorted({p.fact.key for p in chunk})[:32]),
        order=fact.first.us if fact.first.kind != "none" else fact.first_offset,
    )
