"""The day effect: a cosinor fit of log throughput with autocorrelated errors, and its verdict. Pure functions.

log(throughput) = attempt effect + A cos(2 pi h/24) + B sin(2 pi h/24) + trend; h is the hour of the day in UTC.

How sure it is: the widest of three errors. Newey and West over two hours knows what neighbouring samples share, and is
by itself too narrow (it held a planted effect in 62 to 95 of 100 simulated jobs). Whole days as clusters know what a
day shares. The third asks how much the same attempts move at frequencies beside one a day, where no cycle is expected:
slow drift, and days that differ in shape, show there as they do at the daily frequency. `benchmarks.interval_coverage`
measures how often the interval holds what was planted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: A 24 h cycle is seen once a day: fewer days than this cannot tell it from drift, however many samples they hold.
MIN_DAYS = 14.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Throughput (steps a second, any unit) around a moment (seconds since 1970 UTC) in one attempt."""

    at: float
    rate: float
    group: str


@dataclass(frozen=True, slots=True)
class DayEffect:
    """peak_to_trough and ci95 are shares of the mean (0.015 is 1.5 %); slowest_hour is in UTC."""

    peak_to_trough: float | None
    ci95: tuple[float, float] | None
    slowest_hour: float | None
    verdict: str
    days: float
    samples: int


def day_effect(samples: Sequence[Sample], min_days: float = MIN_DAYS) -> DayEffect:
    """Fit the day effect; the verdict is "detectable" or "not detectable with N days", never "absent"."""
    import numpy as np

    held = sorted((s for s in samples if s.rate > 0), key=lambda s: (s.at, s.group))
    days = (held[-1].at - held[0].at) / 86400 if held else 0.0
    unseen = f"not detectable with {days:.0f} days"
    groups = {g: i for i, g in enumerate(dict.fromkeys(s.group for s in held))}
    if len(held) < len(groups) + 30:
        return DayEffect(None, None, None, unseen, days, len(held))
    at = np.array([s.at for s in held])
    y = np.log(np.array([s.rate for s in held]))
    which = np.array([groups[s.group] for s in held])
    y = clipped(y, which, np)
    x = within(np.column_stack([*day_waves(at, np), (at - at.mean()) / 86400]), which, np)
    fit = _fit(x, within(y[:, None], which, np)[:, 0], at, which, np)
    if fit is None:
        return DayEffect(None, None, None, unseen, days, len(held))
    # A period of 14 days holds samples for a little less.
    sure = days >= min_days - 0.25 and fit.p < 0.05
    return DayEffect(fit.size, (fit.low, fit.high), fit.slowest, "detectable" if sure else unseen, days, len(held))


def day_waves(at: Any, np: Any) -> tuple[Any, Any]:  # noqa: ANN401 - numpy is imported late
    """Cosine and sine of one cycle a day."""
    angle = 2 * np.pi * (at % 86400) / 86400
    return np.cos(angle), np.sin(angle)


@dataclass(frozen=True, slots=True)
class _Fit:
    size: float
    low: float
    high: float
    slowest: float | None
    p: float


def _fit(x: Any, y: Any, at: Any, which: Any, np: Any) -> _Fit | None:  # noqa: ANN401 - numpy is imported late
    """Least squares with the interval of the peak-to-trough height by the delta method, and the joint test of A and B.

    x, y: without the mean of each attempt. The test has two degrees of freedom: the height of pure noise is never 0.
    """
    from scipy.special import fdtrc, stdtrit

    gram = x.T @ x
    if np.linalg.matrix_rank(gram) < 3:
        return None
    inverse = np.linalg.inv(gram)
    beta = inverse @ (x.T @ y)
    rest = y - x @ beta
    ab = beta[:2]
    size = float(np.hypot(*ab))
    # An even throughput leaves nothing but the rounding of floats.
    if size < 1e-12:
        return _Fit(0.0, 0.0, 0.0, None, 1.0)
    days = (at[-1] - at[0]) / 86400
    few = max(days - 3, 1.0)
    # Student's t with the days there are, not the samples: they decide how sure a daily cycle can be.
    spreads = [(s, few) for s in sandwiches(x, rest, at, inverse, np)]
    beside, pairs = _beside(x, rest, at, which, inverse, np)
    if pairs:
        spreads.append((inverse * beside, 2.0 * pairs))
    gradient = ab / size
    half, p = 0.0, 0.0
    for spread, free in spreads:
        error = float(np.sqrt(max(0.0, gradient @ spread[:2, :2] @ gradient)))
        half = max(half, float(stdtrit(free, 0.975)) * error)
        joint = float(ab @ np.linalg.pinv(spread[:2, :2]) @ ab) / 2
        p = max(p, float(fdtrc(2, free, joint)))
    low = max(0.0, 2 * (size - half)) if p < 0.05 else 0.0
    slowest = float((np.arctan2(-ab[1], -ab[0]) / (2 * np.pi) * 24) % 24)
    return _Fit(2 * size, low, 2 * (size + half), slowest, p)


def _beside(x: Any, rest: Any, at: Any, which: Any, inverse: Any, np: Any) -> tuple[float, int]:  # noqa: ANN401
    """(variance of the residuals as seen at frequencies beside one a day, how many): 3 to 8 on each side, by the days.

    They are whole cycles of the period apart, so that none of them sees the daily one.
    """
    length = float(at[-1] - at[0])
    reach = min(max(round(length / 86400 / 5), 3), 8)
    total, pairs = 0.0, 0
    for cycles in range(-reach, reach + 1):
        frequency = 1 / 86400 + cycles / length
        if cycles == 0 or frequency * length < 1.5:
            continue
        angle = 2 * np.pi * frequency * (at - at[0])
        wave = within(np.column_stack([np.cos(angle), np.sin(angle)]), which, np)
        wave = wave - x @ (inverse @ (x.T @ wave))
        found = wave.T @ rest
        total += float(found @ np.linalg.pinv(wave.T @ wave) @ found)
        pairs += 1
    return (total / (2 * pairs) if pairs else 0.0), pairs


def sandwiches(x: Any, rest: Any, at: Any, inverse: Any, np: Any, reach_s: float = 7200.0) -> list[Any]:  # noqa: ANN401
    """Covariances of the coefficients: Newey-West over so many seconds, and days as clusters."""
    scores = x * rest[:, None]
    return [inverse @ meat @ inverse for meat in (_newey_west(scores, at, np, reach_s), _by_day(scores, at, np))]


def clipped(y: Any, which: Any, np: Any) -> Any:  # noqa: ANN401 - numpy is imported where it is used
    """Stalls are no throughput: values far from the median of their attempt are pulled in to 6 median deviations.

    The deviation is at least 1 %: stamps of whole seconds leave many equal values, whose median deviation is 0.
    """
    order = np.lexsort((y, which))
    counts = np.bincount(which)
    begins = np.concatenate([[0], np.cumsum(counts)[:-1]])
    # The lower median of each attempt: the middle of its values in order.
    middle = y[order][begins + (np.maximum(counts, 1) - 1) // 2][which]
    spread = max(float(np.median(np.abs(y - middle))), 0.01)
    return np.clip(y, middle - 6 * spread, middle + 6 * spread)


def within(values: Any, which: Any, np: Any) -> Any:  # noqa: ANN401
    """Columns without the mean of each attempt."""
    counts = np.maximum(np.bincount(which), 1)
    return np.column_stack([v - (np.bincount(which, weights=v) / counts)[which] for v in values.T])


def _by_day(scores: Any, at: Any, np: Any) -> Any:  # noqa: ANN401
    """Covariance of the scores with days as clusters."""
    day = (at // 86400).astype(int)
    sums = np.zeros((day.max() - day.min() + 1, scores.shape[1]))
    np.add.at(sums, day - day.min(), scores)
    return sums.T @ sums * (len(sums) / max(len(sums) - 1, 1))


def _newey_west(scores: Any, at: Any, np: Any, reach_s: float) -> Any:  # noqa: ANN401
    """Long-run covariance of the scores with Bartlett weights over reach_s, at least n^(1/3) samples.

    Source: Newey and West 1987.
    """
    step = max(float(np.median(np.diff(at))), 1.0) if len(at) > 1 else 1.0
    lags = int(min(max(round(reach_s / step), round(len(at) ** (1 / 3))), len(at) - 1))
    total = scores.T @ scores
    for lag in range(1, lags + 1):
        cross = scores[lag:].T @ scores[:-lag]
        total += (1 - lag / (lags + 1)) * (cross + cross.T)
    return total
