"""Whether confidences mean what they say: the curve from the rules' score to a probability, expected calibration
error, and coverage against precision.

The curve is fitted, not judged: `faultbeam train --evidence` writes it into the card of its model, and a test holds
RULE_CURVE equal to the shipped card. See `classifiers.models.evidence_model.rule_curve`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Bins of equal width between 0 and 1.
BINS = 10
_RESAMPLES = 400
#: (score of the rules, probability that a reviewer accepts the answer), straight lines between.
RULE_CURVE = (
    (0.0, 0.0),
    (0.1, 0.1),
    (0.25, 0.41),
    (0.35, 0.6),
    (0.45, 0.69),
    (0.55, 0.93),
    (0.65, 0.94),
    (0.75, 0.96),
    (0.85, 0.98),
    (0.97, 0.99),
)
#: No answer is surer than this: labels have errors too.
SUREST = 0.97


def probability(score: float) -> float:
    """How likely an answer of the rules with this score is acceptable. Rounded to three places."""
    for (x0, y0), (x1, y1) in pairwise(RULE_CURVE):
        if score <= x1:
            return round(min(SUREST, y0 + (y1 - y0) * max(0.0, score - x0) / (x1 - x0)), 3)
    return SUREST


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
