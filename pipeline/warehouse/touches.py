"""What a changed signal or an extended log touches: the runs to decide again, and where episodes may change.

Always a superset, but a close one: by host, by job and by time. The reasons mirror `pipeline.joining`: a run takes what
lies in its window on its hosts, what names its job, its own logs, what lasts of what its hosts said in `history_days`
before it, what concerns the site in the minutes around its end, and what the attempt before it saw; whether its hosts'
kernel logs reach its window is told, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from classifiers.api import Ruleset
from pipeline.joining.fabric import SWITCH, is_switch
from pipeline.joining.join import HISTORY_TAGS, SITE_S, SITE_TAGS, VAGUE_S
from pipeline.joining.windows import Window, window
from pipeline.warehouse.regions import Regions, Span
from schemas.facts import SourceFact, Stamp
from schemas.settings import Settings
from schemas.subject import JobRun

if TYPE_CHECKING:
    from pipeline.joining.events import Placed
    from pipeline.placing.place import Clock

SITE_US = int(SITE_S * 1e6)
_VAGUE_US = int(VAGUE_S * 1e6)


@dataclass(frozen=True, slots=True)
class Touch:
    """Something that was said at a time (microseconds UTC, widened by its uncertainty), on hosts, of a job."""

    low: int
    high: int
    hosts: tuple[str, ...]
    root: str
    job_id: str = ""
    site: bool = False
    switch: bool = False
    #: Whether it counts as history of its hosts.
    lasting: bool = False
    #: No signal, but times that a log now covers: matters to runs in whose window they lie only.
    covers: bool = False


def touch_of(p: Placed) -> Touch | None:
    """What a placed signal touches; None where it has no time."""
    if p.t is None:
        return None
    unc = int(min(p.unc, VAGUE_S) * 1e6) + 1
    site = bool(SITE_TAGS & (p.meaning.tags | p.rule.tags))
    lasting = bool(HISTORY_TAGS & p.meaning.tags)
    return Touch(p.t - unc, (p.t_last or p.t) + unc, p.hosts, p.root, p.job_id, site, is_switch(p), lasting)


def touch_of_place(rule: str, host: str | None, low: int, high: int, root: str, ruleset: Ruleset) -> Touch:
    """What a signal touched where it was placed before its source's clock changed."""
    known = ruleset.rules.get(rule)
    tags = known.tags if known is not None else frozenset()
    return Touch(
        low - _VAGUE_US,
        high + _VAGUE_US,
        (host,) if host else (),
        root,
        site=known is None or bool(SITE_TAGS & tags),
        switch=SWITCH in tags,
        lasting=known is None or bool(HISTORY_TAGS & tags),
    )


#: A run, its evidence window, its hosts.
Row = tuple[JobRun, Window, frozenset[str]]


class RunTable:
    """Runs with their windows and hosts, kept for as long as the runs are the same objects."""

    def __init__(self) -> None:
        self._held: dict[str, Row] = {}

    def rows(self, runs: Iterable[JobRun], settings: Settings) -> list[Row]:
        """One row a run, in the order of the runs."""
        held: dict[str, Row] = {}
        sets: dict[tuple[str, ...], frozenset[str]] = {}
        for run in runs:
            row = self._held.get(run.run_key)
            if row is None or row[0] is not run:
                nodes = sets.setdefault(run.nodes, frozenset(run.nodes))
                row = (run, window(run, settings), nodes)
            held[run.run_key] = row
        self._held = held
        return list(held.values())


def single_job_roots(runs: Iterable[JobRun]) -> frozenset[str]:
    """Roots in which all runs are one job's: what is said there without a host or a job is that job's."""
    names: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for root in run.roots:
            if len(names[root]) < 2:
                names[root].add(run.job_id or (run.source_ids[0] if run.source_ids else run.run_key))
    return frozenset(root for root, found in names.items() if len(found) == 1)


def clocked(source: SourceFact, clock: Clock | None) -> Span | None:
    """First and last stamp of a source in UTC, as far as its clock can tell."""
    if clock is None:
        return None
    times = [
        t for kind, low, high in source.spans for us in (low, high) if (t := clock.utc(Stamp(kind, us))[0]) is not None
    ]
    return (min(times), max(times)) if times else None


def touched_runs(
    touches: Sequence[Touch],
    rows: Sequence[Row],
    only_jobs: frozenset[str],
    settings: Settings,
) -> set[str]:
    """Keys of the runs that these touches may change."""
    by_host: dict[str, list[Touch]] = defaultdict(list)
    site: list[Touch] = []
    of_roots: list[Touch] = []
    jobs: set[str] = set()
    for touch in touches:
        for host in touch.hosts:
            by_host[host].append(touch)
        if touch.site:
            site.append(touch)
        if touch.switch or touch.root in only_jobs:
            of_roots.append(touch)
        if touch.job_id:
            jobs.add(touch.job_id)
    history = int(settings.history_days * 86400e6)
    touched = frozenset(by_host)
    found: set[str] = set()
    for run, w, nodes in rows:
        if run.job_id in jobs and run.job_id:
            found.add(run.run_key)
            continue
        if w.low is None or w.high is None:
            if any(t.root in run.roots for t in of_roots):
                found.add(run.run_key)
            continue
        begin = min(w.low, run.start_us if run.start_us is not None else w.low)

        def matters(t: Touch, begin: int = begin, w: Window = w) -> bool:
            low = begin - history if t.lasting else (w.low or 0)
            return t.high >= low and t.low <= (w.high or 0)

        common = touched & nodes if len(touched) < len(nodes) else nodes & touched
        if (
            any(matters(t) for host in common for t in by_host[host])
            or any(t.high >= w.low and t.low <= w.high and t.root in run.roots for t in of_roots)
            or _near_end(run, site)
        ):
            found.add(run.run_key)
    return found


def _near_end(run: JobRun, site: Sequence[Touch]) -> bool:
    end = run.end_us or run.log_end_us
    return end is not None and any(t.low - SITE_US <= end <= t.high + SITE_US for t in site)


def with_followers(keys: set[str], runs: Iterable[JobRun]) -> set[str]:
    """The runs with those that follow them in their jobs: an attempt is told what the one before it saw."""
    by_job: dict[str, list[JobRun]] = defaultdict(list)
    for run in runs:
        if run.job_id:
            by_job[run.job_id].append(run)
    out = set(keys)
    for attempts in by_job.values():
        attempts.sort(key=lambda r: (r.attempt, r.run_key))
        for before, after in pairwise(attempts):
            if before.run_key in keys:
                out.add(after.run_key)
    return out


def regions_of(touches: Iterable[Touch], regions: Regions) -> None:
    """Note where episodes may have changed by these touches."""
    for touch in touches:
        if touch.covers:
            continue
        for host in touch.hosts or ("",):
            regions.add(host, touch.low, touch.high)


def site_episodes(
    touches: Sequence[Touch], episodes: Mapping[str, tuple[str, Span | None]], add: Callable[[str, int, int], None]
) -> None:
    """Note the episodes that end in the minutes around what concerns the site."""
    site = [t for t in touches if t.site]
    if not site:
        return
    for host, span in episodes.values():
        if span is not None and any(t.low - SITE_US <= span[1] <= t.high + SITE_US for t in site):
            add(host, *span)
