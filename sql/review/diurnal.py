"""The day effect: a cosinor fit of log throughput with autocorrelated errors, and its verdict. Pure functions.

log(throughput) = attempt effect + A cos(2 pi h/24) + B sin(2 pi h/24) + trend; h is the hour of the day in UTC.
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
    y = _clip(y, np)
    angle = 2 * np.pi * (at % 86400) / 86400
    x = np.column_stack([np.cos(angle), np.sin(angle), (at - at.mean()) / 86400])
    fits = [_fit(_within(x, which, np), _within(y[:, None], which, np)[:, 0], at, days, np)]
    fits.append(_fit(x - x.mean(axis=0), y - y.mean(), at, days, np))
    first, second = fits
    if first is None:
        return DayEffect(None, None, None, unseen, days, len(held))
    # What depends on whether attempts have a level of their own is not known better than the two fits agree.
    low, high = first.low, first.high
    if second is not None:
        low, high = min(low, second.low), max(high, second.high)
    sure = days >= min_days and low > 0
    verdict = "detectable" if sure else unseen
    return DayEffect(first.size, (low, high), first.slowest, verdict, days, len(held))


@dataclass(frozen=True, slots=True)
class _Fit:
    size: float
    low: float
    high: float
    slowest: float | None


def _fit(x: Any, y: Any, at: Any, days: float, np: Any) -> _Fit | None:  # noqa: ANN401 - numpy is imported late
    """Least squares with the interval of the peak-to-trough height by the delta method."""
    from scipy.special import stdtrit

    gram = x.T @ x
    if np.linalg.matrix_rank(gram) < 3:
        return None
    inverse = np.linalg.inv(gram)
    beta = inverse @ (x.T @ y)
    scores = x * (y - x @ beta)[:, None]
    a, b = float(beta[0]), float(beta[1])
    size = float(np.hypot(a, b))
    # An even throughput leaves nothing but the rounding of floats.
    if size < 1e-12:
        return _Fit(0.0, 0.0, 0.0, None)
    gradient = np.array([a, b]) / size
    # Days repeat each other's shape: what differs between whole days may be more than what two hours share.
    spreads = [inverse @ meat @ inverse for meat in (_newey_west(scores, at, np), _by_day(scores, at, np))]
    error = float(np.sqrt(max(0.0, *(gradient @ s[:2, :2] @ gradient for s in spreads))))
    # The few days there are decide how sure a daily cycle can be: Student's t with days - 3, not with samples.
    t = float(stdtrit(max(days - 3, 1.0), 0.975))
    slowest = float((np.arctan2(-b, -a) / (2 * np.pi) * 24) % 24)
    return _Fit(2 * size, max(0.0, 2 * (size - t * error)), 2 * (size + t * error), slowest)


def _clip(y: Any, np: Any) -> Any:  # noqa: ANN401 - numpy is imported where it is used
    """Stalls are no throughput: values far from the median are pulled in to 6 median absolute deviations."""
    middle = np.median(y)
    spread = max(float(np.median(np.abs(y - middle))), 1e-4)
    return np.clip(y, middle - 6 * spread, middle + 6 * spread)


def _within(values: Any, which: Any, np: Any) -> Any:  # noqa: ANN401
    sums = np.zeros((which.max() + 1, values.shape[1]))
    np.add.at(sums, which, values)
    return values - (sums / np.bincount(which)[:, None])[which]


def _by_day(scores: Any, at: Any, np: Any) -> Any:  # noqa: ANN401
    """Covariance of the scores with days as clusters."""
    day = (at // 86400).astype(int)
    sums = np.zeros((day.max() - day.min() + 1, scores.shape[1]))
    np.add.at(sums, day - day.min(), scores)
    return sums.T @ sums * (len(sums) / max(len(sums) - 1, 1))


def _newey_west(scores: Any, at: Any, np: Any) -> Any:  # noqa: ANN401
    """Long-run covariance of the scores with Bartlett weights; the lag covers two hours, at least n^(1/3) samples.

    Source: Newey and West 1987.
    """
    step = max(float(np.median(np.diff(at))), 1.0) if len(at) > 1 else 1.0
    lags = int(min(max(round(7200 / step), round(len(at) ** (1 / 3))), len(at) - 1))
    total = scores.T @ scores
    for lag in range(1, lags + 1):
        cross = scores[lag:].T @ scores[:-lag]
        total += (1 - lag / (lags + 1)) * (cross + cross.T)
    return total
