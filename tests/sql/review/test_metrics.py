"""The numbers that must come out, and what formulas do at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql.review.checkpoints import Mark, saves
from sql.review.diurnal import Sample, day_effect
from sql.review.hours import by_hour
from sql.review.offenders import offenders
from sql.review.overheads import (
    daly,
    expected_ettr,
    goodput_loss_gpu_hours,
    mean,
    overhead_at,
    quantile,
    ratio,
    young,
)
from sql.review.rates import (
    constant_answer_scores,
    mttf,
    node_failure_rate,
    percents,
    poisson_interval,
    projected_mttf_hours,
    share_interval,
    spares,
)
from sql.review.swings import swings

#: Rows of Table 5 of arXiv 2407.21783 in the paper's order.
TABLE5 = (148, 72, 54, 35, 32, 19, 17, 7, 7, 6, 6, 3, 3, 2, 2, 2, 2, 2)
#: Rows of it that are no hardware or host: software bug, NCCL watchdog time-outs, dependency.
NOT_HOST = (54, 7, 2)
HOURS = 54 * 24


def test_table5() -> None:
    assert sum(TABLE5) == 419
    assert mttf(HOURS, 419).value == pytest.approx(3.093, abs=5e-4)
    assert mttf(HOURS, 419 + 47).value == pytest.approx(2.781, abs=5e-4)
    assert node_failure_rate(419, 2048, 54) == pytest.approx(3.789, abs=5e-4)
    assert node_failure_rate(419 - sum(NOT_HOST), 2048, 54) == pytest.approx(3.219, abs=5e-4)
    assert 419 - sum(NOT_HOST) == 356
    assert node_failure_rate(419 + 47, 2048, 54) == pytest.approx(4.214, abs=5e-4)
    gpu = TABLE5[0] + TABLE5[1] + TABLE5[5] + TABLE5[6] + TABLE5[9] + TABLE5[10]
    assert gpu == 268
    assert round(100 * gpu / 419, 1) == 64.0
    assert round(100 * (148 + 72) / 419, 1) == 52.5
    assert percents({"a": 148, "rest": 271})["a"] == pytest.approx(35.32, abs=5e-3)


def test_projection_of_the_published_rate() -> None:
    assert projected_mttf_hours(6.5, 2048) == pytest.approx(1.803, abs=5e-4)
    assert projected_mttf_hours(6.5, 16384) == pytest.approx(0.225, abs=5e-4)


def test_expected_ettr() -> None:
    assert round(expected_ettr(2000, 0.0065, 5, 60, 0) or 0, 2) == 0.68
    assert round(expected_ettr(2000, 0.0065, 5, 5, 0) or 0, 2) == 0.93
    assert expected_ettr(2000, 0.0065, 5, 0, 0) is None
    assert expected_ettr(200_000, 0.0065, 5, 60, 1) == 0.0


def test_floor_of_a_constant_answer() -> None:
    floor = constant_answer_scores(TABLE5)
    assert floor is not None
    assert (round(floor[0], 3), round(floor[1], 3)) == (0.353, 0.029)
    assert constant_answer_scores([]) is None


def test_poisson_interval_against_tables() -> None:
    # Garwood's limits as printed in tables of the Poisson distribution.
    for count, low, high in ((0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.390), (100, 81.36, 121.63)):
        found = poisson_interval(count)
        assert found == pytest.approx((low, high), abs=6e-3)
    with pytest.raises(ValueError, match="negative"):
        poisson_interval(-1)


def test_mttf_without_failures_has_a_lower_limit_only() -> None:
    found = mttf(100, 0)
    assert (found.value, found.high) == (None, None)
    assert found.low == pytest.approx(100 / 3.689, rel=1e-3)
    assert mttf(0, 3).value is None


def test_mttf_interval_of_table5() -> None:
    found = mttf(HOURS, 419)
    assert (found.low, found.high) == pytest.approx((2.81, 3.41), abs=5e-3)


@given(st.integers(0, 5000))
def test_poisson_interval_holds_its_count(count: int) -> None:
    low, high = poisson_interval(count)
    assert high is not None
    assert low <= count < high


def test_checkpoint_intervals() -> None:
    assert young(10, 8000) == 400
    assert daly(10, 8000) == 390
    assert daly(100, 40) == 40
    assert young(None, 5) is None
    assert daly(5, 0) is None
    at = overhead_at(400, 10, 8000)
    assert at == pytest.approx(0.05)
    assert all((overhead_at(d, 10, 8000) or 1) >= at for d in (100, 399, 401, 2000))


def test_small_functions() -> None:
    assert goodput_loss_gpu_hours([(0.1, 8), (5, 8), (-1, 8)]) == pytest.approx(0.8 + 4)
    assert (quantile([], 0.5), quantile([3, 1, 2], 0.5), quantile([0, 10], 0.9)) == (None, 2, 9)
    assert (mean([]), ratio(1, 0), ratio(None, 1), ratio(1, 4)) == (None, None, None, 0.25)
    assert share_interval(0, 0) is None
    low, high = share_interval(416, 419) or (0, 0)
    assert low < 416 / 419 < (high or 0) < 1


def test_spares_cover_the_failures_of_the_repair_time() -> None:
    found = spares(6.5, 2048, 1.0)
    away = 6.5 * 2.048
    assert found is not None

    def below(n: int) -> float:
        return sum(math.exp(-away) * away**k / math.factorial(k) for k in range(n + 1))

    assert below(found) >= 0.99 > below(found - 1)
    assert (spares(0, 10, 1), spares(None, 10, 1)) == (0, None)


def _samples(days: float, size: float, noise: float, seed: int = 1) -> list[Sample]:
    rng = np.random.default_rng(seed)
    at = np.arange(0, days * 86400, 600.0)
    # Autocorrelated noise, and a level of its own for each attempt of about three hours.
    drift = np.zeros(len(at))
    for i in range(1, len(at)):
        drift[i] = 0.8 * drift[i - 1] + noise * rng.standard_normal()
    levels = noise * rng.standard_normal(len(at) // 18 + 1)
    rate = np.exp(-size / 2 * np.cos(2 * np.pi * (at / 3600 - 15) / 24) + drift + levels[np.arange(len(at)) // 18])
    return [Sample(float(t), float(r), str(i // 18)) for i, (t, r) in enumerate(zip(at, rate, strict=True))]


def test_day_effect_is_found_in_noise() -> None:
    found = day_effect(_samples(54, 0.015, 0.004))
    assert found.verdict == "detectable"
    assert found.ci95 is not None
    assert found.ci95[0] < 0.015 < found.ci95[1]
    assert found.slowest_hour is not None
    assert abs(found.slowest_hour - 15) < 1


def test_day_effect_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = 0
    for seed in range(40):
        ci = day_effect(_samples(30, 0.015, 0.004, seed)).ci95
        assert ci is not None
        held += ci[0] <= 0.015 <= ci[1]
    assert held >= 34


def test_day_effect_of_few_days_is_not_detectable() -> None:
    assert day_effect(_samples(5, 0.015, 0.0)).verdict == "not detectable with 5 days"
    assert day_effect(_samples(5, 0.015, 0.004)).verdict == "not detectable with 5 days"


def test_no_day_effect_is_never_called_absent() -> None:
    flat = day_effect([Sample(s.at, 1.0, "a") for s in _samples(40, 0.0, 0.0)])
    assert flat.verdict == "not detectable with 40 days"
    assert day_effect([]).verdict == "not detectable with 0 days"
    assert day_effect([Sample(1.0, 1.0, "a")]).peak_to_trough is None


def test_failures_by_hour() -> None:
    even = by_hour([h + 0.5 for h in range(24)] * 17 + [0.0] * 11)
    assert even.smallest_swing == pytest.approx(0.17, abs=2e-3)
    assert even.p is not None
    assert even.p > 0.3
    rng = np.random.default_rng(3)
    peaked = by_hour(list((15 + 3 * rng.standard_normal(200)) % 24))
    assert peaked.p is not None
    assert peaked.p < 1e-6
    assert peaked.peak_hour is not None
    assert abs(peaked.peak_hour - 15) < 1
    assert by_hour([]).p is None


def test_saves_take_the_printed_time_else_the_stamps() -> None:
    begin = Mark("begin", 100.0, True, 10, 5, None)
    assert saves([begin, Mark("saved", 107.5, True, 20, 5, None)])[0].took == 7.5
    assert saves([begin, Mark("saved", 107.5, True, 20, 5, 6.0)])[0].took == 6.0
    assert saves([begin, Mark("saved", 107.5, False, 20, 5, None)])[0].took is None
    timed = saves([begin, Mark("saved", 107.5, False, 20, 5, None), Mark("seconds", 107.5, False, 30, None, 6.1)])
    assert (timed[0].took, timed[0].end_offset) == (6.1, 30)
    torn = saves([begin, Mark("begin", 900.0, True, 90, 9, None)])
    assert [s.done for s in torn] == [False, False]
    assert saves([]) == []


def test_swings_are_tied_to_what_happened() -> None:
    quiet = [(float(t), 20e6 + (t % 3) * 1e4) for t in range(0, 600)]
    series = [(t, w - 12e6 if 300 <= t < 330 else w) for t, w in quiet]
    found = swings(series, [(298.0, "checkpoint"), (500.0, "stall")])
    assert [(s.at, s.tied_to) for s in found] == [(300.0, "checkpoint"), (330.0, "")]
    assert found[0].watts == pytest.approx(-12e6, rel=0.01)
    assert swings([(t * 60, w) for t, w in series], []) == []
    assert swings([], []) == []


def _incident(host: str, fault: str, day: int, **over: object) -> dict[str, object]:
    row: dict[str, object] = {
        "host": host, "domain": "hardware", "component": "gpu.hbm", "cause": "xid.94", "fault_id": fault,
        "kind": "job_interruption", "n_hosts": 64, "onset_at": f"2026-03-{day:02}T00:00:00.000000Z",
        "interrupted_at": None, "gpu_serial": "77", "gpu_uuid": None, "gpu": 3, "lost_gpu_seconds": 3600.0,
    }  # fmt: skip
    return {**row, **over}


def test_offenders() -> None:
    until = 1_774_483_200.0  # 2026-03-26
    rows = [_incident("n1", f"f{d}", d) for d in (3, 9, 20)]
    rows += [_incident("n2", "shared", 4), _incident("n2", "shared", 5)]  # one fault that stopped two jobs
    rows += [_incident("n3", "bug1", 4, component="software.bug"), _incident("n3", "bug2", 9, component="software.bug")]
    found = offenders(rows, 200, until)
    assert [(o.host, o.repeats, o.gpu, o.faults) for o in found] == [("n1", 2, "77", 3)]
    assert found[0].kind == "lemon"
    assert "failed again on 77 2 times" in found[0].why
    assert offenders(rows, 200, until - 40 * 86400) == []
    assert offenders([], None, None) == []
