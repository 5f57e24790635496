"""Does the mean time to failure change over a period? Pure functions.

Failures of a job whose rate is exp(a + b t): given their number, their times are spread as exp(b t) over the job's
time, so b is found from their mean alone, however often the job failed. At b = 0 the test is Laplace's (Cox and Lewis
1966).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, expm1, sqrt

WEEK_S = 7 * 86400.0
#: Fewer failures than this, or less time, cannot tell a trend from chance.
MIN_FAILURES, MIN_DAYS = 10, 14.0
_Z95 = 1.959963984540054
#: A change by e^4 within the period is as steep as anything that can be told.
_STEEPEST = 40.0


@dataclass(frozen=True, slots=True)
class Trend:
    """change_per_week: share by which MTTF changes in a week of the job's time (-0.1 is 10 % shorter).

    smallest: the +- share a week that so many failures in so much time would show.
    """

    change_per_week: float | None
    ci95: tuple[float, float] | None
    smallest: float | None
    verdict: str


def mttf_trend(at: Sequence[float], length: float) -> Trend:
    """Trend of MTTF. at: times of failures in seconds of the job's own (elapsed) time; length: all of that time."""
    inside = [t for t in at if 0 <= t <= length]
    n, days = len(inside), length / 86400
    if n < MIN_FAILURES or days < MIN_DAYS:
        what = f"{n} failure{'' if n == 1 else 's'} in {days:.0f} days"
        return Trend(None, None, None, f"too little to tell a trend ({what})")
    weeks = length / WEEK_S
    mean = sum(inside) / n / length
    best = _solve(lambda slope: _moments(slope)[0] - mean)

    def off(slope: float, z: float) -> float:
        middle, spread = _moments(slope)
        return middle + z * spread / sqrt(n) - mean

    low, high = _solve(lambda slope: off(slope, _Z95)), _solve(lambda slope: off(slope, -_Z95))
    change, ci = expm1(-best / weeks), (expm1(-high / weeks), expm1(-low / weeks))
    smallest = expm1(_Z95 * sqrt(12 / n) / weeks)
    if ci[0] > 0 or ci[1] < 0:
        verb = "grows" if change > 0 else "shrinks"
        words = f"MTTF {verb} by {100 * abs(change):.1f} % a week (95 %: {100 * ci[0]:+.1f} to {100 * ci[1]:+.1f} %)"
    else:
        words = f"no trend seen; {n} failures in {days:.0f} days would show {100 * smallest:.0f} % a week or more"
    return Trend(change, ci, smallest, words)


def _moments(slope: float) -> tuple[float, float]:
    """Mean and standard deviation of a time on [0, 1] whose density grows as exp(slope t)."""
    if abs(slope) < 1e-3:
        return 0.5 + slope / 12, sqrt(1 / 12)
    if slope < 0:
        mean, spread = _moments(-slope)
        return 1 - mean, spread
    tail = exp(-slope)
    mean = 1 / (1 - tail) - 1 / slope
    variance = 1 / slope**2 - tail / (1 - tail) ** 2
    return mean, sqrt(max(variance, 0.0))


def _solve(rising: Callable[[float], float]) -> float:
    """The slope at which a rising function is 0, by halving."""
    low, high = -_STEEPEST, _STEEPEST
    for _ in range(60):
        middle = (low + high) / 2
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
