"""The evidence window of a run, and which of the runs that followed each other on a host an event concerns."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.joining.events import Placed
from schemas.settings import Settings
from schemas.subject import JobRun

#: What a host says this long after a run's end may still be late news of it, seconds.
LATE_S = 60.0
#: Events that tell of something that began before they were printed: a boot, and what firmware says then.
_LOOKS_BACK = frozenset({"boot", "reset_reason", "unclean"})


@dataclass(frozen=True, slots=True)
class Window:
    """The evidence window of a run, microseconds UTC; None where the run has no clock."""

    low: int | None
    high: int | None

    def holds(self, t: int, t_last: int, slack_s: float) -> bool:
        if self.low is None or self.high is None:
            return True
        slack = slack_s * 1e6
        return t_last >= self.low - slack and t <= self.high + slack


def window(run: JobRun, settings: Settings) -> Window:
    """From 10 min before the last useful step (or the end minus the watchdog time-out) until 5 min after the end."""
    ends = [t for t in (run.end_us, run.log_end_us) if t is not None]
    if run.end_us is not None and run.end_known:
        ends = [run.end_us]
    if not ends:
        return Window(None, None)
    end = max(ends)
    low = run.last_progress_us if run.last_progress_us is not None else end - int(settings.watchdog_s * 1e6)
    low = min(low, end)
    if run.start_us is not None and run.last_progress_us is None:
        low = max(low, min(run.start_us, end))
    return Window(low - int(settings.window_before_s * 1e6), end + int(settings.window_after_s * 1e6))


class RunIndex:
    """Runs by window, to find those that cover a moment."""

    def __init__(self, runs: Sequence[JobRun], settings: Settings) -> None:
        self.windows = {run.run_key: window(run, settings) for run in runs}
        timed: list[tuple[int, int, JobRun]] = []
        for run in runs:
            span = self.windows[run.run_key]
            if span.low is not None and span.high is not None:
                timed.append((span.low, span.high, run))
        self._timed = sorted(timed, key=lambda item: (item[0], item[1], item[2].run_key))
        self._lows = [low for low, _, _ in self._timed]
        self._longest = max((high - low for low, high, _ in self._timed), default=0)
        sets = {nodes: frozenset(nodes) for nodes in {run.nodes for run in runs}}
        self.nodes = {run.run_key: sets[run.nodes] for run in runs}

    def covering(self, t: int, t_last: int, slack_s: float) -> list[JobRun]:
        slack = int(slack_s * 1e6)
        first = bisect.bisect_left(self._lows, t - self._longest - slack)
        last = bisect.bisect_right(self._lows, t_last + slack)
        return [run for low, high, run in self._timed[first:last] if high + slack >= t]


def without_bystanders(p: Placed, found: Sequence[JobRun]) -> list[JobRun]:
    """The runs that an event of a host may concern, where jobs follow each other on it.

    While another run has the host, an event concerns neither a run that ended before it, nor one that started after it
    and made steps there (which cleared it), though it lies in their windows.
    """
    t = p.t or 0
    if len(found) < 2 or _LOOKS_BACK & (p.meaning.tags | p.rule.tags):
        return list(found)
    holders = {
        r.run_key for r in found if r.start_us is not None and r.end_us is not None and r.start_us <= t <= r.end_us
    }
    if not holders:
        return list(found)
    late = (LATE_S + p.unc) * 1e6

    def concerns(run: JobRun) -> bool:
        if run.run_key in holders:
            return True
        ended = run.end_us is not None and run.end_known and t > run.end_us + late
        cleared = (
            run.start_us is not None and (p.t_last or t) < run.start_us - p.unc * 1e6 and run.first_step is not None
        )
        return not (ended or cleared)

    return [run for run in found if concerns(run)]
