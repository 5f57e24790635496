"""Rates with their intervals: MTTF, failures per node-day, projection to other sizes, shares. Pure functions.

All intervals are two-sided and 95 % unless `level` says otherwise. What cannot be computed is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil, sqrt

Interval = tuple[float, float | None]

#: z of a two-sided 95 % interval.
_Z95 = 1.959963984540054


def poisson_interval(count: int, level: float = 0.95) -> Interval:
    """Exact (chi-square) interval of the mean of a Poisson count. Source: Garwood 1936.

    The upper limit exists for 0 events too (3.69 at 95 %), the lower one is then 0.
    """
    from scipy.special import gammaincinv

    if count < 0:
        msg = f"a count of events cannot be negative: {count}"
        raise ValueError(msg)
    tail = (1 - level) / 2
    low = float(gammaincinv(count, tail)) if count else 0.0
    return low, float(gammaincinv(count + 1, 1 - tail))


@dataclass(frozen=True, slots=True)
class Mttf:
    """Mean time to failure in hours. value None: no failure in that time; then only the lower limit is known."""

    value: float | None
    low: float | None
    high: float | None


def mttf(hours: float, failures: int, level: float = 0.95) -> Mttf:
    """Elapsed job hours / unexpected interruptions, with the interval of the Poisson count."""
    if hours <= 0:
        return Mttf(None, None, None)
    low, high = poisson_interval(failures, level)
    assert high is not None
    return Mttf(hours / failures if failures else None, hours / high, hours / low if low > 0 else None)


def node_failure_rate(failures: int, hosts: float, days: float) -> float | None:
    """Failures per 1,000 node-days."""
    return failures / (hosts * days) * 1000 if hosts > 0 and days > 0 else None


def projected_mttf_hours(rate_per_1000_node_days: float | None, hosts: float) -> float | None:
    """MTTF in hours of a job on `hosts` hosts: 1 / (hosts x r / 1000) days. Holds for big jobs only."""
    if rate_per_1000_node_days is None or rate_per_1000_node_days <= 0 or hosts <= 0:
        return None
    return 24 / (hosts * rate_per_1000_node_days / 1000)


def share_interval(hits: int, of: int) -> Interval | None:
    """Wilson's 95 % interval of a share; None of nothing."""
    if of <= 0:
        return None
    p, z2 = hits / of, _Z95 * _Z95
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z95 * sqrt(p * (1 - p) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    return max(0.0, middle - half), min(1.0, middle + half)


def percents(counts: Mapping[str, int]) -> dict[str, float | None]:
    """Each count as a percentage of all; printed percentages of a source are never used."""
    total = sum(counts.values())
    return {name: 100 * n / total if total else None for name, n in counts.items()}


def spares(
    rate_per_1000_node_days: float | None, hosts: float, repair_days: float, certainty: float = 0.99
) -> int | None:
    """Spare hosts so that, with hosts away for `repair_days` after each failure, enough stand by with `certainty`."""
    from scipy.special import pdtrik

    if rate_per_1000_node_days is None or hosts <= 0 or repair_days < 0:
        return None
    away = rate_per_1000_node_days / 1000 * hosts * repair_days
    return ceil(float(pdtrik(certainty, away))) if away > 0 else 0


def constant_answer_scores(counts: Iterable[int]) -> tuple[float, float] | None:
    """(accuracy, macro-F1) of always answering the most frequent class: the floor beside every score."""
    held = [n for n in counts if n > 0]
    if not held:
        return None
    share = max(held) / sum(held)
    return share, 2 * share / (1 + share) / len(held)
