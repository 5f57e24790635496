"""Which events belong to which subject: job runs take what happened on their hosts in their window, what is left over
becomes fault episodes of hosts.

A signal looks up the runs that covered its time (an interval index over runs, never runs x hosts) and asks each for
its host. Where a source has no clock or no host, it belongs to the only job of its input root, and the run says so.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from classifiers.api import Ruleset
from classifiers.engine.first import place_of
from pipeline.joining.events import ClockLike, Placed, ProgressIndex, merge_events, place_signals
from pipeline.joining.fabric import as_context, is_switch, one_fabric
from pipeline.joining.lives import Lives
from pipeline.joining.recorder import recorder_signals
from pipeline.joining.windows import RunIndex, Window, without_bystanders
from schemas.facts import Facts, ProgressFact, SourceFact, Stamp
from schemas.identity import digest
from schemas.moments import PREFIX as MOMENT
from schemas.settings import Settings
from schemas.subject import Coverage, Event, JobRun, Subject

#: A clock that is off by more than this cannot say whether an event lies in a window.
VAGUE_S = 6 * 3600.0
#: Hosts whose boots, losses and power events within this distance of a run's end may share its cause, seconds.
SITE_S = 900.0
#: A line that names more hosts than this speaks of an allocation, not of the hosts.
FEW_HOSTS = 64
#: Hosts of a run whose coverage is told: those that its lines speak of, and of the others the first by name.
MAX_SUSPECTS, MAX_COVERED = 8, 256
SITE_TAGS = frozenset({"nodefail", "boot", "power"})
#: A job of no more GPUs than this on each host that its log names has no other hosts.
GPUS_OF_A_HOST = 8
#: Tag of what is a run's by its place among the inputs alone.
ASSUMED_HOST = "assumed_host"
#: Families of logs that a host keeps itself.
HOST_LOGS = frozenset({"kernel", "syslog", "journal", "bmc"})
#: What a host did long before counts where programs crash now and then; other events count in the window only.
HISTORY_TAGS = frozenset({"crash", "repeats"})


def _jobs_of_roots(runs: Iterable[JobRun]) -> dict[str, dict[str, list[JobRun]]]:
    """root -> job label -> attempts in order."""
    out: dict[str, dict[str, list[JobRun]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for root in run.roots:
            # attempts of one log are one job, whatever it is called
            name = run.job_id or (run.source_ids[0] if run.source_ids else run.run_key)
            out[root][name].append(run)
    for jobs in out.values():
        for attempts in jobs.values():
            attempts.sort(key=lambda r: (r.attempt, r.start_us or 0, r.run_key))
    return out


def _owner_in_log(p: Placed, owners: Mapping[str, Sequence[JobRun]]) -> list[JobRun]:
    """The attempts whose part of this job log holds the signal."""
    mine = []
    for run in owners.get(p.fact.source_id, ()):
        spans = [(a, b) for sid, a, b in run.spans if sid == p.fact.source_id]
        if not spans or any(a <= p.fact.first_offset and (b < 0 or p.fact.first_offset < b) for a, b in spans):
            mine.append(run)
    return mine


class Joiner:
    """Tells whose each placed signal is, given all runs."""

    def __init__(self, runs: Sequence[JobRun], settings: Settings) -> None:
        self.settings = settings
        self.runs = sorted(runs, key=lambda r: r.run_key)
        self.index = RunIndex(self.runs, settings)
        self.roots = _jobs_of_roots(self.runs)
        self.owners: dict[str, list[JobRun]] = defaultdict(list)
        self.by_job: dict[str, list[JobRun]] = defaultdict(list)
        for run in self.runs:
            for sid in run.source_ids:
                self.owners[sid].append(run)
            if run.job_id:
                self.by_job[run.job_id].append(run)

    def attempts_of(self, run: JobRun) -> list[JobRun]:
        """The other attempts of the run's job: by job id, else by a log that they share."""
        found = self.by_job[run.job_id] if run.job_id else [r for sid in run.source_ids for r in self.owners[sid]]
        return [r for r in dict.fromkeys(found) if r.run_key != run.run_key]

    def runs_of(self, p: Placed) -> list[JobRun]:
        """The runs that a placed signal belongs to; [] for none."""
        if is_switch(p):
            return self._named(p)  # it is nobody's by its host; see `meanwhile`
        if p.fact.source_id in self.owners:
            return _owner_in_log(p, self.owners)
        named = self._named(p)
        if named:
            return named
        if p.t is not None and p.unc <= VAGUE_S and p.hosts:
            covering = self.index.covering(p.t, p.t_last or p.t, p.unc)
            hosts = set(p.hosts)
            found = [run for run in covering if hosts & self.index.nodes[run.run_key]]
            if found:
                return without_bystanders(p, found)
        return self._only_job(p)

    def _named(self, p: Placed) -> list[JobRun]:
        """Runs whose job id the line names, in whose window it lies."""
        if not p.job_id:
            return []
        runs = self.by_job.get(p.job_id, [])
        if p.t is None or len(runs) <= 1:
            return list(runs[-1:])
        return [r for r in runs if self.index.windows[r.run_key].holds(p.t, p.t_last or p.t, p.unc)]

    def meanwhile(self, p: Placed) -> list[JobRun]:
        """The runs of the signal's root that ran when it was printed."""
        if p.t is None or p.unc > VAGUE_S:
            return []
        return [run for run in self.index.covering(p.t, p.t_last or p.t, p.unc) if p.root in run.roots]

    def _foreign(self, p: Placed, run: JobRun) -> bool:
        """Whether the signal is of a host that is none of the run's. Logs alone name some of their hosts: what lies
        beside the logs of the root's only job, and inside its window, is taken for one more, as an assumption."""
        nodes = self.index.nodes[run.run_key]
        if not nodes or not nodes.isdisjoint(p.hosts):
            return False
        fits = run.n_gpus is not None and run.n_gpus <= GPUS_OF_A_HOST * len(nodes)
        return bool(run.scheduler) or fits or p.family not in HOST_LOGS or p.t is None or p.unc > VAGUE_S

    def assumes(self, p: Placed, run: JobRun) -> bool:
        """Whether a signal is the run's by its root alone, though the run's logs name other hosts."""
        nodes = self.index.nodes[run.run_key]
        return bool(p.hosts) and bool(nodes) and p.fact.source_id not in self.owners and nodes.isdisjoint(p.hosts)

    def _only_job(self, p: Placed) -> list[JobRun]:
        """The only job of the signal's input root, if its hosts do not contradict and its time does not either."""
        jobs = self.roots.get(p.root)
        if not jobs or len(jobs) != 1:
            return []
        attempts = next(iter(jobs.values()))
        if bool(p.hosts) and all(self._foreign(p, run) for run in attempts):
            return []
        if p.t is None or p.unc > VAGUE_S:
            return attempts[-1:]
        inside = [r for r in attempts if self.index.windows[r.run_key].holds(p.t, p.t_last or p.t, p.unc)]
        return inside or [r for r in attempts[-1:] if self.index.windows[r.run_key].low is None]


def join(
    runs: Sequence[JobRun],
    facts: Facts,
    clocks: Mapping[str, ClockLike],
    ruleset: Ruleset,
    settings: Settings,
    placed: Sequence[Placed] | None = None,
    only: Collection[str] | None = None,
    fabrics: frozenset[str] | None = None,
) -> list[Subject]:
    """All subjects of these facts, sorted by key: one a run, one a fault episode of a host.

    placed: what `place_signals` gives of these facts, for callers that need it as well. only: keys of the runs that are
    wanted; all take what is theirs, so that episodes are the same. fabrics: roots with one fabric, for callers that do
    not give all signals.
    """
    if placed is None:
        placed = place_signals(facts, clocks, ruleset)
    if shown := recorder_signals(facts.sources):  # what sets of dumps show is no line, so it is in no store
        placed = [*placed, *place_signals(replace(facts, signals=tuple(shown)), clocks, ruleset)]
    joiner = Joiner(runs, settings)
    of_run: dict[str, list[Placed]] = defaultdict(list)
    loose: list[Placed] = []
    sources = {s.source_id: s for s in facts.sources}
    if fabrics is None:
        fabrics = one_fabric(placed, sources)
    for p in placed:
        if p.root in fabrics and is_switch(p):
            for run in joiner.meanwhile(p):
                of_run[run.run_key].append(as_context(p))
        owners = joiner.runs_of(p)
        for run in owners:
            beside = not p.job_id and not is_switch(p) and joiner.assumes(p, run)
            of_run[run.run_key].append(assumed_host(p) if beside else p)
        if not owners:
            loose.append(p)
    progress: dict[str, list[ProgressFact]] = defaultdict(list)
    for fact in facts.progress:
        progress[fact.source_id].append(fact)
    site = [p for p in placed if p.t is not None and SITE_TAGS & (p.meaning.tags | p.rule.tags)]
    site.sort(key=lambda p: (p.t or 0, p.fact.signal_id))
    by_host = _by_host(placed)
    subjects = [
        _run_subject(run, of_run, joiner, sources, progress, clocks, site, by_host, settings)
        for run in joiner.runs
        if only is None or run.run_key in only
    ]
    with_runs = frozenset(joiner.roots)
    hostly = [p for p in loose if p.family != "job" or (p.root not in with_runs and SITE_TAGS & p.meaning.tags)]
    alone = [root for root, jobs in joiner.roots.items() if len(jobs) == 1]
    subjects.extend(_episodes(hostly, sources, site, Lives(joiner.runs, alone, progress, clocks), settings))
    return sorted(subjects, key=lambda s: s.key)


def assumed_host(p: Placed) -> Placed:
    """The signal as it is joined to a run whose logs do not name its host."""
    return replace(p, meaning=replace(p.meaning, tags=p.meaning.tags | {ASSUMED_HOST}))


def _by_host(placed: Iterable[Placed]) -> dict[str, list[Placed]]:
    """What counts as history of each host, in order of time."""
    out: dict[str, list[Placed]] = defaultdict(list)
    for p in placed:
        if not HISTORY_TAGS & p.meaning.tags:
            continue
        if p.t is None or p.family == "job" or len(p.hosts) > FEW_HOSTS or p.meaning.component == "informational":
            continue  # what names a whole partition, or nothing but normal life, is no history of a host
        for host in p.hosts:
            out[host].append(p)
    for items in out.values():
        items.sort(key=lambda p: (p.t or 0, p.fact.signal_id))
    return out


def _near(site: Sequence[Placed], t: int) -> list[Placed]:
    low = bisect.bisect_left(site, t - SITE_S * 1e6, key=lambda p: p.t or 0)
    high = bisect.bisect_right(site, t + SITE_S * 1e6, key=lambda p: p.t or 0)
    return list(site[low:high])


def _run_subject(
    run: JobRun,
    of_run: Mapping[str, Sequence[Placed]],
    joiner: Joiner,
    sources: Mapping[str, SourceFact],
    progress: Mapping[str, Sequence[ProgressFact]],
    clocks: Mapping[str, ClockLike],
    site: Sequence[Placed],
    by_host: Mapping[str, Sequence[Placed]],
    settings: Settings,
) -> Subject:
    own = of_run.get(run.run_key, ())
    steps = ProgressIndex([p for sid in run.source_ids for p in progress.get(sid, ())], clocks, run.spans)
    events = merge_events(own, steps)
    w = joiner.index.windows[run.run_key]
    history: list[Placed] = []
    if w.low is not None and run.start_us is not None:
        before = run.start_us
        mine = {p.fact.signal_id for p in own}
        oldest = before - int(settings.history_days * 86400e6)
        hosts = run.nodes if len(run.nodes) <= FEW_HOSTS else tuple(dict.fromkeys(e.host for e in events if e.host))
        for host in hosts:
            earlier_on_host = (p for p in by_host.get(host, ()) if oldest <= (p.t or 0) < before)
            history.extend(p for p in earlier_on_host if p.fact.signal_id not in mine)
    end = run.end_us or run.log_end_us
    near = [p for p in _near(site, end) if not any(p is o for o in own)] if end is not None else []
    earlier = [
        r for r in joiner.by_job.get(run.job_id or "", []) if (r.attempt, r.run_key) < (run.attempt, run.run_key)
    ]
    before_this = max(earlier, key=lambda r: (r.attempt, r.run_key), default=None)
    siblings = [r for r in joiner.by_job.get(run.job_id or "", []) if r.run_key != run.run_key]
    for root in run.roots:
        jobs = joiner.roots.get(root, {})
        if len(jobs) <= 8:
            siblings.extend(r for attempts in jobs.values() for r in attempts if r.run_key != run.run_key)
    unique = {r.run_key: r for r in siblings}
    used = {p.fact.source_id for p in own} | set(run.source_ids)
    return Subject(
        key=run.run_key,
        kind="job_interruption",
        run=run,
        events=events,
        history=merge_events(history),
        coverage=_coverage(run, _suspects(run, events), sources, clocks, w),
        host=run.nodes[0] if len(run.nodes) == 1 else "",
        sibling_runs=tuple(unique[k] for k in sorted(unique)),
        site_events=merge_events(near),
        facts=_facts(own, used, sources),
        previous=merge_events(of_run.get(before_this.run_key, ())) if before_this else (),
    )


def _facts(placed: Iterable[Placed], source_ids: Iterable[str], sources: Mapping[str, SourceFact]) -> tuple[str, ...]:
    """What the sources say beside their signals, and which clocks were taken to be off (`assumed=...`)."""
    told = {f for sid in source_ids if sid in sources for f in sources[sid].facts if not f.startswith(MOMENT)}
    names = {name for p in placed for name in p.gpu}
    beside = {h for p in placed if ASSUMED_HOST in p.meaning.tags for h in p.hosts}
    taken = {f"assumed=host {h} was the job's: its log lies beside the job's, and names no other job" for h in beside}
    return tuple(sorted(told | names | taken | {f"assumed={p.skew}" for p in placed if p.skew}))


def _suspects(run: JobRun, events: Sequence[Event]) -> tuple[str, ...]:
    """Hosts of the run that lines of its own logs speak of as failing, first named first."""
    spoken = [e for e in events if e.family == "job" and e.role in ("cause", "either") and "teardown" not in e.tags]
    named = dict.fromkeys(host for e in spoken if (host := place_of(e, run)))
    nodes = frozenset(run.nodes) if named else frozenset()
    return tuple(h for h in named if h in nodes)[:MAX_SUSPECTS]


def _coverage(
    run: JobRun,
    suspects: Sequence[str],
    sources: Mapping[str, SourceFact],
    clocks: Mapping[str, ClockLike],
    w: Window,
) -> tuple[Coverage, ...]:
    """Which logs of the run's hosts were there for its window. Missing coverage is told, never used as proof.

    Of a large run the first hosts are listed, and before them those that its own lines speak of.
    """
    kernel: dict[str, bool] = dict.fromkeys((*suspects, *run.nodes[:MAX_COVERED]), False)
    hostless = False
    for source in sources.values():
        if source.family not in ("kernel", "syslog", "journal"):
            continue
        clock = clocks.get(source.source_id)
        host = clock.host if clock else ""
        if not host:
            hostless = hostless or source.root in run.roots
        elif host in kernel and _covers(source, clock, w):
            kernel[host] = True
    order = [*suspects, *sorted(kernel.keys() - set(suspects))]
    rows = [
        Coverage(host, "kernel log", w.low, w.high, kernel[host] or (hostless and len(kernel) == 1)) for host in order
    ]
    if not kernel:
        rows.append(Coverage("", "kernel log", w.low, w.high, hostless))
    job_host = run.nodes[0] if len(run.nodes) == 1 else ""
    rows.append(Coverage(job_host, "job log", w.low, w.high, bool(run.source_ids)))
    rows.append(Coverage("", "scheduler record", w.low, w.high, bool(run.scheduler and run.state)))
    return tuple(rows)


def _covers(source: SourceFact, clock: ClockLike | None, w: Window) -> bool:
    if clock is None or w.low is None or w.high is None:
        return True
    for kind, low, high in source.spans:
        t0, _ = clock.utc(Stamp(kind, low))
        t1, _ = clock.utc(Stamp(kind, high))
        if t0 is not None and t1 is not None and t1 >= w.low and t0 <= w.high:
            return True
    return False


def _episodes(
    loose: Sequence[Placed],
    sources: Mapping[str, SourceFact],
    site: Sequence[Placed],
    lives: Lives,
    settings: Settings,
) -> list[Subject]:
    """What no run claimed, as episodes of one host that end with a silence of `episode_gap_s`.

    Signals of a source without a clock are told apart by their own stamps. Job logs that are nobody's run say nothing
    of a host, but for a controller's word that one was lost where no run is known; the caller leaves out the rest.
    """
    lanes: dict[tuple[str, str], list[tuple[int, int, Placed]]] = defaultdict(list)
    for p in loose:
        if p.meaning.component == "informational" and not (SITE_TAGS & p.meaning.tags):
            continue
        if _of_nobody(p, sources):
            continue
        for host in p.hosts or ("",):
            if p.t is not None:
                lanes[(host, f"utc:{p.root}" if not host else "utc")].append((p.t, p.t_last or p.t, p))
            else:
                first, last = p.fact.first, p.fact.last
                low, high = (first.us, last.us) if first.kind != "none" else (0, 0)
                lanes[(host, p.fact.source_id)].append((low, high, p))
    subjects = []
    for (host, _lane), items in sorted(lanes.items()):
        items.sort(key=lambda item: (item[0], item[2].fact.first_offset, item[2].fact.signal_id))
        chunk: list[Placed] = []
        end = 0
        for low, high, p in items:
            if chunk and low - end > settings.episode_gap_s * 1e6:
                subjects.append(_episode(host, chunk, sources, site, lives))
                chunk = []
            chunk.append(p)
            end = max(end, high)
        if chunk:
            subjects.append(_episode(host, chunk, sources, site, lives))
    return subjects


def _of_nobody(p: Placed, sources: Mapping[str, SourceFact]) -> bool:
    """A line of a text that no format knows, without time and host: a word in a table or a note is no fault."""
    source = sources.get(p.fact.source_id)
    return source is not None and source.format == "text" and p.fact.first.kind == "none" and not p.hosts


def _episode(
    host: str,
    chunk: Sequence[Placed],
    sources: Mapping[str, SourceFact],
    site: Sequence[Placed],
    lives: Lives,
) -> Subject:
    narrowed = [replace(p, hosts=(host,)) if host and len(p.hosts) > 1 else p for p in chunk]
    roots = frozenset(p.root for p in chunk)
    events = tuple(
        replace(e, progress_after=after) if (after := lives.steps_after(e, roots)) > e.progress_after else e
        for e in merge_events(narrowed)
    )
    lead = min(p.fact.signal_id for p in chunk)
    times = [p.t for p in chunk if p.t is not None]
    near = [p for p in _near(site, max(times)) if host not in p.hosts] if times else []
    return Subject(
        key=digest("episode", host, lead),
        kind="host_fault",
        run=None,
        events=events,
        host=host,
        site_events=merge_events(near),
        facts=_facts(chunk, {p.fact.source_id for p in chunk}, sources),
    )
