"""From signal facts to events: decoded by the rules, placed in time and space, merged over minutes and sources.

`place_signals` gives one `Placed` a signal fact, with everything that joining needs; `merge_events` turns the placed
signals of one subject into the events that the engine reads. Both are pure and do not depend on the input's order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import hostlist

from classifiers.api import Meaning, Rule, Ruleset
from schemas.facts import Facts, ProgressFact, SignalFact, SourceFact, Stamp
from schemas.identity import digest, short_host
from schemas.subject import Event

#: Silence that parts two events of the same signal on the same device, seconds.
EVENT_GAP_S = 600.0
#: Families whose own host is the scope of what they say; the others name hosts in their text.
OWN_HOST = frozenset({"kernel", "syslog", "journal", "bmc", "other"})
#: Fields that name hosts, in order of trust.
_HOST_FIELDS = ("node", "nodes", "host")
_JOB_FIELDS = ("job", "jobid", "job_id")


class ClockLike(Protocol):
    """What joining needs of a placed source (`pipeline.place.Clock`)."""

    @property
    def host(self) -> str: ...
    @property
    def assumed(self) -> tuple[str, ...]: ...
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


@lru_cache(maxsize=4096)
def expand_hosts(text: str) -> tuple[str, ...]:
    """`n[215,222],m101` as short host names; a text that is no host list comes back as one name."""
    try:
        names = hostlist.expand_hostlist(text, allow_duplicates=False)
    except (hostlist.BadHostlist, ValueError):
        names = [text]
    return tuple(short_host(n) for n in names if n)


def _job_id(fields: Mapping[str, str]) -> str:
    for name in _JOB_FIELDS:
        value = fields.get(name, "")
        if value:
            return value.removeprefix("JobId=").split(".", 1)[0].removeprefix("StepId=")
    return ""


def _hosts(fact: SignalFact, fields: Mapping[str, str], family: str, clock: ClockLike | None) -> tuple[str, ...]:
    for name in _HOST_FIELDS:
        value = fields.get(name, "")
        if value:
            return expand_hosts(value)
    if fact.host:
        return (short_host(fact.host),)
    if clock is not None and clock.host and (family in OWN_HOST or family == "job"):
        return (clock.host,)
    return ()


def place_signals(facts: Facts, clocks: Mapping[str, ClockLike], ruleset: Ruleset) -> list[Placed]:
    """Every signal of a rule that still exists, decoded and placed, sorted by id."""
    sources: dict[str, SourceFact] = {s.source_id: s for s in facts.sources}
    meanings: dict[tuple[str, tuple[tuple[str, str], ...]], Meaning] = {}
    placed: list[Placed] = []
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
        t, unc = clock.utc(fact.first) if clock else (None, float("inf"))
        t_last, _ = clock.utc(fact.last) if clock else (None, unc)
        placed.append(
            Placed(
                fact=fact,
                rule=rule,
                meaning=meanings[memo],
                t=t,
                t_last=t_last if t_last is not None else t,
                unc=unc,
                hosts=_hosts(fact, fields, family, clock),
                job_id=_job_id(fields),
                family=family,
                root=source.root if source else "",
                label=source.inner_paths[0] if source and source.inner_paths else fact.source_id,
            )
        )
    placed.sort(key=lambda p: p.fact.signal_id)
    return placed


class ProgressIndex:
    """Completed steps of one run, to tell how many came before and after an event."""

    def __init__(
        self,
        progress: Iterable[ProgressFact],
        clocks: Mapping[str, ClockLike],
        spans: Sequence[tuple[str, int, int]],
    ) -> None:
        inside = [p for p in progress if _in_spans(p.source_id, p.first_offset, spans)]
        self._by_source: dict[str, list[ProgressFact]] = defaultdict(list)
        self._timed: list[tuple[float, float, ProgressFact]] = []
        for fact in sorted(inside, key=lambda p: (p.source_id, p.first_offset)):
            self._by_source[fact.source_id].append(fact)
            clock = clocks.get(fact.source_id)
            if clock is None:
                continue
            t0, _ = clock.utc(fact.first)
            t1, _ = clock.utc(fact.last)
            if t0 is not None and t1 is not None:
                self._timed.append((t0 / 1e6, t1 / 1e6, fact))

    def around(self, source_id: str, first: int, last: int, t: float | None, t_last: float | None) -> tuple[int, int]:
        """(steps before the event, steps after it): by offset in its own log, else by time, else (0, 0)."""
        own = self._by_source.get(source_id)
        if own:
            return (
                _steps([(f.first_offset, f.last_offset, f) for f in own], first, after=False),
                _steps([(f.first_offset, f.last_offset, f) for f in own], last, after=True),
            )
        if t is None or not self._timed:
            return 0, 0
        return _steps(self._timed, t, after=False), _steps(self._timed, t if t_last is None else t_last, after=True)


def _in_spans(source_id: str, offset: int, spans: Sequence[tuple[str, int, int]]) -> bool:
    mine = [(a, b) for sid, a, b in spans if sid == source_id]
    if not mine:
        return not spans
    return any(a <= offset and (b < 0 or offset < b) for a, b in mine)


def _steps(cells: Sequence[tuple[float, float, ProgressFact]], at: float, *, after: bool) -> int:
    """Steps whose lines lie after (or before) `at`, interpolated inside the cell that holds it."""
    steps: list[float] = []
    for low, high, fact in cells:
        if (after and high <= at) or (not after and low >= at):
            continue
        if after:
            share = 1.0 if low > at else (high - at) / (high - low) if high > low else 1.0
            edge = fact.last_step - share * (fact.last_step - fact.first_step)
            steps.extend((edge if low <= at else fact.first_step - 1, fact.last_step))
        else:
            share = 1.0 if high < at else (at - low) / (high - low) if high > low else 1.0
            steps.extend((fact.first_step - 1, fact.first_step + share * (fact.last_step - fact.first_step)))
    return round(max(steps) - min(steps)) if steps else 0


def _group_key(p: Placed) -> tuple[str, ...]:
    """What makes two placed signals the same event but for time: many ranks with one message are one event."""
    text = p.fact.template if p.meaning.strength == "weak" else ""
    if p.family == "job":
        return ("job", p.meaning.signal, text)
    return (
        p.family if p.family in ("scheduler", "cluster", "bmc") else "host",
        ",".join(p.hosts),
        p.meaning.signal,
        p.meaning.device,
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
    hosts = tuple(
        dict.fromkeys(h for p in sorted(chunk, key=lambda p: (p.t or 0, p.fact.first_offset)) for h in p.hosts)
    )
    t = lead.t / 1e6 if lead.t is not None else None
    t_last = max(lasts) / 1e6 if lasts else t
    before, after = (0, 0)
    if progress is not None:
        before, after = progress.around(fact.source_id, fact.first_offset, tail.last_offset, t, t_last)
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
        cause=meaning.cause,
        meaning=meaning.meaning,
        links=tuple((link.cause, link.where, link.within_s) for link in meaning.links),
        keys=tuple(sorted({p.fact.key for p in chunk})[:32]),
        order=fact.first.us if fact.first.kind != "none" else fact.first_offset,
    )
