"""How good the answers are on inputs with known causes: the bounds that a release keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.measuring.evaluate import evaluate
from pipeline.measuring.scoring import Report


@pytest.fixture(scope="module")
def cases(shared_cases: Path) -> Report:
    return evaluate(shared_cases)


@pytest.fixture(scope="module")
def runs(shared_data: Path) -> Report:
    return evaluate(shared_data / "mlperf_runs")


def _wrong(report: Report) -> str:
    return "\n".join(
        f"{v.case}: expected {v.expected}, answered {v.answer} ({v.cause}, {v.confidence})"
        for v in report.verdicts
        if not v.acceptable
    )


def test_incidents_and_non_incidents_of_public_reports(cases: Report):
    assert cases.cases == 68
    assert cases.errors == 0
    assert (cases.acceptable.value or 0) >= 0.85, _wrong(cases)
    assert (cases.strict.value or 0) >= 0.70, _wrong(cases)
    assert cases.false_alarms <= 2, _wrong(cases)
    assert cases.wrong_sure <= 2, _wrong(cases)
    assert cases.missed <= 4, _wrong(cases)


def test_it_is_better_than_any_fixed_answer(cases: Report):
    fixed = (cases.best_constant_strict, cases.best_constant_acceptable, cases.none_else_unknown)
    assert all(cases.strict.k > constant.strict.k for constant in fixed)
    assert all(cases.acceptable.k > constant.acceptable.k for constant in fixed)


def test_training_runs_that_died(runs: Report):
    died = [v for v in runs.verdicts if v.case.startswith("died/")]
    assert len(died) == 11
    assert sum(v.acceptable for v in died) >= 9, _wrong(runs)


@pytest.mark.parametrize("group", ["success_noisy/", "success_scale/", "aborted/"])
def test_training_runs_that_reached_their_own_end(runs: Report, group: str):
    ended = [v for v in runs.verdicts if v.case.startswith(group)]
    assert ended
    assert [v.case for v in ended if v.answer != "none"] == []


def test_training_runs_whose_log_just_stops_are_unknown(runs: Report):
    silent = [v for v in runs.verdicts if v.case.startswith("silent_end/")]
    assert len(silent) == 5
    assert {v.answer for v in silent} == {"unknown"}


def test_healthy_runs(shared_data: Path):
    report = evaluate(shared_data / "mlperf_bulk")
    assert report.cases == 336
    assert sum(v.answer != "none" for v in report.verdicts) <= 3, _wrong(report)
