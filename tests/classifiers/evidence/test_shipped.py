"""The evidence model that comes with faultbeam, and folders that hold none."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from classifiers.calibration import RULE_CURVE
from classifiers.cards import ModelError
from classifiers.engine.evidence import NAMES
from classifiers.evidence.shipped import ARRAYS, FOLDER, SHIPPED, folder_of, load_ranker, ranker_for, read_card
from classifiers.models.files import load_pipeline
from classifiers.text.shipped import SHIPPED as TEXT


def test_arrays_score_as_scikit_learn_does():
    rng = random.Random(5)
    rows = [tuple(rng.uniform(-4, 6) for _ in NAMES) for _ in range(500)]
    pipeline, ranker = load_pipeline(SHIPPED, "an evidence model"), load_ranker(SHIPPED)
    expected = pipeline.predict_proba(np.array(rows))[:, 1]
    got = np.array([ranker.alone(row) for row in rows])
    assert float(abs(expected - got).max()) < 1e-9
    assert 0.01 < got.min() + got.max() < 1.99, "rows of both outcomes"


def test_probabilities_of_one_subject_sum_to_one_at_most():
    ranker = load_ranker(SHIPPED)
    strong = [
        m + 2 * s * (1 if w > 0 else -1) for m, s, w in zip(ranker.mean, ranker.scale, ranker.weights, strict=True)
    ]
    found = ranker.probabilities([strong, strong, ranker.mean])
    assert sum(found) == pytest.approx(1)
    assert found[0] == found[1] > found[2]
    weak = [2 * m - x for m, x in zip(ranker.mean, strong, strict=True)]
    assert sum(ranker.probabilities([weak, weak])) < 0.2, "the rest is the chance that none of them is the cause"
    assert ranker.probabilities([]) == []


def test_the_card_says_what_it_is():
    card = read_card(SHIPPED)
    assert set(card["libraries"]) == {"scikit-learn", "numpy", "skops"}
    held = card["held_out"]
    assert held["all"]["n"] == held["whole"]["n"] + held["rule taken away"]["n"]
    assert held["all"]["calibration"]["error"] <= 0.05
    assert held["all"]["ranked_right"] / held["all"]["n"] >= 0.85
    assert held["rule taken away"]["n"] >= 300, "wrong answers to learn from"
    assert tuple(map(tuple, card["rule_curve"])) == RULE_CURVE[1:], "the curve of the rules is not the fitted one"


def test_scoring_needs_neither_scikit_learn_nor_numpy():
    code = (
        "import sys; from classifiers.evidence.shipped import ranker_for; "
        "from classifiers.engine.evidence import NAMES; ranker_for('shipped').probabilities([[0.0] * len(NAMES)]); "
        "print(sorted({'numpy', 'sklearn', 'skops'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


def _rewrite(folder: Path, **changes: Any) -> None:
    """Arrays with these changes, and a card that fits them."""
    held = json.loads((folder / ARRAYS).read_text()) | changes
    data = json.dumps(held).encode()
    (folder / ARRAYS).write_bytes(data)
    card = json.loads((folder / "card.json").read_text())
    card["arrays_sha256"] = hashlib.sha256(data).hexdigest()
    (folder / "card.json").write_text(json.dumps(card))


def test_damaged_arrays_are_refused(copied: Path):
    data = (copied / ARRAYS).read_bytes()
    (copied / ARRAYS).write_bytes(data.replace(b"1", b"2", 1))
    with pytest.raises(ModelError, match=r"arrays.json: is not the file .* damaged or exchanged; train one"):
        load_ranker(copied)
    (copied / ARRAYS).unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        load_ranker(copied)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"names": [*NAMES[:-1], "moon_phase"]}, "not those of this program: moon_phase"),
        ({"names": list(reversed(NAMES))}, "not those of this program: their order"),
        ({"weights": [0.0]}, "shapes do not fit"),
        ({"mean": [float("nan")] * len(NAMES)}, "not finite"),
        ({"scale": [0.0] * len(NAMES)}, "scale that is not above 0"),
        ({"bias": "much"}, "holds no arrays of an evidence model"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(copied: Path, changes: dict[str, Any], said: str):
    _rewrite(copied, **changes)
    with pytest.raises(ModelError, match=said):
        load_ranker(copied)


def test_foreign_folders_are_refused(copied: Path, tmp_path: Path):
    with pytest.raises(ModelError, match=r"'faultbeam.text-model/1', expected 'faultbeam.evidence-model/1'"):
        load_ranker(TEXT)
    with pytest.raises(ModelError, match=r"card.json: cannot be read"):
        load_ranker(tmp_path / "nowhere")
    (copied / "card.json").write_text(json.dumps(read_card(SHIPPED) | {"features_version": 0}))
    with pytest.raises(ModelError, match="features of version 0"):
        load_ranker(copied)
    (copied / "card.json").write_text("{torn")
    with pytest.raises(ModelError, match="is no JSON"):
        load_ranker(copied)


def test_where_the_model_of_a_setting_stands(copied: Path, tmp_path: Path):
    assert ranker_for("none") is None
    assert folder_of("shipped") == folder_of(str(copied)) == SHIPPED, "a text model's folder without one of evidence"
    shutil.copytree(SHIPPED, tmp_path / "both" / FOLDER)
    assert folder_of(str(tmp_path / "both")) == tmp_path / "both" / FOLDER
    (tmp_path / "both" / FOLDER / ARRAYS).write_text("{}")
    with pytest.raises(ModelError, match="damaged or exchanged"):
        ranker_for(str(tmp_path / "both"))
