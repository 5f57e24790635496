"""Training: the same samples give the same model, templates never cross a split, and files round-trip."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from classifiers.cards import ModelError
from classifiers.corpus import CorpusError, Sample, load_corpus
from classifiers.models.files import arrays_of, load_pipeline, write_model
from classifiers.models.text_model import Trained, folds, train
from classifiers.text.shipped import load_scorer, read_card

WANTED = ("dependency", "gpu.hbm", "software.driver")


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    return [s for s in load_corpus() if s.component in WANTED]


@pytest.fixture(scope="module")
def trained(samples: list[Sample]) -> Trained:
    return train(samples)


def test_the_same_samples_in_any_order_give_the_same_arrays(samples: list[Sample], trained: Trained):
    assert arrays_of(train(list(reversed(samples)))) == arrays_of(trained)


def test_templates_never_stand_on_both_sides(samples: list[Sample]):
    twins = [Sample(s.text + " 17", s.component, s.cause, s.family, s.source) for s in samples]
    same = [Sample("[rank7]: " + s.text, s.component, s.cause, s.family, s.source) for s in samples]
    every = [*samples, *twins, *same]
    where: dict[str, set[int]] = {}
    for sample, fold in zip(every, folds(every), strict=True):
        where.setdefault(sample.group, set()).add(fold)
    assert all(len(found) == 1 for found in where.values())
    assert len(where) < len(every)
    sizes = [folds(samples).count(k) for k in range(5)]
    assert max(sizes) - min(sizes) <= len(samples) // 5


def test_scores_are_of_lines_that_the_model_had_not_seen(trained: Trained, samples: list[Sample]):
    assert trained.scores.n == len(samples)
    assert trained.scores.right < trained.scores.n, "all right on held-out lines is a leak"
    assert trained.scores.accuracy > 0.6
    assert set(trained.scores.by_component) == set(WANTED)


def test_labelled_lines_train_and_are_not_scored(samples: list[Sample]):
    word = Sample("the gizmo of the cluster went blue", "dependency", "labelled", "label", "label of 1")
    got = train([*samples, word])
    assert got.scores.n == len(samples)
    p = dict(zip(got.classes, got.pipeline.predict_proba([word.text])[0], strict=True))
    assert sum(v for (component, _), v in p.items() if component == "dependency") > 0.5


def test_a_label_wins_over_the_corpus_on_the_same_line(samples: list[Sample]):
    line = next(s for s in samples if s.component == "gpu.hbm")
    other = Sample(line.text, "software.driver", "driver_mismatch", "label", "label of 1")
    got = train([*samples, other])
    row = got.pipeline.predict_proba([line.text])[0]
    assert got.classes[int(row.argmax())][0] == "software.driver"


def test_one_class_is_refused(samples: list[Sample]):
    with pytest.raises(CorpusError, match="at least two components"):
        train([s for s in samples if s.component == "gpu.hbm"])


def test_two_classes_are_exported_as_two_rows(tmp_path: Path, samples: list[Sample]):
    two = [s for s in samples if s.component in ("gpu.hbm", "software.driver")]
    two = [Sample(s.text, s.component, "one", s.family, s.source) for s in two]
    got = train(two)
    write_model(tmp_path, got, 3, {"prior": {}})
    scorer = load_scorer(tmp_path)
    expected = got.pipeline.predict_proba([s.text for s in two])
    assert len(scorer.classes) == 2
    assert float(abs(expected - np.array([scorer.class_probabilities(s.text) for s in two])).max()) < 1e-6


def test_files_round_trip_without_pickle(tmp_path: Path, trained: Trained, samples: list[Sample]):
    write_model(tmp_path, trained, 4, {"prior": {"gpu.hbm": 1.0}, "seed": 1})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["arrays.npz", "card.json", "pipeline.skops"]
    assert read_card(tmp_path)["version"] == 4
    texts = [s.text for s in samples]
    again = load_pipeline(tmp_path).predict_proba(texts)
    assert float(abs(again - trained.pipeline.predict_proba(texts)).max()) < 1e-12
    with zipfile.ZipFile(tmp_path / "arrays.npz") as archive:
        for name in archive.namelist():
            np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
    assert load_scorer(tmp_path).prior == {"gpu.hbm": 1.0}


def test_a_foreign_pipeline_file_is_refused_and_not_run(tmp_path: Path, trained: Trained):
    write_model(tmp_path, trained, 1, {"prior": {}})
    place = tmp_path / "pipeline.skops"
    skops.io.dump(FunctionTransformer(func=json.dumps), place)
    with pytest.raises(ModelError, match=r"was not loaded|is no pipeline"):
        load_pipeline(tmp_path)
    place.write_bytes(pickle.dumps(LogisticRegression()))
    with pytest.raises(ModelError, match="is no pipeline of a text model"):
        load_pipeline(tmp_path)
    place.write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(ModelError, match="is no pipeline of a text model"):
        load_pipeline(tmp_path)
