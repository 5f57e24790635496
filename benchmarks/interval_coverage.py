"""How often the review's 95 % intervals hold what was planted, and how often it sees what is not there.

    python -m benchmarks.interval_coverage [--seeds 60] [--days 14 30 54]

Jobs are made as rows of the saved queries (attempts, sampled progress), so that all of the review's own path is in it:
joining attempts, leaving out intervals with a checkpoint, the fit. Each kind of job has its own noise; the planted day
effect is 1.5 % peak to trough. Prints one line a kind of job: how often the interval held the truth, and how often an
effect was called detectable.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, exp, expm1, log1p, pi, sin
from typing import Any

import numpy as np

from sql.review import reliability, training
from sql.review.checkpoints import Mark
from sql.review.daily import diurnal_of
from sql.types import iso

T0 = 1_740_960_000.0  # 2025-03-03
EVERY = 100.0  # seconds between two progress lines of 20 steps
CELL = 64


@dataclass(frozen=True, slots=True)
class Kind:
    """Noise of a job. Shares of throughput; hours where the name says so."""

    name: str
    effect: float = 0.015
    step: float = 0.004  # of a single step
    level: float = 0.003  # between attempts
    drift: float = 0.002  # autocorrelated
    drift_hours: float = 1.0
    shape: float = 0.0  # of the day's wave from day to day
    attempt_hours: float = 3.0
    stamp_us: int = 1000  # rounding of stamps
    save_s: float = 900.0


KINDS = (
    Kind("usual"),
    Kind("no noise", step=0.0, level=0.0, drift=0.0),
    Kind("stamps of whole seconds", stamp_us=1_000_000),
    Kind("a checkpoint an hour", save_s=3600.0),
    Kind("drift over 6 h", drift=0.004, drift_hours=6.0),
    Kind("drift over a day", drift=0.004, drift_hours=24.0),
    Kind("days of different shape", shape=0.003),
    Kind("attempts of a day", attempt_hours=24.0),
    Kind("one attempt, drift", attempt_hours=1e6, drift=0.004, drift_hours=6.0),
    Kind("attempts of other levels", attempt_hours=12.0, level=0.01),
    Kind("small effect 0.3 %", effect=0.003),
    Kind("no effect", effect=0.0),
    Kind("no effect, drift", effect=0.0, drift=0.004, drift_hours=6.0),
)


#: Rows of review_attempts and of review_throughput, and marks of checkpoints.
Job = tuple[list[dict[str, Any]], list[dict[str, Any]], dict[tuple[str, str], list[Mark]]]


def job(seed: int, days: float, kind: Kind) -> Job:
    """One simulated job: its steps take longer where it is slower, its stamps are printed when they are done."""
    rng = np.random.default_rng(seed)
    lines = int(days * 86400 / EVERY * 1.1) + 10
    noise = iter((kind.step / np.sqrt(20) * rng.standard_normal(lines)).tolist())
    phi = float(np.exp(-EVERY / (kind.drift_hours * 3600)))
    pushes = iter((kind.drift * np.sqrt(1 - phi**2) * rng.standard_normal(lines)).tolist())
    shapes = rng.normal(0, kind.shape, (int(days) + 3, 2)).tolist()
    attempts: list[dict[str, Any]] = []
    progress: list[dict[str, Any]] = []
    marks: dict[tuple[str, str], list[Mark]] = {}
    at, drift = 0.0, kind.drift * float(rng.standard_normal())
    while at < days * 86400:
        key, begin = f"r{len(attempts)}", at
        end = min(days * 86400, begin + rng.exponential(kind.attempt_hours * 3600))
        level = kind.level * float(rng.standard_normal())
        at, stamps, saved = begin + 300.0, [], []
        save_at = at + kind.save_s
        while at < end:
            stamps.append(at)
            if at >= save_at:
                saved.append(len(stamps))
                at, save_at = at + 6.0, at + kind.save_s
            turn = 2 * pi * (at % 86400) / 86400
            shape = shapes[int(at // 86400)]
            drift = phi * drift + next(pushes)
            wave = -kind.effect / 2 * cos(turn - 2 * pi * 14 / 24) + shape[0] * cos(turn) + shape[1] * sin(turn)
            at += EVERY * exp(-(wave + level + drift + next(noise)))
        attempts.append(_attempt(key, begin, end, len(stamps)))
        progress += _progress(key, stamps, kind)
        marks[("c", key)] = [Mark("saved", T0 + stamps[n - 1], True, n * 100 - 50, None, 6.0) for n in saved]
        at = end + 60.0
    return attempts, progress, marks


def _iso(at: float) -> str:
    return iso(round((T0 + at) * 1e6))


def _attempt(key: str, begin: float, end: float, lines: int) -> dict[str, Any]:
    return {
        "cluster": "c", "run_key": key, "job_id": key, "attempt": 0, "name": "pretrain", "user_name": "", "account": "",
        "started_at": _iso(begin), "ended_at": _iso(end), "log_started_at": None, "n_hosts": 128, "n_gpus": 1024,
        "state": "FAILED", "success": 0, "first_step": 0, "last_step": 20 * lines, "last_progress_at": _iso(end),
        "step_s": EVERY / 20, "extra": "[]", "more": "{}", "counts_as": "unexpected", "onset_at": _iso(end),
    }  # fmt: skip


def _progress(key: str, stamps: list[float], kind: Kind) -> Iterator[dict[str, Any]]:
    """Rows of 64 lines of log each."""
    for first in range(0, len(stamps), CELL):
        us = [round((T0 + t) * 1e6 / kind.stamp_us) * kind.stamp_us for t in stamps[first : first + CELL]]
        points = [[(first + i) * 100, 20 * (first + i), at] for i, at in enumerate(us)]
        yield {
            "cluster": "c", "source_id": key, "run_key": key, "cell": first // CELL, "first_at": iso(us[0]),
            "first_us": us[0], "first_borrowed": 0, "points": json.dumps(points),
        }  # fmt: skip


def day_effect(seed: int, days: float, kind: Kind) -> dict[str, Any]:
    """`diurnal` of the review for one job."""
    attempts, progress, marks = job(seed, days, kind)
    main = training.tasks(attempts, {}, None, None)[0]
    return diurnal_of(progress, marks, main, None, None, [])


def failures(
    seed: int, days: float, mttf_hours: float, per_week: float
) -> tuple[dict[str, Any], dict[str, Any], float]:
    """(`mttf_hours` and `mttf_trend` of the review, mean MTTF as planned) of a job whose MTTF changes by `per_week`."""
    rng = np.random.default_rng(seed)
    attempts: list[dict[str, Any]] = []
    stopped: list[dict[str, Any]] = []
    at = taken = 0.0
    while at < days * 86400:
        # The time to the next failure, in units of the mean one, comes sooner where the mean is shorter.
        taken += float(rng.exponential())
        end = min(days * 86400, _when(taken, mttf_hours, per_week))
        attempts.append(_attempt(f"r{len(attempts)}", at, max(end - 60, at + 1), 1))
        if end < days * 86400:
            stopped.append({"counts_as": "unexpected", "interrupted_at": _iso(max(end - 60, at + 1))})
        at = end
    main = training.tasks(attempts, {}, None, None)[0]
    truth = days * 24 / _expected(days * 86400, mttf_hours, per_week)
    return reliability.mttf(main, len(stopped), len(stopped)), reliability.trend(main, stopped), truth


def _expected(at: float, mttf_hours: float, per_week: float) -> float:
    """Expected failures up to a moment: the integral of a rate that changes by a factor each week."""
    slope = -log1p(per_week) / 604_800
    return (expm1(slope * at) / slope if slope else at) / (mttf_hours * 3600)


def _when(taken: float, mttf_hours: float, per_week: float) -> float:
    """The moment at which so many failures are expected; it may never come."""
    slope = -log1p(per_week) / 604_800
    units = taken * mttf_hours * 3600
    return units if not slope else log1p(units * slope) / slope if units * slope > -1 else float("inf")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--days", type=float, nargs="+", default=[14, 30, 54])
    args = parser.parse_args()
    print("day effect: days  kind                      held     seen   mean width")
    held = of = 0
    for days in args.days:
        for k, kind in enumerate(KINDS):
            first = 100_000 * k + 1_000 * int(days)  # other noise for each line
            found = [day_effect(first + seed, days, kind) for seed in range(args.seeds)]
            hits = sum(f["ci95"][0] <= kind.effect <= f["ci95"][1] for f in found)
            seen = sum(f["verdict"] == "detectable" for f in found)
            width = sum(f["ci95"][1] - f["ci95"][0] for f in found) / len(found)
            held, of = held + hits, of + len(found)
            share, known = 100 * hits / len(found), 100 * seen / len(found)
            print(f"{days:16.0f}  {kind.name:25s} {share:5.1f} %  {known:5.1f} %  {100 * width:.4f} %", flush=True)
    print(f"all: {100 * held / of:.1f} % of {of}")
    print("MTTF: days  mean h  change a week      MTTF held  trend held  trend seen")
    for days, hours, change in ((7, 3.0, 0.0), (54, 3.0, 0.0), (54, 30.0, 0.0), (54, 3.0, -0.1), (54, 20.0, 0.2)):
        made = [failures(seed, days, hours, change) for seed in range(10 * args.seeds)]
        first = sum(m["ci95"][0] <= truth <= (m["ci95"][1] or truth) for m, _, truth in made)
        told = [t for _, t, _ in made if t["ci95"]]
        second = sum(t["ci95"][0] <= change <= t["ci95"][1] for t in told)
        third = sum(t["verdict"].startswith("MTTF") for t in told)
        part = [f"{100 * x / len(told):6.1f} %" if told else "     - " for x in (second, third)]
        start = f"{days:10.0f}  {hours:6.0f}  {100 * change:+10.0f} %"
        print(f"{start}      {100 * first / len(made):6.1f} %    {part[0]}    {part[1]}")


if __name__ == "__main__":
    main()
