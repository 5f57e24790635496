"""Training the text model: word and character n-grams, a linear model, calibrated on templates that it did not see.

The same samples, seed and library versions give the same model. Classes are (component, cause); a component's
probability is the sum over its causes. Folds are split by template, so no wording is on both sides; the temperature
that makes the held-out probabilities most likely is worked into weights and bias.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from classifiers.calibration import Calibration, calibration
from classifiers.corpus import Sample, check_corpus
from classifiers.text.features import features
from schemas.taxonomy import is_named

SEED = 1
FOLDS = 5
#: Inverse strength of the penalty; chosen once on held-out templates of the corpus.
STRENGTH = 50.0
#: Least probabilities at which named answers are counted.
THRESHOLDS = (0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Scores:
    """How held-out templates were answered. right: component. sure: named answers with probability 0.5 or more."""

    n: int
    right: int
    sure: int
    sure_right: int
    calibration: Calibration
    by_component: dict[str, tuple[int, int]]  # component -> (right, n)
    by_threshold: tuple[tuple[float, int, int], ...] = ()  # (least probability, named answers, right)

    @property
    def accuracy(self) -> float:
        return self.right / self.n if self.n else 0.0


@dataclass(frozen=True, slots=True)
class Trained:
    """A fitted pipeline (`tfidf`, `linear`), its temperature already in the weights, and its held-out scores."""

    pipeline: Any
    temperature: float
    classes: tuple[tuple[str, str], ...]
    scores: Scores


def pair(sample: Sample) -> str:
    """The class of a sample as one string."""
    return f"{sample.component}\t{sample.cause}"


def folds(samples: Sequence[Sample], seed: int = SEED, n: int = FOLDS) -> list[int]:
    """A fold for every sample: templates stay together, each class is spread over the folds; order does not matter."""
    by_class: dict[str, list[str]] = defaultdict(list)
    for group, name in sorted({(s.group, pair(s)) for s in samples}):
        by_class[name].append(group)
    rng = random.Random(seed)
    fold: dict[str, int] = {}
    for name in sorted(by_class):
        own = by_class[name]
        rng.shuffle(own)
        offset = rng.randrange(n)
        for i, group in enumerate(own):
            fold.setdefault(group, (i + offset) % n)
    return [fold[s.group] for s in samples]


def _fit(samples: Sequence[Sample]) -> Any:  # noqa: ANN401 - scikit-learn ships no types
    tfidf = TfidfVectorizer(analyzer=features, sublinear_tf=True, min_df=2)
    pipeline = Pipeline([("tfidf", tfidf), ("linear", LogisticRegression(C=STRENGTH, max_iter=4000, tol=1e-4))])
    return pipeline.fit([s.text for s in samples], [pair(s) for s in samples])


def _log_odds(pipeline: Any, texts: Sequence[str]) -> NDArray[np.float64]:  # noqa: ANN401
    z = np.asarray(pipeline.decision_function(list(texts)), dtype=np.float64)
    return np.stack([np.zeros_like(z), z], axis=1) if z.ndim == 1 else z


def train(samples: Sequence[Sample], seed: int = SEED) -> Trained:
    """Fit, calibrate and score. `CorpusError` for samples that cannot be trained on."""
    check_corpus(samples)
    with threadpool_limits(1):  # sums in one order on every machine, and no threads in each other's way
        return _train(samples, seed)


def _train(samples: Sequence[Sample], seed: int) -> Trained:
    samples = _agreeing(sorted(samples, key=lambda s: (s.group, s.component, s.cause, s.text)))
    names = sorted({pair(s) for s in samples})
    column = {name: i for i, name in enumerate(names)}
    fold = folds(samples, seed)
    z = np.full((len(samples), len(names)), -30.0)
    for k in range(FOLDS):
        held = [i for i, f in enumerate(fold) if f == k]
        rest = [s for s, f in zip(samples, fold, strict=True) if f != k]
        if not held or len({pair(s) for s in rest}) < 2:
            continue
        pipeline = _fit(rest)
        places = [column[c] for c in pipeline.classes_]
        z[np.ix_(held, places)] = _log_odds(pipeline, [samples[i].text for i in held])
    components = sorted({s.component for s in samples})
    member = np.array([[n.split("\t")[0] == c for c in components] for n in names], dtype=np.float64)
    temperature = _temperature(z, member, [components.index(s.component) for s in samples])
    final = _fit(samples)
    linear = final.named_steps["linear"]
    # in single precision, as they are stored, so that both ways of scoring see the same numbers
    linear.coef_ = (linear.coef_ / temperature).astype(np.float32).astype(np.float64)
    linear.intercept_ = (linear.intercept_ / temperature).astype(np.float32).astype(np.float64)
    classes = tuple((c.split("\t")[0], c.split("\t")[1]) for c in final.classes_)
    return Trained(final, temperature, classes, _score(samples, _softmax(z / temperature) @ member, components))


def _agreeing(samples: Sequence[Sample]) -> list[Sample]:
    """A line that people labelled otherwise than the corpus says goes by the label."""
    told = {s.group: s.component for s in samples if s.family == "label"}
    return [replace(s, component=told.get(s.group, s.component)) for s in samples]


def _softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    odds = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float64)


def _temperature(z: NDArray[np.float64], member: NDArray[np.float64], truth: Sequence[int]) -> float:
    """The T for which the held-out components are most likely under softmax(z / T), to 1 % (Guo et al., 2017)."""
    rows = np.arange(len(truth))

    def loss(t: float) -> float:
        return -float(np.log((_softmax(z / t) @ member)[rows, list(truth)] + 1e-12).mean())

    coarse = min((0.1 * 1.25**n for n in range(22)), key=loss)
    return min((coarse * 1.01**n for n in range(-25, 26)), key=loss)


def _score(samples: Sequence[Sample], table: NDArray[np.float64], components: Sequence[str]) -> Scores:
    """Scores of the corpus' own lines; labelled lines train, they are not scored. table: [samples, components]."""
    pairs: list[tuple[float, bool]] = []
    named: list[tuple[float, bool]] = []
    hits: Counter[str] = Counter()
    support: Counter[str] = Counter()
    for sample, row in zip(samples, table, strict=True):
        if sample.family == "label":
            continue
        k = int(row.argmax())
        right = components[k] == sample.component
        pairs.append((float(row[k]), right))
        support[sample.component] += 1
        hits[sample.component] += right
        if is_named(components[k]):
            named.append((float(row[k]), right))
    by_component = {c: (hits[c], support[c]) for c in sorted(support)}
    table_of = {t: [ok for p, ok in named if p >= t] for t in THRESHOLDS}
    by_threshold = tuple((t, len(kept), sum(kept)) for t, kept in table_of.items())
    sure = table_of[0.5]
    total = sum(hits.values())
    return Scores(len(pairs), total, len(sure), sum(sure), calibration(pairs), by_component, by_threshold)
