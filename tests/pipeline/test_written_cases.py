"""Cases written for this repository from public reports (`tests/cases`): the floor that each group keeps.

The first, blind score of these cases stands in `docs/evaluation.md`; it can never be measured again. The floors here
only stop answers that were right from getting lost.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.measuring.evaluate import evaluate
from pipeline.measuring.scoring import Report
from schemas.taxonomy import components

CASES = Path(__file__).resolve().parents[1] / "cases"


def _report(group: str) -> Report:
    return evaluate(CASES / group)


def _wrong(report: Report) -> str:
    missed = [v for v in report.verdicts if not v.strict]
    return "\n".join(f"{v.case}: {v.expected}, answered {v.answer} ({v.confidence})" for v in missed)


def test_host_kernel_and_cluster_cases():
    report = _report("host")
    assert report.cases == 64
    assert report.errors == 0
    assert report.strict.k >= 59, _wrong(report)
    assert report.acceptable.k >= 62, _wrong(report)
    assert report.false_alarms <= 1, _wrong(report)
    assert report.wrong_sure <= 1, _wrong(report)


@pytest.mark.parametrize("file", sorted(CASES.rglob("case.json")), ids=lambda p: p.parent.name)
def test_a_case_says_what_it_is(file: Path):
    case = json.loads(file.read_text())
    known = {*components(), "none"}
    assert case["expected"] in known
    assert case["expected"] in case["acceptable"]
    assert set(case["acceptable"]) <= known
    assert case["why"]
    assert case["source"]
    assert case["certainty"] in ("confirmed", "likely", "judged")
    assert case["decidable"] in ("log", "inference", "no")
    assert [p for p in file.parent.rglob("*") if p.is_file() and p.name != "case.json"]
