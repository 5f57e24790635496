"""Scoring rows of features from plain arrays: what the scikit-learn pipeline computes, in plain Python.

The pipeline scales each feature and adds up; the logistic function makes it the probability that a reviewer would
accept this component. The components of one subject exclude each other, so probabilities that sum to more than 1 are
scaled to 1; what is missing to 1 is the chance that none of them is the cause.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EvidenceRanker:
    """A trained evidence model. mean, scale, weights: one number a feature, in the order of
    `classifiers.engine.evidence.NAMES`."""

    version: str
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def alone(self, values: Sequence[float]) -> float:
        """Probability of one row, before its rivals are looked at. values: [features]."""
        parts = zip(values, self.mean, self.scale, self.weights, strict=True)
        z = math.fsum((self.bias, *(w * (x - m) / s for x, m, s, w in parts)))
        return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))

    def probabilities(self, rows: Sequence[Sequence[float]]) -> list[float]:
        """Probabilities of all rows of one subject; they sum to 1 at most."""
        found = [self.alone(row) for row in rows]
        total = max(1.0, math.fsum(found))
        return [p / total for p in found]
