"""What interruptions and checkpoints cost: ETTR, its expectation, effective time, lost work. Pure functions.

Every function takes one unit of time throughout and says which. What cannot be computed is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt


def ratio(part: float | None, whole: float | None) -> float | None:
    """part / whole; None where either is unknown or whole is not above 0."""
    return None if part is None or whole is None or whole <= 0 else part / whole


def expected_ettr(
    hosts: float, rate_per_host_day: float, restart: float, interval: float, write: float
) -> float | None:
    """E[ETTR] = (1 - N r (u0 + d/2)) / (1 + w/d); times in minutes. Source: arXiv 2410.21680.

    restart: u0; interval: d between checkpoints; write: w, blocking. Never below 0: a job that fails faster than it
    restarts gets nowhere. None without an interval.
    """
    if interval <= 0:
        return None
    per_minute = rate_per_host_day / (24 * 60)
    return max(0.0, (1 - hosts * per_minute * (restart + interval / 2)) / (1 + write / interval))


def young(write: float | None, mttf: float | None) -> float | None:
    """Best checkpoint interval by Young 1974, sqrt(2 w M), in the unit of both arguments."""
    return None if write is None or mttf is None or write <= 0 or mttf <= 0 else sqrt(2 * write * mttf)


def daly(write: float | None, mttf: float | None) -> float | None:
    """Best checkpoint interval by Daly 2006, sqrt(2 w M) - w; M itself where writing takes as long as 2 M."""
    first = young(write, mttf)
    if first is None or write is None or mttf is None:
        return None
    return first - write if write < 2 * mttf else mttf


def overhead_at(interval: float | None, write: float | None, mttf: float | None) -> float | None:
    """Share of time that saving and redoing costs at an interval: w/d + d/(2 M), to first order."""
    if interval is None or write is None or mttf is None or interval <= 0 or mttf <= 0:
        return None
    return write / interval + interval / (2 * mttf)


def goodput_loss_gpu_hours(runs: Iterable[tuple[float, int]], cap_hours: float = 0.5) -> float:
    """Sum over failed and pre-empted runs of min(run time, 30 min) x GPUs; runs: (hours, GPUs). arXiv 2410.21680."""
    return sum(min(max(hours, 0.0), cap_hours) * gpus for hours, gpus in runs)


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile (0..1) with linear interpolation, None of nothing."""
    if not values:
        return None
    held = sorted(values)
    at = q * (len(held) - 1)
    low = int(at)
    high = min(low + 1, len(held) - 1)
    return held[low] + (held[high] - held[low]) * (at - low)


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean, None of nothing."""
    return sum(values) / len(values) if values else None
