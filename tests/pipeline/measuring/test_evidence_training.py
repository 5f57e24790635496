"""Samples from cases and clusters, and when a new evidence model is taken."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from classifiers.cards import ModelError
from classifiers.evidence.shipped import ARRAYS, FOLDER, SHIPPED, load_ranker, read_card
from classifiers.models.evidence_model import EvidenceError
from classifiers.text.shipped import scorer_for
from pipeline.diagnose import diagnose
from pipeline.measuring.evidence_samples import case_samples, simulated_samples, training_clusters
from pipeline.measuring.evidence_training import train_evidence_model
from pipeline.simulate import simulate
from schemas.settings import Settings
from tests.pipeline.cli.conftest import run

CASES = Path(__file__).parents[2] / "cases"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every third case of the repository."""
    folder = tmp_path_factory.mktemp("few")
    for case in sorted((CASES / "job").iterdir())[::2] + sorted((CASES / "host").iterdir())[::2]:
        if (case / "case.json").is_file():
            shutil.copytree(case, folder / case.name)
    return folder


def _files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def _claim(out: Path, loss: float) -> Path:
    """A model's folder whose evidence model is sure of every candidate and claims this log loss."""
    target = out / FOLDER
    shutil.copytree(SHIPPED, target)
    held = json.loads((target / ARRAYS).read_text())
    held["weights"], held["bias"] = [0.0] * len(held["weights"]), 6.0
    data = (json.dumps(held) + "\n").encode()
    (target / ARRAYS).write_bytes(data)
    card = read_card(target) | {"held_out_log_loss": loss, "arrays_sha256": hashlib.sha256(data).hexdigest()}
    (target / "card.json").write_text(json.dumps(card))
    return target


def test_a_case_is_taken_whole_and_without_its_rule(few: Path):
    samples = case_samples(few, Settings(), scorer_for("shipped"))
    kinds = {kind: [s for s in samples if s.kind == kind] for kind in ("whole", "gone", "muted")}
    assert all(kinds.values())
    assert {s.name for s in kinds["gone"]} <= {s.name for s in kinds["whole"]} | {s.name for s in kinds["muted"]}
    assert all(s.cluster == s.name and not s.simulated for s in samples)
    wrong = [s for s in kinds["gone"] if not s.right[0]]
    assert wrong, "without its rule a case has an answer that is wrong: that is what they are for"
    assert all(len(s.rows) == len(s.right) and len({r.component for r in s.rows}) == len(s.rows) for s in samples)


def test_samples_do_not_depend_on_the_model_in_use(few: Path, tmp_path: Path):
    one = tmp_path / "one"
    shutil.copytree(next(iter(sorted(few.iterdir()))), one / "case")
    scorer = scorer_for("shipped")
    assert case_samples(one, Settings(), scorer) == case_samples(one, Settings(opinions="text"), scorer)


def test_attempts_of_a_cluster_are_held_against_the_plan(tmp_path: Path):
    made = next(iter(training_clusters(5))).model_copy(update={"days": 1.0, "interruptions": 8, "hosts": 8})
    simulate(tmp_path / "site", made)
    samples = simulated_samples(tmp_path / "site", "slurm-501", Settings(), None)
    whole = [s for s in samples if s.kind == "whole"]
    assert len(whole) >= 8
    assert {s.cluster for s in samples} == {"slurm-501"}
    assert all(s.simulated for s in samples)
    assert sum(s.right[0] for s in whole) >= len(whole) - 2


def test_clusters_of_training_differ_and_keep_one_wording():
    made = list(training_clusters(1))
    assert len({m.seed for m in made}) == len(made)
    assert {(m.site, m.withheld > 0) for m in made} == {(s, w) for s in ("slurm", "k8s") for w in (False, True)}
    assert {m.wording for m in made} == {"usual"}, "the other wording is for measuring"


def test_a_better_model_is_taken_and_used(few: Path, tmp_path: Path):
    out = tmp_path / "model"
    target = _claim(out, 5.0)
    result = train_evidence_model(out, Settings(), [few], clusters=False)
    assert result.current
    assert result.version == read_card(SHIPPED)["version"] + 1
    assert load_ranker(target).version == str(result.version)
    assert result.card["cases"] > 40
    again = train_evidence_model(out, Settings(), [few], clusters=False)
    assert again.reasons == ("the new model equals the current one, which stays as it is",)
    shutil.copytree(SHIPPED.parents[1] / "text" / "shipped", out, dirs_exist_ok=True)
    case = next(c for c in sorted(few.iterdir()) if json.loads((c / "case.json").read_text())["expected"] != "none")
    assert diagnose([case], Settings(model=str(out))).decisions[0].model_version.endswith(f".{result.version}")


def test_a_worse_model_is_not_taken_and_the_reason_is_said(few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Worse by the measure: the bar is moved, because training on known cases gives no bad model."""
    monkeypatch.setattr("pipeline.measuring.evidence_training.TOLERANCE", -10.0)
    target = _claim(tmp_path / "model", 5.0)
    before = _files(target)
    result = run("train", "--evidence", "--no-clusters", "--cases", few, "--out", tmp_path / "model")
    assert result.exit_code == 1
    assert "not taken; evidence model" in result.output
    assert "on held-out subjects; the current model has" in result.output
    assert _files(target) == before


def test_too_few_cases_and_a_damaged_model_change_nothing(few: Path, tmp_path: Path):
    one = tmp_path / "one"
    shutil.copytree(next(iter(sorted(few.iterdir()))), one / "case")
    target = _claim(tmp_path / "model", 5.0)
    before = _files(target)
    with pytest.raises(EvidenceError, match="give more cases or clusters"):
        train_evidence_model(tmp_path / "model", Settings(), [one], clusters=False)
    assert _files(target) == before
    (target / ARRAYS).write_text("{}")
    with pytest.raises(ModelError, match="damaged or exchanged"):
        train_evidence_model(tmp_path / "model", Settings(), [few], clusters=False)


def test_options_that_do_not_go_together(few: Path, tmp_path: Path):
    refused = run("train", "--cases", few, "--out", tmp_path / "model")
    assert refused.exit_code == 2
    assert "--cases goes with --evidence" in refused.stderr
    refused = run("train", "--evidence", "--corpus", few, "--out", tmp_path / "model")
    assert "--warehouse and --corpus are for the text model" in refused.stderr
