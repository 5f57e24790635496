"""The pace of simulated training: as large an effect as set, exact between far checkpoints, and with honest noise."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np
import pytest

from pipeline.simulate import SimSettings
from pipeline.simulate.joblogs import training
from pipeline.simulate.pace import ends_of_steps, jitter, step_seconds, steps_between
from pipeline.simulate.plan import make_plan
from pipeline.simulate.stamps import calendar

EFFECT = SimSettings(day_effect=0.015, slowest_hour=14)


def test_the_effect_is_as_large_as_set_and_slowest_at_its_hour() -> None:
    pace = [step_seconds(EFFECT, h * 3600.0) for h in range(24)]
    assert pace.index(max(pace)) == 14
    speed = [1 / p for p in pace]
    assert (max(speed) - min(speed)) * EFFECT.step_s == pytest.approx(0.015, rel=1e-9)


@pytest.mark.parametrize("effect", [0.0, 0.015, 0.2])
def test_ends_of_steps_undo_steps_between(effect: float) -> None:
    s = SimSettings(day_effect=effect)
    for begin in (0.0, 12_345.6, 70_000.0):
        for n in (1, 700, 20_000):
            end = float(ends_of_steps(s, begin, np.array([float(n)]))[0])
            assert steps_between(s, begin, end) == pytest.approx(n, abs=1e-6)
    # one day holds as many steps as the mean pace says
    assert steps_between(s, 3_000.0, 3_000.0 + 86_400) == pytest.approx(86_400 / s.step_s)


def test_jitter_moves_single_steps_and_no_stretch() -> None:
    rng = np.random.default_rng(3)
    numbers = np.arange(1.0, 2001.0)
    moved = jitter(EFFECT, rng, numbers, 2000)
    assert moved[-1] == pytest.approx(0.0, abs=1e-9)
    steps = np.diff(np.concatenate(([0.0], moved)))
    assert np.std(steps) == pytest.approx(EFFECT.step_noise * EFFECT.step_s, rel=0.1)


def _peak_to_trough(s: SimSettings) -> float:
    """The effect as a plain cosine fit over the hours of the printed steps finds it."""
    cal = calendar("2025-03-03T00:00:00", "UTC")
    stamped = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+)\] iteration +(\d+)/")
    hours, speeds = [], []
    for attempt in make_plan(s).attempts:
        last: tuple[float, int] | None = None
        for _, text in training(attempt, s, cal, 0.0):
            if "successfully saved" in text:
                last = None
            if (found := stamped.search(text)) is None:
                continue
            t = datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp()
            if last is not None:
                hours.append((t + last[0]) / 2 / 3600)
                speeds.append((int(found[2]) - last[1]) / (t - last[0]))
            last = (t, int(found[2]))
    angle = 2 * np.pi * np.array(hours) / 24
    design = np.column_stack([np.ones_like(angle), np.cos(angle), np.sin(angle)])
    mean, a, b = np.linalg.lstsq(design, np.array(speeds), rcond=None)[0]
    return float(2 * np.hypot(a, b) / mean)


@pytest.mark.parametrize("every", [900.0, 3600.0, 6 * 3600.0])
def test_the_effect_can_be_read_back_whatever_the_distance_of_checkpoints(every: float) -> None:
    s = SimSettings(days=10, interruptions=4, day_effect=0.015, checkpoint_every_s=every, log_every=20)
    assert _peak_to_trough(s) == pytest.approx(0.015, abs=0.0003)
