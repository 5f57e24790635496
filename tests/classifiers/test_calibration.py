"""Calibration error and coverage against precision, on numbers that can be checked by hand."""

from __future__ import annotations

import pytest

from classifiers.calibration import calibration, coverage_curve, expected_calibration_error


def test_the_error_is_the_gap_between_confidence_and_share_by_bin():
    pairs = [(0.9, True), (0.9, False), (0.2, False), (0.2, False)]
    # bin 0.9: confidence 0.9, right 0.5, weight 1/2; bin 0.2: 0.2 against 0, weight 1/2
    assert expected_calibration_error(pairs) == pytest.approx(0.5 * 0.4 + 0.5 * 0.2)
    assert expected_calibration_error([(1.0, True)] * 5) == 0
    assert expected_calibration_error([]) == 0


def test_the_interval_holds_the_error_and_comes_out_the_same():
    pairs = [(0.8, i % 5 != 0) for i in range(100)] + [(0.6, i % 2 == 0) for i in range(50)]
    found = calibration(pairs)
    assert found.n == 150
    assert found.low is not None
    assert found.high is not None
    assert found.error is not None
    assert found.low <= found.error + 0.02
    assert found.error <= found.high
    assert calibration(pairs) == found
    assert calibration([]).error is None


def test_coverage_grows_as_the_threshold_falls():
    curve = coverage_curve([(0.5, False), (0.9, True), (0.9, True), (0.7, True)], answerable=8)
    assert curve == [(0.9, 0.25, 1.0), (0.7, 0.375, 1.0), (0.5, 0.5, 0.75)]
