"""Training from the corpus and a warehouse's labels, and when a new model is taken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from classifiers.cards import ModelError
from classifiers.corpus import COLUMNS, CorpusError, load_corpus
from classifiers.evidence import shipped as evidence
from classifiers.text.shipped import SHIPPED, load_scorer, read_card
from pipeline.diagnose import diagnose
from pipeline.measuring.training import TrainingError, train_model
from pipeline.warehouse.ingest import ingest, reattribute
from schemas.settings import Settings
from sql.store import open_store
from tests.pipeline.cli.conftest import run

#: Number of the evidence model in use, which stands after the text model's.
EVIDENCE = evidence.read_card(evidence.SHIPPED)["version"]
LINE = "acme.errors.GizmoError: the gizmo of the shared hall went blue on all of its sides"
LOG = (
    "iteration 1/9 | loss 2.1\niteration 2/9 | loss 2.0\nTraceback (most recent call last):\n"
    f"  File 't.py', line 3, in <module>\n{LINE}\n"
)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A corpus of three components: quick to train on."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    rows = [s for s in load_corpus() if s.component in ("dependency", "gpu.hbm", "software.bug")][::3]
    text = "\n".join("\t".join((s.text, s.component, s.cause, s.family, s.source)) for s in rows)
    (folder / "few.tsv").write_text("\t".join(COLUMNS) + "\n" + text + "\n")
    return folder


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "slurm-71.out").write_text(LOG)
    return folder


@pytest.fixture
def warehouse(tmp_path: Path, job: Path) -> str:
    url = f"sqlite:///{tmp_path / 'w.db'}"
    ingest([job], url, Settings())
    return url


def _files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def _lower_bar(folder: Path, accuracy: float) -> Path:
    """A copy of the shipped model whose card claims this share of right answers."""
    shutil.copytree(SHIPPED, folder)
    return _claim(folder, accuracy)


def _claim(folder: Path, accuracy: float) -> Path:
    card = json.loads((folder / "card.json").read_text())
    card["held_out_templates"]["accuracy"] = accuracy
    (folder / "card.json").write_text(json.dumps(card))
    return folder


def test_labels_teach_the_model_and_count_as_a_prior(tmp_path: Path, small: Path, warehouse: str, job: Path):
    out = _lower_bar(tmp_path / "model", 0.0)
    with open_store(warehouse) as store:
        (incident,) = store.list_decisions()
        assert incident.component != "gpu.sdc"
        store.add_label(incident.incident_id, "gpu.sdc", who="ada")
        result = train_model(out, Settings(), store=store, corpus=small)
    assert result.current
    assert (result.labels, result.label_lines) == (1, 1)
    assert result.card["prior"] == {"gpu.sdc": 1.0}
    assert result.version == read_card(SHIPPED)["version"] + 1
    assert result.card["data"]["label_lines"] == 1
    opinion = load_scorer(out).opinion([LINE.replace("hall", "house")])
    assert opinion is not None
    assert opinion.component == "gpu.sdc"
    again = diagnose([job], Settings(model=str(out), model_threshold=0.3)).decisions[0]
    assert (again.component, again.model_version) == ("gpu.sdc", f"{result.version}.{EVIDENCE}")


def test_the_same_data_leave_the_model_as_it_is(tmp_path: Path, small: Path):
    out = _lower_bar(tmp_path / "model", 0.0)
    first = train_model(out, Settings(), corpus=small)
    before = _files(out)
    second = train_model(out, Settings(), corpus=small)
    assert (second.current, second.version) == (True, first.version)
    assert "equals the current one" in second.reasons[0]
    assert _files(out) == before


def test_a_worse_model_is_not_taken_and_the_reason_is_said(tmp_path: Path, small: Path):
    out = _lower_bar(tmp_path / "model", 0.999)
    before = _files(out)
    result = train_model(out, Settings(), corpus=small)
    assert not result.current
    assert "held-out templates" in result.reasons[0]
    assert "0.999" in result.reasons[0]
    assert _files(out) == before


def test_a_model_that_is_worse_on_known_incidents_is_not_taken(tmp_path: Path, small: Path, job: Path):
    out = _lower_bar(tmp_path / "model", 0.0)
    known = tmp_path / "known" / "one"
    known.mkdir(parents=True)
    told = "acme.errors.StoreError: the object store's endpoint refused the upload, service unavailable"
    (known / "slurm-9.out").write_text(LOG.replace(LINE, told))
    (known / "case.json").write_text(json.dumps({"expected": "dependency"}))
    own = small / "few.tsv"
    kept = [row for row in own.read_text().splitlines() if "\tdependency\t" not in row]
    own.write_text("\n".join(kept) + "\n")
    before = _files(out)
    result = train_model(out, Settings(), corpus=small, check=tmp_path / "known")
    assert not result.current
    assert result.reasons[0] == "acceptable on 0 of 1 cases, the current model on 1"
    assert _files(out) == before


def test_a_corpus_of_one_class_changes_nothing(tmp_path: Path, small: Path):
    out = _lower_bar(tmp_path / "model", 0.0)
    own = small / "few.tsv"
    head, *rows = own.read_text().splitlines()
    own.write_text("\n".join([head, *(r for r in rows if "\tgpu.hbm\t" in r)]) + "\n")
    before = _files(out)
    with pytest.raises(CorpusError, match="at least two components"):
        train_model(out, Settings(), corpus=small)
    assert _files(out) == before


def test_a_damaged_current_model_is_not_overwritten(tmp_path: Path, small: Path):
    out = _lower_bar(tmp_path / "model", 0.0)
    (out / "card.json").write_text("{torn")
    before = _files(out)
    with pytest.raises(ModelError, match="is no JSON"):
        train_model(out, Settings(), corpus=small)
    assert _files(out) == before


def test_a_label_without_its_incident_changes_nothing(tmp_path: Path, small: Path, warehouse: str):
    out = _lower_bar(tmp_path / "model", 0.0)
    before = _files(out)
    with open_store(warehouse) as store:
        (incident,) = store.list_decisions()
        store.add_label(incident.incident_id, "gpu.sdc")
        store.replace_decisions("default", [], [incident.subject_key])
        with pytest.raises(
            TrainingError, match=f"label of incident {incident.incident_id}: the warehouse holds no such"
        ):
            train_model(out, Settings(), store=store, corpus=small)
    assert _files(out) == before


def test_one_model_speaks_in_every_path(tmp_path: Path, job: Path, warehouse: str):
    told = "acme.errors.StoreError: the object store's endpoint refused the upload, service unavailable"
    (job / "slurm-71.out").write_text(LOG.replace(LINE, told))
    url = f"sqlite:///{tmp_path / 'other.db'}"
    ingest([job], url, Settings())
    direct = diagnose([job], Settings()).decisions[0]
    with open_store(url) as store:
        (stored,) = store.list_decisions()
        assert not list(reattribute(url, Settings()))
        assert store.list_decisions() == (stored,)
    assert direct.decided_by == "model"
    for name in ("component", "cause", "confidence", "decided_by", "alternatives", "model_version", "why"):
        assert getattr(stored, name) == getattr(direct, name)
    assert stored.model_version == f"{read_card(SHIPPED)['version']}.{EVIDENCE}"


def test_the_command_says_what_came_of_it(tmp_path: Path, small: Path):
    out = _lower_bar(tmp_path / "model", 0.0)
    taken = run("train", "--out", out, "--corpus", small)
    assert taken.exit_code == 0
    assert f"current: model {read_card(SHIPPED)['version'] + 1}" in taken.output
    _claim(out, 0.999)
    refused = run("train", "--out", out, "--corpus", small, "--seed", "2", "--format", "json")
    assert refused.exit_code == 1
    document = json.loads(refused.output)
    assert document["current"] is False
    assert "held-out templates" in document["reasons"][0]
    (small / "few.tsv").write_text("\t".join(COLUMNS) + "\n")
    broken = run("train", "--out", out, "--corpus", small)
    assert broken.exit_code == 2
    assert "at least two components" in broken.stderr
