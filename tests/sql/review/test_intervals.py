"""Intervals hold what was planted: day effect, what carries it, MTTF and its trend, through the review's own path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.interval_coverage import KINDS, day_effect, failures
from sql.review.daily import diurnal_of
from sql.review.diurnal import Sample
from sql.review.mediators import Mediator, mediators
from sql.review.trend import mttf_trend

DAY = 86400.0
BY_NAME = {kind.name: kind for kind in KINDS}


@pytest.mark.parametrize(
    "name",
    [
        "stamps of whole seconds",
        "attempts of other levels",
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("usual", "drift over a day", "small effect 0.3 %")),
    ],
)
def test_day_effect_holds(name: str) -> None:
    kind = BY_NAME[name]
    found = [day_effect(7_000 + seed, 21, kind) for seed in range(20)]
    # 95 of 100: fewer than 16 of 20 happens once in 400 times, and the seeds do not change.
    assert sum(f["ci95"][0] <= kind.effect <= f["ci95"][1] for f in found) >= 16
    assert sum(f["peak_to_trough"] for f in found) / 20 == pytest.approx(kind.effect, abs=0.0008)


def test_noise_is_seldom_called_a_day_effect() -> None:
    found = [day_effect(8_000 + seed, 21, BY_NAME["no effect"]) for seed in range(30)]
    assert sum(f["verdict"] == "detectable" for f in found) <= 4
    assert all(f["ci95"][0] == 0 for f in found if f["verdict"] != "detectable")


def test_stalls_are_no_throughput_and_levels_of_attempts_are_not_stalls() -> None:
    stalled = day_effect(1, 21, BY_NAME["usual"])
    far = day_effect(1, 21, replace(BY_NAME["usual"], level=0.3))
    assert far["ci95"][0] <= 0.015 <= far["ci95"][1]
    assert far["peak_to_trough"] == pytest.approx(stalled["peak_to_trough"], abs=0.002)


def test_fourteen_days_are_enough_thirteen_are_not() -> None:
    kind = replace(BY_NAME["no noise"], attempt_hours=1e6)
    assert day_effect(3, 14, kind)["verdict"] == "detectable"
    assert day_effect(3, 13, kind)["verdict"] == "not detectable with 13 days"


def test_no_samples_no_numbers() -> None:
    empty = diurnal_of([], {}, None, None, None, [])
    assert (empty["peak_to_trough"], empty["ci95"], empty["by_hour"]) == (None, None, [])
    assert [m["verdict"] for m in empty["mediators"]] == [
        "temperature: not known, no hourly gpu_temperature_c",
        "clock: not known, no hourly gpu_sm_clock_mhz",
    ]


def _warm(
    seed: int, days: int, direct: float, per_degree: float, weather: float
) -> tuple[list[Sample], dict[int, float]]:
    """Throughput that follows the hour (`direct`, peak to trough) and the temperature, which has weather of its own."""
    rng = np.random.default_rng(seed)
    hours = days * 24
    own = np.zeros(hours)
    for i in range(1, hours):
        own[i] = 0.96 * own[i - 1] + 0.28 * weather * rng.standard_normal()
    wave = np.cos(2 * np.pi * (np.arange(hours) % 24 + 0.5 - 14) / 24)
    degrees = 60 + 3 * wave + own + 0.05 * rng.standard_normal(hours)
    samples = []
    for k in range(hours * 12):
        hour = k // 12
        rate = -direct / 2 * wave[hour] + per_degree * (degrees[hour] - 60) + 0.002 * rng.standard_normal()
        samples.append(Sample(k * 300.0 + 150, float(np.exp(rate)), f"a{k // 144}"))
    return samples, {hour: float(t) for hour, t in enumerate(degrees)}


def _of(seed: int, days: int, direct: float, per_degree: float, weather: float, seen: bool = True) -> Mediator:
    samples, degrees = _warm(seed, days, direct, per_degree, weather)
    return mediators(samples, {"gpu_temperature_c": degrees}, seen)[0]


def test_temperature_that_carries_all_of_it() -> None:
    found = [_of(seed, 28, 0.0, -0.0025, 2.0) for seed in range(20)]
    held = sum(m.per_unit_ci95 is not None and m.per_unit_ci95[0] <= -0.0025 <= m.per_unit_ci95[1] for m in found)
    assert held >= 16
    assert found[0].carried == pytest.approx(1.0, abs=0.1)
    assert found[0].swing == pytest.approx(6.0, abs=1.0)
    assert "goes with" in found[0].verdict


def test_temperature_that_carries_nothing() -> None:
    found = [_of(seed, 28, 0.015, 0.0, 2.0) for seed in range(20)]
    assert sum("no part seen" in m.verdict for m in found) >= 17
    assert all(m.carried is not None and abs(m.carried) < 0.2 for m in found)


def test_temperature_that_only_follows_the_hour_cannot_be_told_from_it() -> None:
    samples, _ = _warm(1, 28, 0.015, 0.0, 2.0)
    clean = {h: 60 + 3 * float(np.cos(2 * np.pi * (h % 24 - 14) / 24)) for h in range(28 * 24)}
    (found, clock) = mediators(samples, {"gpu_temperature_c": clean}, True)
    assert found.verdict == "temperature: moves with the hour alone, so its part cannot be told from the hour's"
    assert found.per_unit is None
    assert clock.verdict == "clock: not known, no hourly gpu_sm_clock_mhz"


def test_few_days_tell_nothing_of_temperature() -> None:
    assert _of(1, 7, 0.015, 0.0, 2.0).verdict == "temperature: cannot be told with 168 hours in 7 days"
    without = _of(1, 28, 0.0, -0.0025, 2.0, seen=False)
    assert (without.carried, without.verdict.endswith("there is no day effect to carry")) == (None, True)


def test_hours_in_which_gpus_rested_are_left_out() -> None:
    samples, degrees = _warm(1, 28, 0.015, 0.0, 2.0)
    kept = [s for s in samples if int(s.at // 3600) % 6 or s.at % 3600 < 1800]
    cool = {h: t - 15 * (h % 6 == 0) for h, t in degrees.items()}
    found = mediators(kept, {"gpu_temperature_c": cool}, True)[0]
    assert found.hours == 28 * 24 * 5 // 6
    assert "no part seen" in found.verdict


def test_mttf_and_its_trend_hold() -> None:
    made = [failures(seed, 54, 6.0, -0.1) for seed in range(60)]
    assert sum(m["ci95"][0] <= truth <= m["ci95"][1] for m, _, truth in made) >= 53
    assert sum(t["ci95"][0] <= -0.1 <= t["ci95"][1] for _, t, _ in made) >= 53
    assert sum(t["verdict"].startswith("MTTF shrinks by") for _, t, _ in made) >= 40


def test_chance_is_seldom_called_a_trend() -> None:
    told = [failures(seed, 54, 6.0, 0.0)[1]["verdict"] for seed in range(60)]
    assert sum(v.startswith("MTTF") for v in told) <= 8
    assert sum(v.startswith("no trend seen") for v in told) >= 52


@pytest.mark.parametrize(
    ("at", "days", "verdict"),
    [
        ([], 0, "too little to tell a trend (0 failures in 0 days)"),
        ([1.0], 30, "too little to tell a trend (1 failure in 30 days)"),
        ([float(i) for i in range(40)], 13, "too little to tell a trend (40 failures in 13 days)"),
    ],
)
def test_little_tells_no_trend(at: list[float], days: float, verdict: str) -> None:
    found = mttf_trend(at, days * DAY)
    assert (found.change_per_week, found.ci95, found.verdict) == (None, None, verdict)


def test_a_step_as_steep_as_can_be_stays_finite() -> None:
    found = mttf_trend([27.9 * DAY] * 50, 28 * DAY)
    assert found.ci95 is not None
    assert -1 < found.ci95[0] <= found.ci95[1] < 0
    assert found.verdict.startswith("MTTF shrinks")
