"""Scoring failure lines from plain arrays: what the scikit-learn pipeline computes, with numpy alone.

The pipeline is: counts of `features`, `1 + log(count)`, times the inverse document frequency, each line scaled to
length 1, a linear map, softmax. A test holds both equal within 1e-6.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from classifiers.api import Opinion
from classifiers.text.features import features
from schemas.taxonomy import UNKNOWN, is_named

__all__ = ["Opinion", "TextScorer"]

#: How much less each further line counts: what was printed later is more often a consequence.
LATER = 0.7
#: Lines that are looked at.
LINES = 12
#: Alternatives below this are not worth a line.
LEAST = 0.02


@dataclass(frozen=True, slots=True)
class TextScorer:
    """A trained text model. idf: [features]; weights: [classes, features]; bias: [classes].

    classes: (component, cause) of each row. vocabulary: feature -> column.
    """

    version: str
    vocabulary: Mapping[str, int]
    classes: tuple[tuple[str, str], ...]
    idf: NDArray[np.float64]
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]
    prior: Mapping[str, float] = field(default_factory=dict)

    def class_probabilities(self, text: str) -> NDArray[np.float64]:
        """Probability of every (component, cause), shape [classes]."""
        counts = Counter(column for f in features(text) if (column := self.vocabulary.get(f)) is not None)
        columns = sorted(counts)
        z = self.bias
        if columns:
            values = np.array([(1.0 + math.log(counts[c])) for c in columns]) * self.idf[columns]
            z = z + self.weights[:, columns] @ (values / math.sqrt(float(values @ values)))
        odds = np.exp(z - z.max())
        return np.asarray(odds / odds.sum(), dtype=np.float64)

    def by_component(self, probabilities: NDArray[np.float64]) -> dict[str, float]:
        """Sums over the causes of each component."""
        out: dict[str, float] = defaultdict(float)
        for (component, _), p in zip(self.classes, probabilities, strict=True):
            out[component] += float(p)
        return dict(out)

    def opinion(self, texts: Sequence[str]) -> Opinion | None:
        """See `classifiers.api.Scorer`. Lines that only say that something ended have no vote where another one has."""
        rows = [self.class_probabilities(text) for text in texts[:LINES]]
        if not rows:
            return None
        tables = [self.by_component(row) for row in rows]
        telling = [i for i, table in enumerate(tables) if is_named(_first(table)[0])]
        voters = telling or list(range(len(rows)))
        # a line that is sure of something speaks louder than one that is not
        loud = [LATER**n * _first(tables[i])[1] ** 2 for n, i in enumerate(voters)]
        pooled = np.average([rows[i] for i in voters], axis=0, weights=loud)
        ranked = sorted(self.by_component(pooled).items(), key=lambda item: (-round(item[1], 9), item[0]))
        component, confidence = ranked[0]
        if not telling and is_named(component):
            component, confidence = UNKNOWN, 1 - confidence
        causes = [(float(p), cause) for (name, cause), p in zip(self.classes, pooled, strict=True) if name == component]
        line = max(voters, key=lambda i: (round(tables[i].get(component, 0.0), 9), -i))
        return Opinion(
            component=component,
            cause=max(causes, default=(0.0, "no_cause"), key=lambda item: (round(item[0], 9), item[1]))[1],
            confidence=round(confidence, 3),
            alternatives=tuple((n, round(p, 3)) for n, p in ranked[:5] if n != component and p >= LEAST)[:4],
            line=line,
        )


def _first(table: Mapping[str, float]) -> tuple[str, float]:
    return max(table.items(), key=lambda item: (round(item[1], 9), item[0]))
