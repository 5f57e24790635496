"""Training the evidence model: repeatable, held out by cluster and template, exact on disk."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.tree import DecisionTreeClassifier

from classifiers.cards import ModelError
from classifiers.engine.evidence import NAMES
from classifiers.evidence.shipped import load_ranker, read_card
from classifiers.models.evidence_model import (
    UNKNOWN_KIND,
    EvidenceError,
    EvidenceTrained,
    arrays_of,
    rule_curve,
    subject_weights,
    train_evidence,
    write_evidence,
)
from classifiers.models.files import load_pipeline


@dataclass(frozen=True)
class Row:
    values: tuple[float, ...]


@dataclass(frozen=True)
class One:
    name: str
    kind: str
    cluster: str
    template: str
    simulated: bool
    raw: float
    rows: tuple[Row, ...]
    right: tuple[bool, ...]


def _samples(seed: int = 3, n: int = 240) -> list[One]:
    """Subjects of two candidates; the one with the larger first feature is the cause, most of the time."""
    rng = random.Random(seed)
    out = []
    for i in range(n):
        rows = tuple(Row(tuple(rng.gauss(0, 1) for _ in NAMES)) for _ in range(2))
        first = rows[0].values[0] + rng.gauss(0, 0.3) > rows[1].values[0]
        kind = ("whole", "gone")[i % 4 == 3]
        raw = round(0.3 + 0.6 * rng.random(), 3)
        out.append(One(f"s{i}", kind, f"c{i % 12}", f"t{i % 7}", i % 2 == 0, raw, rows, (first, not first)))
    return out


@pytest.fixture(scope="module")
def trained() -> EvidenceTrained:
    return train_evidence(_samples())


def test_the_same_samples_in_any_order_give_the_same_arrays(trained: EvidenceTrained):
    shuffled = _samples()
    random.Random(1).shuffle(shuffled)
    again = train_evidence(shuffled)
    assert arrays_of(again) == arrays_of(trained)
    assert (again.digest, again.curve, again.log_loss) == (trained.digest, trained.curve, trained.log_loss)


def test_what_is_learned_is_scored_on_subjects_that_were_not_seen(trained: EvidenceTrained):
    every = trained.scores["all"]
    assert every.n == 240
    assert every.ranked_right > every.first_right + 40
    assert trained.scores["whole"].n + trained.scores["rule taken away"].n == 240
    weights = np.abs(trained.pipeline.named_steps["linear"].coef_[0])
    assert int(weights.argmax()) == 0


def test_a_mark_of_the_cluster_is_of_no_use_when_it_is_held_out():
    """A feature that only tells clusters apart, with an outcome that only depends on the cluster: nothing to learn."""
    rng = random.Random(9)
    out = []
    for i in range(240):
        cluster = i % 12
        values = [rng.gauss(0, 1) for _ in NAMES]
        values[1 + cluster] = 8.0
        ok = cluster % 2 == 0
        out.append(One(f"s{i}", "whole", f"c{cluster}", f"t{i % 7}", False, 0.6, (Row(tuple(values)),), (ok,)))
    assert train_evidence(out).log_loss > 0.6, "a leak: whoever saw the cluster would know the outcome"


def test_cases_and_clusters_count_alike_and_unknown_kinds_less():
    samples = [replace(s, simulated=i >= 40) for i, s in enumerate(_samples())]
    weights = subject_weights(samples)
    assert weights[:40].sum() == pytest.approx(weights[40:].sum())
    kinds = {s.kind: w for s, w in zip(samples[:40], weights, strict=False)}
    assert kinds == {"whole": 1.0, "gone": UNKNOWN_KIND}


def test_the_curve_of_the_rules_never_falls():
    samples = [replace(s, raw=0.86, right=(i % 10 > 0, False)) for i, s in enumerate(_samples())]
    samples += [replace(s, name=f"l{i}", raw=0.45, right=(i % 2 == 0, False)) for i, s in enumerate(_samples())]
    curve = dict(rule_curve(samples))
    values = [curve[x] for x in sorted(curve)]
    assert values == sorted(values)
    assert curve[0.85] == pytest.approx(0.9, abs=0.03)
    assert curve[0.45] == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("broken", ["few", "one outcome"])
def test_samples_that_teach_nothing_are_refused(broken: str):
    samples = _samples(n=10) if broken == "few" else [replace(s, right=(False, False)) for s in _samples()]
    with pytest.raises(EvidenceError, match="an evidence model needs at least 20, with right and wrong candidates"):
        train_evidence(samples)


def test_files_round_trip_without_pickle(tmp_path: Path, trained: EvidenceTrained):
    card = write_evidence(tmp_path, trained, 4, {"seed": 3})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["arrays.json", "card.json", "pipeline.skops"]
    assert read_card(tmp_path)["version"] == card["version"] == 4
    rows = np.array([r.values for s in _samples(seed=8) for r in s.rows])
    expected = trained.pipeline.predict_proba(rows)[:, 1]
    ranker = load_ranker(tmp_path)
    assert ranker.version == "4"
    assert float(abs(expected - np.array([ranker.alone(row) for row in rows])).max()) < 1e-9
    assert float(abs(load_pipeline(tmp_path, "an evidence model").predict_proba(rows)[:, 1] - expected).max()) < 1e-12


def test_a_foreign_pipeline_file_is_refused(tmp_path: Path, trained: EvidenceTrained):
    write_evidence(tmp_path, trained, 1, {})
    (tmp_path / "pipeline.skops").write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(ModelError, match="is no pipeline of an evidence model"):
        load_pipeline(tmp_path, "an evidence model")
    tree = DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])
    skops.io.dump(tree, tmp_path / "pipeline.skops")
    with pytest.raises(ModelError, match="which an evidence model does not need"):
        load_pipeline(tmp_path, "an evidence model")
