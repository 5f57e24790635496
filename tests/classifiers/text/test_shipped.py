"""The model that comes with faultbeam, and model folders that cannot be used."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from classifiers.cards import ModelError
from classifiers.corpus import corpus_digest, load_corpus
from classifiers.models.files import load_pipeline
from classifiers.text.shipped import SHIPPED, LazyScorer, load_scorer, read_card, scorer_for
from schemas.taxonomy import components

UNSEEN = [
    "RuntimeError: CUDA error: out of memory while the evaluation ran",
    "zlorp: the flux inverter of rack nine hums",
    "",
    "OSError: [Errno 116] Stale file handle: '/projects/nfs/a.bin'",
    "[rank71]: ValueError: cannot reshape array of size 12 into shape (5,3)",
]


def test_arrays_score_as_scikit_learn_does():
    texts = [s.text for s in load_corpus()] + UNSEEN
    pipeline, scorer = load_pipeline(SHIPPED), load_scorer(SHIPPED)
    expected = pipeline.predict_proba(texts)
    got = np.array([scorer.class_probabilities(t) for t in texts])
    assert ["\t".join(c) for c in scorer.classes] == list(pipeline.classes_)
    assert float(abs(expected - got).max()) < 1e-6


def test_the_card_says_what_it_is():
    card = read_card(SHIPPED)
    assert card["data"]["corpus_digest"] == corpus_digest(load_corpus()), "the corpus changed: faultbeam train"
    assert set(card["libraries"]) == {"scikit-learn", "numpy", "skops"}
    held = card["held_out_templates"]
    assert held["n"] == len(load_corpus())
    assert held["accuracy"] >= 0.7
    assert held["calibration"]["error"] <= 0.05
    assert held["sure_right"] / held["sure"] >= 0.8


def test_every_component_can_be_answered():
    assert {component for component, _ in load_scorer(SHIPPED).classes} == set(components())


@pytest.mark.parametrize(
    ("line", "component"),
    [
        ("HTTPError: 503 Server Error: Service Unavailable for url: https://hub.invalid/api", "dependency"),
        ("OSError: [Errno 28] No space left on device: '/tmp/x'", "software.bug"),
        ("TypeError: forward() missing 2 required positional arguments", "software.bug"),
        ("CUDA error: uncorrectable ECC error encountered at step 3", "gpu.hbm"),
        ("Process exited with code 17", "unknown"),
    ],
)
def test_opinions_on_lines_of_everyday_failures(line: str, component: str):
    opinion = load_scorer(SHIPPED).opinion([line])
    assert opinion is not None
    assert opinion.component == component
    assert 0.5 <= opinion.confidence <= 1


def test_a_line_that_says_nothing_has_no_vote_beside_one_that_does():
    scorer = load_scorer(SHIPPED)
    told = "HTTPError: 503 Server Error: Service Unavailable for url: https://hub.invalid/api"
    alone, both = scorer.opinion([told]), scorer.opinion(["Process exited with code 17", told])
    assert alone is not None
    assert both is not None
    assert (both.component, both.confidence, both.line) == (alone.component, alone.confidence, 1)
    assert scorer.opinion([]) is None


def test_probabilities_of_components_sum_to_one():
    scorer = load_scorer(SHIPPED)
    for text in UNSEEN:
        assert sum(scorer.by_component(scorer.class_probabilities(text)).values()) == pytest.approx(1)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


def test_a_damaged_arrays_file_is_refused(copied: Path):
    data = bytearray((copied / "arrays.npz").read_bytes())
    data[len(data) // 2] ^= 1
    (copied / "arrays.npz").write_bytes(bytes(data))
    with pytest.raises(ModelError, match="SHA-256 differs"):
        load_scorer(copied)


def test_a_cut_arrays_file_whose_card_fits_is_refused(copied: Path):
    import hashlib

    data = (copied / "arrays.npz").read_bytes()[:1000]
    (copied / "arrays.npz").write_bytes(data)
    card = json.loads((copied / "card.json").read_text())
    card["arrays_sha256"] = hashlib.sha256(data).hexdigest()
    (copied / "card.json").write_text(json.dumps(card))
    with pytest.raises(ModelError, match="holds no arrays of a text model"):
        load_scorer(copied)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ("{", "is no JSON"),
        ('{"format": "other/1"}', "format 'other/1', expected 'faultbeam.text-model/1'"),
        ("[1]", "format 'list'"),
        ('{"format": "faultbeam.text-model/1", "features_version": 0}', "features of version 0"),
        ('{"format": "faultbeam.text-model/1", "features_version": 1}', "lacks a number in 'version'"),
    ],
)
def test_a_foreign_card_is_refused(copied: Path, card: str, said: str):
    (copied / "card.json").write_text(card)
    with pytest.raises(ModelError) as caught:
        read_card(copied)
    assert said in str(caught.value)
    assert "faultbeam train" in str(caught.value)


def test_no_folder_and_no_model(tmp_path: Path):
    with pytest.raises(ModelError, match="cannot be read"):
        LazyScorer(tmp_path / "nowhere")
    assert scorer_for("none") is None
    shipped = scorer_for("shipped")
    assert shipped is not None
    assert shipped.version == str(read_card(SHIPPED)["version"])


def test_a_diagnosis_that_asks_the_model_is_quick_and_loads_no_scikit_learn(tmp_path: Path):
    log = tmp_path / "slurm-71.out"
    log.write_text(
        "iteration 1/9 | loss 2.1\niteration 2/9 | loss 2.0\nTraceback (most recent call last):\n"
        "  File 't.py', line 3, in <module>\n"
        "foo.errors.StoreError: the object store's endpoint refused the upload, service unavailable\n"
    )
    code = (
        "import sys, time\nbegan = time.process_time()\nfrom pipeline.diagnose import diagnose\n"
        "from schemas.settings import Settings\n"
        f"result = diagnose([{str(log)!r}], Settings())\n"
        "d = result.decisions[0]\n"
        "print(d.decided_by, d.component, time.process_time() - began,"
        " sorted({m.partition('.')[0] for m in sys.modules} & {'sklearn', 'scipy', 'skops', 'joblib'}))"
    )
    runs = []  # seconds of processor time: the wall says more about what else the machine does
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        decided, component, seconds, loaded = done.stdout.split(maxsplit=3)
        assert (decided, component) == ("model", "dependency")
        assert loaded.strip() == "[]"
        runs.append(float(seconds))
    assert min(runs) < 1.0, runs
