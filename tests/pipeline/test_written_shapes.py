"""Cases written for one shape of evidence each (`tests/cases/shapes`): all of them stay right."""

from __future__ import annotations

from pathlib import Path

from pipeline.measuring.evaluate import evaluate

SHAPES = Path(__file__).resolve().parents[1] / "cases" / "shapes"


def test_each_shape_is_seen_and_its_look_alike_is_not() -> None:
    report = evaluate(SHAPES)
    assert report.cases == 5
    wrong = [(v.case, v.expected, v.answer, v.confidence) for v in report.verdicts if not v.strict]
    assert not wrong
    assert report.first_failing["host"].k == report.first_failing["host"].n == 4
