"""From what changed to what must be decided again, read from the warehouse no further than it reaches.

`narrow` finds the changed signals of the touched sources and of those whose clock moved, the runs that are not what
they were, and the signals whose owner changed with them; from these the runs and the regions of episodes that may
change. None where no bound is known: then everything is decided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from classifiers.api import Ruleset
from pipeline.joining.events import Placed, place_signals
from pipeline.joining.join import Joiner
from pipeline.joining.windows import window
from pipeline.placing.hosts import pod_nodes
from pipeline.placing.place import Clock
from pipeline.warehouse.affected import SLACK_US
from pipeline.warehouse.kept import Kept
from pipeline.warehouse.lived import episodes_lived_through
from pipeline.warehouse.redecide import clock_mark
from pipeline.warehouse.regions import Regions, Span, merged
from pipeline.warehouse.special import Special, special_rules
from pipeline.warehouse.touches import (
    Touch,
    clocked,
    regions_of,
    single_job_roots,
    site_episodes,
    touch_of,
    touch_of_place,
    touched_runs,
    with_followers,
)
from schemas.facts import SignalFact, SourceFact, Stamp
from schemas.identity import short_host
from schemas.settings import Settings
from schemas.subject import JobRun
from sql.changed import (
    Place,
    places_of,
    signals_between,
    signals_of_rules,
    signals_on,
    undecided_signals,
    untimed_signals,
)
from sql.read import read_signals

_KERNEL = frozenset({"kernel", "syslog", "journal"})
#: Facts of a source that a decision tells; others are read where sources are placed and runs assembled.
_TOLD = ("gpu_uuid:", "gpu_serial:", "gpu_index:", "gpu_listed:", "gpu_serial_of:", "driver_version=")


@dataclass(slots=True)
class Narrow:
    """runs: keys of runs to decide. regions: where episodes may have changed. renew: sources placed anew.

    placed: their changed signals. read: signals that were read on the way, by id, with the times that were read whole.
    """

    runs: set[str]
    regions: Regions
    renew: frozenset[str]
    placed: Sequence[Placed]
    read: dict[str, SignalFact] = field(default_factory=dict)
    whole: list[Span] = field(default_factory=list)


def narrow(
    connection: Connection,
    kept: Kept,
    clocks: Mapping[str, Clock],
    runs: Sequence[JobRun],
    touched: Collection[str],
    overdue: Collection[str],
    ruleset: Ruleset,
    settings: Settings,
) -> Narrow | None:
    """What to decide; None for everything."""
    pods = pod_nodes(f for own in kept.fragments.values() for f in own)
    if not kept.subjects or _unbounded(kept, runs, touched, pods):
        return None
    moved = moved_sources(kept, clocks)
    renew = frozenset(touched) | moved
    changed = {s.signal_id: s for s in undecided_signals(connection, kept.cluster, frozenset(touched) - moved)}
    changed |= {s.signal_id: s for s in read_signals(connection, kept.cluster, moved, None, None, include_untimed=True)}
    old_places = [(sid, place) for sid in sorted(moved) for place in places_of(connection, kept.cluster, [sid])]
    for fact, place in _named_by_pod(connection, kept, touched, pods):
        changed[fact.signal_id] = fact
        old_places.append((fact.source_id, place))
    placed = place_signals(kept.facts(_sorted(changed)), clocks, ruleset)
    if kept.special is None:
        special = signals_of_rules(connection, kept.cluster, special_rules(ruleset))
        kept.special = Special(place_signals(kept.facts(special), clocks, ruleset))
    kept.special.renew(placed, moved)
    out = Narrow(set(), Regions(), renew, placed, dict(changed))
    touches: list[Touch] = []
    for p in placed:
        touch = touch_of(p)
        if touch is None:
            out.regions.sources.add(p.fact.source_id)
        else:
            touches.append(touch)
    touches.extend(_old_touches(kept, old_places, ruleset))
    for sid in sorted(renew & kept.sources.keys()):
        told = _of_source(kept, kept.sources[sid], clocks.get(sid), sid in moved)
        if told is None:
            return None
        touches.extend(told)
    for sid in kept.sources.keys() & renew:
        if _hostless_kernel(kept.sources[sid], clocks.get(sid)) and sid not in kept.decided:
            root = kept.sources[sid].root
            out.runs.update(r.run_key for r in runs if len(r.nodes) <= 1 and root in r.roots)
    _runs_that_changed(connection, kept, clocks, runs, ruleset, settings, out, touches)
    rows = kept.table.rows(runs, settings)
    out.runs |= touched_runs(touches, rows, single_job_roots(runs), settings)
    out.runs |= {run.run_key for run in runs if not renew.isdisjoint(run.source_ids)}
    known = {run.run_key for run in runs}
    out.runs |= known & set(overdue)
    out.runs = with_followers(out.runs, runs) & known
    regions_of(touches, out.regions)
    for key in overdue:
        host, span = kept.episodes.get(key, ("", None))
        if span is not None:
            out.regions.add(host, *span)
    site_episodes(touches, kept.episodes, out.regions.add)
    out.regions.tidy()
    return out


def _unbounded(kept: Kept, runs: Sequence[JobRun], touched: Collection[str], new_pods: Mapping[str, str]) -> bool:
    """Changes whose reach nothing bounds: they are rare."""
    facts = [kept.sources[sid] for sid in touched if sid in kept.sources]
    if any(fact.startswith("fr.") for s in facts for fact in s.facts):
        return True  # sets of dumps are read as a whole
    if kept.pods is not None and any(new_pods.get(pod) != node for pod, node in kept.pods.items()):
        return True
    for s in facts:
        old = kept.decided.get(s.source_id)
        if old is not None and (old.root, old.family, old.format, old.inner_paths[:1]) != (
            s.root,
            s.family,
            s.format,
            s.inner_paths[:1],
        ):
            return True
    return single_job_roots(kept.runs) != single_job_roots(runs)


def moved_sources(kept: Kept, clocks: Mapping[str, Clock]) -> frozenset[str]:
    """Sources whose clock or host is not the one that they were decided with, so that what they say has moved."""
    moved = set()
    for sid, clock in clocks.items():
        old = kept.clocks.get(sid)
        mark = kept.clock_marks.get(sid)
        if mark is None or old == clock or mark == clock_mark(clock):
            continue
        source = kept.decided.get(sid)
        if old is not None and source is not None and mark == clock_mark(old) and _same_times(source, old, clock):
            continue
        moved.add(sid)
    return frozenset(moved)


def _same_times(source: SourceFact, old: Clock, new: Clock) -> bool:
    """Whether two clocks differ only in the bound of their years, and it makes no difference to the source's stamps."""
    if replace(old, noyear_until=None) != replace(new, noyear_until=None):
        return False
    for kind, low, high in source.spans:
        ends = [(old.utc(Stamp(kind, us)), new.utc(Stamp(kind, us))) for us in (low, high)]
        if any(a != b for a, b in ends):
            return False
        if kind == "noyear" and (ends[0][0][0] or 0) > (ends[1][0][0] or 0):
            return False  # from one year into the next: the bound may lie between
    return True


def _named_by_pod(
    connection: Connection, kept: Kept, touched: Collection[str], pods: Mapping[str, str]
) -> list[tuple[SignalFact, Place]]:
    """Signals whose host is a pod of which it is known only now on which node it stood."""
    if kept.pods is not None:
        new = pods.keys() - kept.pods.keys()
    else:
        new = {short_host(f.step) for sid in touched for f in kept.fragments.get(sid, ())} & pods.keys()
    return signals_on(connection, kept.cluster, new)


def _old_touches(kept: Kept, places: Iterable[tuple[str, Place]], ruleset: Ruleset) -> Iterable[Touch]:
    """What signals touched where they were placed before."""
    for sid, (rule, host, low, high) in places:
        if low is not None and high is not None:
            root = kept.sources[sid].root if sid in kept.sources else ""
            yield touch_of_place(rule, host, low, high, root, ruleset)


def _hostless_kernel(source: SourceFact, clock: Clock | None) -> bool:
    return source.family in _KERNEL and not (clock is not None and clock.host)


def _of_source(kept: Kept, source: SourceFact, clock: Clock | None, moved: bool) -> list[Touch] | None:
    """What a source touches besides its signals: times that it covers now, facts that are told. None: anything."""
    old = None if moved else kept.decided.get(source.source_id)
    host = clock.host if clock is not None else ""
    whole = clocked(source, clock)
    out: list[Touch] = []
    told = {f for f in source.facts if f.startswith(_TOLD)}
    if told != ({f for f in old.facts if f.startswith(_TOLD)} if old is not None else set()) and source.family != "job":
        if not host or whole is None:
            return None
        out.append(Touch(*whole, (host,), source.root))
    if source.family in _KERNEL and host and clock is not None:
        before = {} if old is None else {kind: (low, high) for kind, low, high in old.spans}
        for kind, low, high in source.spans:
            had = before.get(kind)
            parts = [(low, high)] if had is None else [(low, had[0]), (had[1], high)]
            for a, b in parts:
                begin, end = clock.utc(Stamp(kind, a))[0], clock.utc(Stamp(kind, b))[0]
                if (a < b or had is None) and begin is not None and end is not None:
                    out.append(Touch(min(begin, end), max(begin, end), (host,), source.root, covers=True))
    return out


def _runs_that_changed(
    connection: Connection,
    kept: Kept,
    clocks: Mapping[str, Clock],
    runs: Sequence[JobRun],
    ruleset: Ruleset,
    settings: Settings,
    out: Narrow,
    touches: list[Touch],
) -> None:
    """Add changed runs, and signals that have other owners with them, to what is touched."""
    old, new = ({run.run_key: run for run in some} for some in (kept.runs, runs))
    keys = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    if not keys:
        return
    out.runs |= keys & new.keys()
    changed = [runs_by[key] for key in keys for runs_by in (old, new) if key in runs_by]
    episodes_lived_through(changed, kept.episodes, out.regions.add)
    for w in (window(run, settings) for run in changed):
        if w.low is not None and w.high is not None:
            out.whole.append((w.low - SLACK_US, w.high + SLACK_US))
    out.whole = merged(out.whole)
    for low, high in out.whole:
        out.read.update({s.signal_id: s for s in signals_between(connection, kept.cluster, low, high)})
    jobs = {run.job_id for run in changed if run.job_id}
    facts = dict(out.read)
    facts |= {s.signal_id: s for s in untimed_signals(connection, kept.cluster)}
    facts |= {p.fact.signal_id: p.fact for p in (kept.special or Special(())).of_jobs(jobs)}
    facts |= {s.signal_id: s for run in changed for sid in run.source_ids for s in kept.run_signals.get(sid, ())}
    before, after = Joiner(kept.runs, settings), Joiner(runs, settings)
    for p in place_signals(kept.facts(_sorted(facts)), clocks, ruleset):
        had = [r.run_key for r in before.runs_of(p)]
        has = [r.run_key for r in after.runs_of(p)]
        if had == has:
            continue
        out.runs.update(key for key in (*had, *has) if key in new)
        touch = touch_of(p)
        if touch is None:
            out.regions.sources.add(p.fact.source_id)
        else:
            touches.append(touch)


def _sorted(facts: Mapping[str, SignalFact]) -> list[SignalFact]:
    return [facts[key] for key in sorted(facts)]
