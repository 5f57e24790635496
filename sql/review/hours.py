"""Failures by hour of the day: is there more than chance? Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, exp, hypot, pi, sin, sqrt

from sql.review.rates import poisson_interval


@dataclass(frozen=True, slots=True)
class HourTest:
    """p: Rayleigh test of one daily cycle; smallest_swing: the +- share that so many events would show."""

    counts: tuple[int, ...]  # 24
    ci95: tuple[tuple[float, float], ...]  # 24, of the mean count an hour
    p: float | None
    peak_hour: float | None
    smallest_swing: float | None
    verdict: str


def by_hour(hours: Sequence[float]) -> HourTest:
    """hours: hour of the day 0..24 (UTC) of each failure.

    Rayleigh with the correction of Zar (1999). With n events a swing of +- sqrt(12 / n) (17 % of 419) is about what
    reaches p = 0.05: its R is swing / 2, and n R^2 = 3.
    """
    from math import atan2

    counts = [0] * 24
    for hour in hours:
        counts[int(hour) % 24] += 1
    limits = tuple((low, high if high is not None else 0.0) for low, high in map(poisson_interval, counts))
    n = len(hours)
    if n == 0:
        return HourTest(tuple(counts), limits, None, None, None, "no failures")
    c = sum(cos(2 * pi * h / 24) for h in hours)
    s = sum(sin(2 * pi * h / 24) for h in hours)
    r = hypot(c, s)
    p = min(1.0, exp(sqrt(1 + 4 * n + 4 * (n * n - r * r)) - (1 + 2 * n)))
    peak = (atan2(s, c) / (2 * pi) * 24) % 24
    swing = sqrt(12 / n)
    if n < 20:
        verdict = f"too few failures to tell ({n})"
    elif p < 0.05:
        verdict = f"more around {peak:.0f} h UTC (p = {p:.3f})"
    else:
        verdict = f"no cycle seen; {n} failures would show one of +-{100 * swing:.0f} % or more"
    return HourTest(tuple(counts), limits, p, peak, swing, verdict)
