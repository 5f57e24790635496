"""Rules alone, text model alone, both, and families of rules switched off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from classifiers.knowledge import load_ruleset
from pipeline.measuring.ablation import FAMILIES, PARTS, ablate, in_family, leave_out, without
from pipeline.measuring.evaluate import EvaluationError
from schemas.settings import Settings
from tests.pipeline.cli.conftest import run

STEPS = "iteration 1/9 | loss 2.1\niteration 2/9 | loss 2.0\n"
HEAD = f"{STEPS}Traceback (most recent call last):\n  File 't.py', line 3, in x\n"
CASES = {
    # a rule knows it, and the model's corpus speaks of it too
    "full": ("OSError: [Errno 28] No space left on device: '/tmp/a'", "software.bug"),
    # only the model knows it
    "store": ("a.StoreError: the object store's endpoint refused the upload, service unavailable", "dependency"),
    "fine": ("", "none"),
}


@pytest.fixture
def known(tmp_path: Path) -> Path:
    for name, (line, expected) in CASES.items():
        folder = tmp_path / "known" / name
        folder.mkdir(parents=True)
        (folder / "slurm-1.out").write_text(f"{HEAD}{line}\n" if line else STEPS)
        (folder / "case.json").write_text(json.dumps({"expected": expected}))
    return tmp_path / "known"


def test_each_part_is_scored_apart(known: Path):
    parts = {p.name: p for p in ablate(known, Settings())}
    assert tuple(parts) == PARTS
    answers = {name: {v.case: v.answer for v in p.report.verdicts} for name, p in parts.items()}
    assert answers["rules"] == {"full": "software.bug", "store": "software.bug", "fine": "none"}
    assert answers["text"] == {"full": "software.bug", "store": "dependency", "fine": "none"}
    assert answers["all"] == {"full": "software.bug", "store": "dependency", "fine": "none"}
    assert (parts["all"].precision.k, parts["all"].precision.n) == (2, 2)
    assert parts["all"].calibration.n == 2
    assert parts["all"].curve[-1][1:] == (1.0, 1.0)


def test_every_family_has_strong_rules_of_job_logs():
    rules = load_ruleset().rules
    for family in FAMILIES:
        reduced, off = without(family)
        assert len(off) >= 4, family
        assert not off & reduced.rules.keys()
        assert all(rules[i].strength != "weak" and rules[i].family == "job" for i in off)
        assert all(in_family(rules[i], family) for i in off)
        muted, same = without(family, muted=True)
        assert same == off
        assert muted.rules.keys() == rules.keys()
        assert all(muted.rules[i].strength == "weak" for i in off)


def test_the_cases_of_a_family_are_those_that_its_rules_decide(known: Path):
    found = leave_out(known, "storage", Settings())
    assert found.cases == ("full",)
    assert found.answers["full"][:2] == ("software.bug", "software.bug")
    assert found.by_part["text"][0].k == 1
    assert leave_out(known, "slurm", Settings()).cases == ()


def test_an_unknown_family_is_named():
    with pytest.raises(EvaluationError, match="no family 'cobol'"):
        without("cobol")


def test_the_command_prints_and_draws(known: Path, tmp_path: Path):
    pytest.importorskip("altair")
    picture = tmp_path / "curve.html"
    result = run("evaluate", known, "--ablate", "--picture", picture)
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()[2:6]] == list(PARTS)
    assert "cases answered" in picture.read_text()
    document = json.loads(run("evaluate", known, "--ablate", "--format", "json").output)
    assert document["schema"] == "faultbeam.ablation/1"
    assert [p["acceptable"]["k"] for p in document["parts"]] == [2, 3, 2, 3]
    assert run("evaluate", known, "--picture", picture).exit_code == 2


def test_the_command_leaves_a_family_out(known: Path):
    result = run("evaluate", known, "--without-family", "storage", "--format", "json")
    (off, muted) = json.loads(result.output)["families"]
    assert (off["family"], off["muted"], muted["muted"]) == ("storage", False, True)
    assert off["cases"] == ["full"]
    assert run("evaluate", known, "--without-family", "cobol").exit_code == 2
