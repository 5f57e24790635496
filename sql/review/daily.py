"""Throughput through the day, from sampled progress: the day effect and what carries it. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sql.review import diurnal, training
from sql.review.checkpoints import Mark
from sql.review.mediators import hourly_means, mediators
from sql.review.rows import Row

Json = dict[str, Any]


def diurnal_of(
    progress: Sequence[Row],
    marks: dict[tuple[str, str], list[Mark]],
    main: training.Task | None,
    since: float | None,
    until: float | None,
    telemetry: Sequence[Row],
) -> Json:
    """`diurnal` of the review: the day effect, what may carry it, throughput by hour of the day."""
    keys = frozenset(a.run_key for a in main.attempts) if main else frozenset()
    samples = [
        diurnal.Sample(at, rate, group)
        for at, rate, group in training.throughput(progress, marks, keys)
        if (since is None or at >= since) and (until is None or at < until)
    ]
    found = diurnal.day_effect(samples)
    carriers = mediators(samples, hourly_means(telemetry), found.verdict == "detectable")
    return {
        "peak_to_trough": found.peak_to_trough,
        "ci95": list(found.ci95) if found.ci95 else None,
        "slowest_hour": found.slowest_hour,
        "verdict": found.verdict,
        "days": found.days,
        "samples": found.samples,
        "by_hour": _hour_means(samples),
        "mediators": [
            {
                "metric": m.metric,
                "unit": m.unit,
                "per_unit": m.per_unit,
                "per_unit_ci95": list(m.per_unit_ci95) if m.per_unit_ci95 else None,
                "swing": m.swing,
                "carried": m.carried,
                "carried_ci95": list(m.carried_ci95) if m.carried_ci95 else None,
                "own_variance": m.own,
                "hours": m.hours,
                "verdict": m.verdict,
            }
            for m in carriers
        ],
    }


def _hour_means(samples: Sequence[diurnal.Sample]) -> list[Json]:
    """Throughput by hour as a share of its mean."""
    if not samples:
        return []
    middle = sum(s.rate for s in samples) / len(samples)
    held: dict[int, list[float]] = defaultdict(list)
    for s in samples:
        held[int(s.at % 86400 // 3600)].append(s.rate / middle)
    return [{"hour": h, "relative": sum(v) / len(v), "n": len(v)} for h, v in sorted(held.items())]
