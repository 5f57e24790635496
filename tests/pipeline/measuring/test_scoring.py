"""Scores, against figures worked out by hand."""

from __future__ import annotations

import pytest

from pipeline.measuring.scoring import Answer, Expected, Place, judge, macro_f1, score, table5_constant, wilson

HBM = Expected("a", "gpu.hbm", frozenset({"gpu.hbm", "gpu.device"}), "log", Place("node7", 3, 19))
BUG = Expected("b", "software.bug", frozenset({"software.bug"}), "log", Place(None, None, 0))
QUIET = Expected("c", "none", frozenset({"none", "dependency"}), "log")
DARK = Expected("d", "unknown", frozenset({"unknown", "software.bug"}), "no")


def test_wilson_interval_of_half_of_ten():
    share = wilson(5, 10)
    assert (share.k, share.n, share.value) == (5, 10, 0.5)
    assert share.low == pytest.approx(0.23659, abs=1e-5)
    assert share.high == pytest.approx(0.76341, abs=1e-5)


def test_wilson_interval_stays_inside_zero_and_one():
    assert wilson(0, 4).low == 0.0
    assert wilson(4, 4).high == 1.0
    assert wilson(4, 4).low == pytest.approx(0.51011, abs=1e-5)
    assert wilson(0, 0).value is None


def test_the_floor_of_table_5():
    assert table5_constant() == pytest.approx({"accuracy": 148 / 419, "macro_f1": 0.0290}, abs=5e-5)


def test_macro_f1_averages_over_expected_classes_only():
    # x: precision 1/2, recall 1 -> 2/3; y: never answered -> 0; the answer z is no class of its own.
    assert macro_f1([("x", "x"), ("y", "x"), ("y", "z")]) == pytest.approx((2 / 3 + 0) / 2)
    assert macro_f1([]) == 0.0


@pytest.mark.parametrize(
    ("expected", "answer", "flags"),
    [
        (HBM, Answer("a", "gpu.hbm", 0.9), {"strict", "acceptable"}),
        (HBM, Answer("a", "gpu.device", 0.99), {"acceptable"}),
        (HBM, Answer("a", "none"), {"missed"}),
        (HBM, Answer("a", "net.fabric", 0.8), {"wrong_sure"}),
        (HBM, Answer("a", "net.fabric", 0.799), set()),
        (HBM, Answer("a", "unknown", 0.95), set()),
        (QUIET, Answer("c", "none"), {"strict", "acceptable"}),
        (QUIET, Answer("c", "dependency", 0.9), {"acceptable"}),
        (QUIET, Answer("c", "gpu.hbm", 0.4), {"false_alarm"}),
        (QUIET, Answer("c", "gpu.hbm", 0.9), {"false_alarm", "wrong_sure"}),
        (QUIET, Answer("c", "unknown", 0.9), set()),
        (DARK, Answer("d", "unknown", 0.5), {"strict", "acceptable"}),
        (DARK, Answer("d", "unknown.nccl_timeout", 0.5), set()),
        (DARK, Answer("d", "none"), {"missed"}),
        (HBM, Answer("a", "gpu.hbm", 0.9, error="torn"), set()),
    ],
)
def test_one_verdict(expected: Expected, answer: Answer, flags: set[str]):
    verdict = judge(expected, answer)
    names = ("strict", "acceptable", "missed", "false_alarm", "wrong_sure")
    assert {name for name in names if getattr(verdict, name)} == flags


def test_none_is_not_missed_where_it_is_acceptable():
    either = Expected("e", "dependency", frozenset({"none", "dependency"}))
    assert not judge(either, Answer("e", "none")).missed


def test_a_whole_report():
    report = score(
        [HBM, BUG, QUIET, DARK],
        [
            Answer("d", "unknown", 0.6, incidents=1, seconds=0.2),
            Answer("c", "gpu.hbm", 0.9, incidents=3),
            Answer("b", "unknown", 0.5, first_failing=Place(None, None, 1), incidents=1),
            Answer("a", "gpu.device", 0.7, first_failing=Place("NODE7.example.org", 2, 19), incidents=2, seconds=0.4),
        ],
    )
    assert (report.cases, report.strict.k, report.acceptable.k) == (4, 1, 2)
    assert (report.abstained, report.missed, report.extra_incidents) == (2, 0, 3)
    assert (report.false_alarms, report.wrong_sure, report.errors) == (1, 1, 0)
    assert report.slowest_s == 0.4
    # host right in spite of case and domain, gpu wrong, ranks: 19 right, 0 wrong
    assert {k: (s.k, s.n) for k, s in report.first_failing.items()} == {
        "all": (2, 4),
        "host": (1, 1),
        "gpu": (0, 1),
        "rank": (1, 2),
    }
    by_class = {c.component: c for c in report.by_class}
    assert (by_class["gpu.hbm"].strict.k, by_class["gpu.hbm"].acceptable.k) == (0, 1)
    assert (by_class["gpu.hbm"].answered, by_class["gpu.hbm"].precision.k) == (1, 0)
    assert (by_class["unknown"].answered, by_class["unknown"].precision.value) == (2, 0.5)
    assert (report.by_decidable["log"]["acceptable"].k, report.by_decidable["log"]["acceptable"].n) == (1, 3)
    assert report.by_decidable["no"]["strict"].value == 1.0
    # each component is expected once; `software.bug` is acceptable twice
    assert report.best_constant_strict.strict.k == 1
    assert (report.best_constant_acceptable.answer, report.best_constant_acceptable.acceptable.k) == ("software.bug", 2)
    assert (report.none_else_unknown.strict.k, report.none_else_unknown.acceptable.k) == (2, 2)
    assert report.macro_f1 == pytest.approx((0 + 0 + 0 + 2 / 3) / 4)


def test_a_case_without_an_answer_is_an_error():
    with pytest.raises(KeyError, match="a"):
        score([HBM], [])


def test_no_cases_at_all():
    report = score([], [])
    assert (report.cases, report.strict.value, report.macro_f1) == (0, None, 0.0)


def test_the_report_is_plain_data():
    import json

    report = score([QUIET], [Answer("c", "none")])
    data = json.loads(json.dumps(report.as_dict()))
    assert data["schema"] == "faultbeam.evaluation/1"
    assert data["verdicts"][0]["strict"] is True
    assert "verdicts" not in report.as_dict(verdicts=False)
