"""Whether confidences mean what they say: expected calibration error, and coverage against precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Bins of equal width between 0 and 1.
BINS = 10
_RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class Calibration:
    """Expected calibration error of n answers with a 95 % interval (bootstrap over answers); None for n = 0."""

    n: int
    error: float | None
    low: float | None
    high: float | None


def expected_calibration_error(pairs: Sequence[tuple[float, bool]]) -> float:
    """Mean of |confidence - share of right answers| over bins, weighted by the bins' answers (Naeini et al., 2015)."""
    if not pairs:
        return 0.0
    sums = [[0.0, 0.0] for _ in range(BINS)]
    for confidence, right in pairs:
        b = min(BINS - 1, max(0, int(confidence * BINS)))
        sums[b][0] += confidence
        sums[b][1] += right
    return sum(abs(c - r) for c, r in sums) / len(pairs)


def calibration(pairs: Sequence[tuple[float, bool]], seed: int = 7) -> Calibration:
    """The error with its interval, from a fixed seed. A bootstrap of this measure errs upwards; read it as a bound."""
    import random

    if not pairs:
        return Calibration(0, None, None, None)
    rng = random.Random(seed)
    found = sorted(expected_calibration_error(rng.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES))
    low, high = found[int(0.025 * _RESAMPLES)], found[int(0.975 * _RESAMPLES)]
    return Calibration(len(pairs), expected_calibration_error(pairs), low, high)


def coverage_curve(pairs: Sequence[tuple[float, bool]], answerable: int) -> list[tuple[float, float, float]]:
    """(threshold, coverage, precision) where only answers with at least that confidence are given, most sure first.

    pairs: (confidence, right) of named answers. answerable: cases that could be answered.
    """
    out = []
    ranked = sorted(pairs, key=lambda p: -p[0])
    right = 0
    for n, (confidence, ok) in enumerate(ranked, start=1):
        right += ok
        if n == len(ranked) or ranked[n][0] < confidence:
            out.append((confidence, n / max(1, answerable), right / n))
    return out
