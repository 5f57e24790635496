"""Job-log cases written blind (`tests/cases/job`): the floor that they keep once their kinds were served."""

from __future__ import annotations

from pathlib import Path

from pipeline.measuring.evaluate import evaluate

CASES = Path(__file__).resolve().parents[1] / "cases" / "job"


def test_job_log_cases_keep_their_floor() -> None:
    report = evaluate(CASES)
    wrong = [f"{v.case}: {v.expected}, answered {v.answer} ({v.confidence})" for v in report.verdicts if not v.strict]
    assert report.cases == 70
    assert report.errors == 0
    assert report.strict.k >= 65, wrong
    assert report.acceptable.k == 70, wrong
    assert report.missed == 0, wrong
    assert report.false_alarms == 0, wrong
    assert report.wrong_sure == 0, wrong
