"""Training the evidence model: a logistic regression over candidates, calibrated on subjects that it did not see.

The same samples, seed and library versions give the same model. Held out means: neither the cluster (a case is a
cluster of its own) nor the template (the rule that the answer rests on) of a sample is in what its score was trained
on. On those scores slope and intercept are fitted (Platt, 1999) and worked into the weights; the same samples give
the curve from the rules' own score to a probability. Weights: cases and simulated clusters count alike in sum, and
subjects whose deciding rule was taken away count for UNKNOWN_KIND each, so that about one subject in seven is of a
kind that nobody has written a rule for.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from classifiers.calibration import Calibration, calibration
from classifiers.engine.evidence import NAMES, VERSION
from classifiers.errors import ClassifierError
from classifiers.evidence.shipped import ARRAYS, FORMAT
from classifiers.models.files import libraries, write_files

SEED = 1
#: Folds of clusters, and of templates: each sample is scored by one of FOLDS x FOLDS models; which templates share a
#: fold matters, so it is done with SHUFFLES splits, and a sample's log odds are the mean over them.
FOLDS, SHUFFLES = 5, 3
#: Inverse strength of the penalty: the better one of 0.03 and 0.3 by held-out log loss, over three splits.
STRENGTH = 0.03
#: What a subject counts for whose deciding rule was taken away, against 1 for a whole one.
UNKNOWN_KIND = 0.25
#: Scores of the rules at which the curve to a probability is kept.
KNOTS = (0.1, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.97)
#: Width of the window in which the rules' answers around a knot are counted, and answers of even odds added to it.
_WINDOW, _SMOOTH = 0.05, 3.0
_LEAST_SUBJECTS = 20
#: Groups that are scored: name, (whole subjects, those with a rule taken away), (cases, simulated).
_SHOWN = (
    ("all", (True, True), (True, True)),
    ("whole", (True, False), (True, True)),
    ("rule taken away", (False, True), (True, True)),
    ("cases, whole", (True, False), (True, False)),
    ("simulated, whole", (True, False), (False, True)),
)


class EvidenceError(ClassifierError):
    """Samples that no evidence model can be trained on; nothing was changed."""


class Valued(Protocol):
    """A candidate as numbers."""

    @property
    def values(self) -> tuple[float, ...]: ...


class Sample(Protocol):
    """One subject: see `pipeline.measuring.evidence_samples`."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def cluster(self) -> str: ...
    @property
    def template(self) -> str: ...
    @property
    def simulated(self) -> bool: ...
    @property
    def raw(self) -> float: ...
    @property
    def rows(self) -> Sequence[Valued]: ...
    @property
    def right(self) -> Sequence[bool]: ...


@dataclass(frozen=True, slots=True)
class KindScore:
    """Held-out subjects of one kind. first_right: the rules' first candidate is acceptable; ranked_right: the model's.
    calibration: of the probability of the model's first candidate."""

    n: int
    first_right: int
    ranked_right: int
    calibration: Calibration


@dataclass(frozen=True, slots=True)
class EvidenceTrained:
    """A fitted pipeline (`scale`, `linear`), calibrated; its held-out scores; the curve of the rules."""

    pipeline: Any
    log_loss: float
    scores: Mapping[str, KindScore]
    curve: tuple[tuple[float, float], ...]
    digest: str
    subjects: int


def _folded(names: Sequence[str], seed: int) -> dict[str, int]:
    own = sorted(set(names))
    random.Random(seed).shuffle(own)
    return {name: i % FOLDS for i, name in enumerate(own)}


def digest_of(samples: Sequence[Sample]) -> str:
    """SHA-256 of all rows and labels."""
    held = [[s.name, s.kind, [list(r.values) for r in s.rows], list(s.right)] for s in samples]
    return hashlib.sha256(json.dumps(held).encode()).hexdigest()


def subject_weights(samples: Sequence[Sample]) -> NDArray[np.float64]:
    """What each subject counts for; see the module. Shape [subjects]."""
    base = np.array([1.0 if s.kind == "whole" else UNKNOWN_KIND for s in samples])
    made = np.array([s.simulated for s in samples], dtype=bool)
    if made.any() and not made.all():
        base[made] *= min(1.0, float(base[~made].sum() / base[made].sum()))
    return np.asarray(base, dtype=np.float64)


def _fit(x: NDArray[np.float64], y: NDArray[np.bool_], w: NDArray[np.float64]) -> Any:  # noqa: ANN401
    pipeline = Pipeline([("scale", StandardScaler()), ("linear", LogisticRegression(C=STRENGTH, max_iter=4000))])
    return pipeline.fit(x, y, linear__sample_weight=w)


def train_evidence(samples: Sequence[Sample], seed: int = SEED) -> EvidenceTrained:
    """Fit, calibrate and score. `EvidenceError` for too few samples or only one outcome."""
    samples = sorted(samples, key=lambda s: (s.name, s.kind))
    outcomes = {ok for s in samples for ok in s.right}
    if len(samples) < _LEAST_SUBJECTS or outcomes != {True, False}:
        msg = (
            f"{len(samples)} subjects with the outcomes {sorted(outcomes)}: an evidence model needs at least "
            f"{_LEAST_SUBJECTS}, with right and wrong candidates; give more cases or clusters"
        )
        raise EvidenceError(msg)
    with threadpool_limits(1):
        return _train(samples, seed)


def _train(samples: Sequence[Sample], seed: int) -> EvidenceTrained:
    x = np.array([r.values for s in samples for r in s.rows], dtype=np.float64)
    y = np.array([ok for s in samples for ok in s.right], dtype=bool)
    of = np.repeat(np.arange(len(samples)), [len(s.rows) for s in samples])
    weights = subject_weights(samples)
    w = weights[of]
    splits = [_held_out(samples, x, y, w, of, seed + 10 * n) for n in range(SHUFFLES)]
    z = np.asarray(np.mean(splits, axis=0), dtype=np.float64)
    slope, shift = _platt(z, y, w)
    final = _fit(x, y, w)
    linear = final.named_steps["linear"]
    linear.coef_, linear.intercept_ = linear.coef_ * slope, linear.intercept_ * slope + shift
    p = 1 / (1 + np.exp(-(z * slope + shift)))
    loss = -float(np.average(np.log(np.where(y, p, 1 - p) + 1e-12), weights=w))
    scores = {
        name: _scored(
            [(s, p[of == i]) for i, s in enumerate(samples) if kinds[s.kind != "whole"] and made[s.simulated]]
        )
        for name, kinds, made in _SHOWN
    }
    return EvidenceTrained(final, round(loss, 5), scores, rule_curve(samples), digest_of(samples), len(samples))


def _held_out(
    samples: Sequence[Sample],
    x: NDArray[np.float64],
    y: NDArray[np.bool_],
    w: NDArray[np.float64],
    of: NDArray[np.int64],
    seed: int,
) -> NDArray[np.float64]:
    """Log odds of every row by a model that saw neither its cluster nor its template. Shape [rows]."""
    clusters = _folded([s.cluster for s in samples], seed)
    templates = _folded([s.template for s in samples], seed + 1)
    c = np.array([clusters[s.cluster] for s in samples])[of]
    t = np.array([templates[s.template] for s in samples])[of]
    z = np.zeros(len(y))
    for i in range(FOLDS):
        for j in range(FOLDS):
            held, rest = (c == i) & (t == j), (c != i) & (t != j)
            if held.any() and len(set(y[rest])) > 1:
                z[held] = _fit(x[rest], y[rest], w[rest]).decision_function(x[held])
    return z


def _platt(z: NDArray[np.float64], y: NDArray[np.bool_], w: NDArray[np.float64]) -> tuple[float, float]:
    fitted = LogisticRegression(C=1e6, max_iter=1000).fit(z[:, None], y, sample_weight=w)
    return max(0.05, float(fitted.coef_[0, 0])), float(fitted.intercept_[0])


def _scored(held: Sequence[tuple[Sample, NDArray[np.float64]]]) -> KindScore:
    pairs: list[tuple[float, bool]] = []
    for sample, alone in held:
        p = alone / max(1.0, float(alone.sum()))
        best = int(p.argmax())
        pairs.append((float(p[best]), bool(sample.right[best])))
    first = sum(bool(s.right[0]) for s, _ in held)
    return KindScore(len(held), first, sum(ok for _, ok in pairs), calibration(pairs))


def rule_curve(samples: Sequence[Sample]) -> tuple[tuple[float, float], ...]:
    """(score, probability) at KNOTS: how often the rules' own answers with about that score were acceptable.

    Never falling (isotonic regression over the knots); few answers around a knot pull it to its score.
    """
    own = [i for i, s in enumerate(samples) if s.raw > 0]
    raw = np.array([samples[i].raw for i in own])
    ok = np.array([bool(samples[i].right[0]) for i in own], dtype=np.float64)
    w = subject_weights(samples)[own]
    share, mass = [], []
    for knot in KNOTS:
        near = np.abs(raw - knot) <= _WINDOW
        mass.append(float(w[near].sum()) + _SMOOTH)
        share.append((float((w * ok)[near].sum()) + _SMOOTH * knot) / mass[-1])
    smooth = IsotonicRegression().fit_transform(np.array(KNOTS), np.array(share), sample_weight=np.array(mass))
    return tuple((knot, round(float(p), 2)) for knot, p in zip(KNOTS, smooth, strict=True))


def arrays_of(trained: EvidenceTrained) -> bytes:
    """The model as JSON; numbers are written so that they are read back exactly."""
    scale, linear = trained.pipeline.named_steps["scale"], trained.pipeline.named_steps["linear"]
    held = {
        "names": list(NAMES),
        "mean": [float(v) for v in scale.mean_],
        "scale": [float(v) for v in scale.scale_],
        "weights": [float(v) for v in linear.coef_[0]],
        "bias": float(linear.intercept_[0]),
    }
    return (json.dumps(held, indent=1) + "\n").encode()


def write_evidence(folder: Path, trained: EvidenceTrained, version: int, more: Mapping[str, Any]) -> dict[str, Any]:
    """Write the three files of an evidence model; returns its card. `more`: data, seed."""
    arrays = arrays_of(trained)
    card = {
        "format": FORMAT,
        "version": version,
        "features_version": VERSION,
        "arrays_sha256": hashlib.sha256(arrays).hexdigest(),
        "held_out": {name: asdict(score) for name, score in trained.scores.items()},
        "held_out_log_loss": trained.log_loss,
        "rule_curve": [list(point) for point in trained.curve],
        "subjects": trained.subjects,
        "data_digest": trained.digest,
        "libraries": libraries(),
        **more,
    }
    write_files(folder, trained.pipeline, ARRAYS, arrays, card)
    return card
