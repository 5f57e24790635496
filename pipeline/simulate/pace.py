"""How fast training goes: the day effect, and the moments at which steps end. Seconds since the start of the simulation.

The *speed* of training (steps per second) follows a cosine over the day with `day_effect` from peak to trough, relative
to its mean, and its minimum at `slowest_hour`. Its integral is known in closed form, so every single step ends when it
must, however far apart the checkpoints are.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.simulate.settings import SimSettings

_DAY = 86_400.0
_TURN = 2 * math.pi / _DAY
Floats = NDArray[np.float64]


def step_seconds(s: SimSettings, t: float) -> float:
    """Seconds that a step takes at a moment."""
    return s.step_s / (1 - s.day_effect / 2 * math.cos(_TURN * (t - 3600 * s.slowest_hour)))


def steps_between(s: SimSettings, begin: float, end: float) -> float:
    """Steps that training makes from one moment to another: the integral of its speed."""
    zero = 3600 * s.slowest_hour
    wave = math.sin(_TURN * (end - zero)) - math.sin(_TURN * (begin - zero))
    return ((end - begin) - s.day_effect / 2 * wave / _TURN) / s.step_s


def ends_of_steps(s: SimSettings, begin: float, numbers: Floats) -> Floats:
    """When the n-th step after `begin` ends, for each n: the inverse of `steps_between`, by Newton."""
    zero, half = 3600 * s.slowest_hour, s.day_effect / 2
    first = math.sin(_TURN * (begin - zero))
    wanted = numbers * s.step_s
    t: Floats = begin + wanted
    for _ in range(4):  # the error shrinks by day_effect / 2 and then quadratically
        done = (t - begin) - half / _TURN * (np.sin(_TURN * (t - zero)) - first)
        t = t - (done - wanted) / (1 - half * np.cos(_TURN * (t - zero)))
    return t


def jitter(s: SimSettings, rng: np.random.Generator, numbers: Floats, total: int) -> Floats:
    """What chance adds to the ends of steps `numbers` of a stretch of `total` steps: independent errors of single
    steps, summed up, and drawn back so that the stretch as a whole takes as long as it was planned to."""
    if not len(numbers) or s.step_noise <= 0:
        return np.zeros(len(numbers))
    gaps = np.diff(np.concatenate(([0.0], numbers, [float(total)])))
    walk = np.cumsum(rng.standard_normal(len(gaps)) * np.sqrt(np.maximum(gaps, 0.0)))
    bridge: Floats = walk[:-1] - numbers / total * walk[-1]
    return s.step_noise * s.step_s * bridge
