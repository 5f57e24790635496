"""Power swings in a telemetry series, tied to what training did at that moment. Pure functions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

#: A swing belongs to an event this close to it (s): samples and the lines of logs come from different clocks.
NEAR_S = 15.0


def tied(at: float, events: Sequence[tuple[float, str]], times: Sequence[float], near_s: float = NEAR_S) -> str:
    """The kind of the event nearest to a moment, "" where none is near. times: those of the events, in order."""
    i = bisect_left(times, at)
    close = [(abs(times[j] - at), events[j][1]) for j in (i - 1, i) if 0 <= j < len(times)]
    distance, kind = min(close, default=(near_s + 1, ""))
    return kind if distance <= near_s else ""


@dataclass(frozen=True, slots=True)
class Swing:
    """at: seconds since 1970 UTC; watts: change (signed); watts_per_s; tied_to: the event near it, "" if none."""

    at: float
    watts: float
    watts_per_s: float
    tied_to: str


def swings(
    series: Sequence[tuple[float, float]],
    events: Sequence[tuple[float, str]],
    k: float = 8.0,
    span: tuple[float, float] = (1.0, 10.0),
    near_s: float = NEAR_S,
) -> list[Swing]:
    """Changes over 1-10 s above k times the median absolute deviation of all such changes, largest first.

    The deviation is at least 0.1 % of the mean power: a constant series has no swings, however small its steps.

    series: (seconds, watts) in order of time; events: (seconds, checkpoint | stall | start | stop), in order of time.
    A series sampled more coarsely than `span` has none: it cannot show them.
    """
    changes = [
        (t2, w2 - w1, (w2 - w1) / (t2 - t1)) for (t1, w1), (t2, w2) in pairwise(series) if span[0] <= t2 - t1 <= span[1]
    ]
    if not changes:
        return []
    middle = median(c for _, c, _ in changes)
    level = abs(sum(w for _, w in series)) / len(series)
    spread = max(median(abs(c - middle) for _, c, _ in changes), 0.001 * level, 1e-9)
    times = [t for t, _ in events]
    found = []
    for at, change, rate in changes:
        if abs(change - middle) > k * spread:
            found.append(Swing(at, change, rate, tied(at, events, times, near_s)))
    return sorted(found, key=lambda s: (-abs(s.watts), s.at))
