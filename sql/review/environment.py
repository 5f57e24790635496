"""Temperature, clocks and power beside the day effect. Pure functions over hourly telemetry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sql.review.rows import Row


def environment(telemetry: Sequence[Row]) -> dict[str, Any]:
    """`telemetry`: mean of each metric by hour of the day; `power`: watts of a device, and what is not seen."""
    held: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in telemetry:
        held[row["metric"]][int(row["hour_at"][11:13])].append(row["mean"])
    metrics = {
        name: {
            "by_hour": {str(hour): sum(v) / len(v) for hour, v in sorted(hours.items())},
            "hours": sum(len(v) for v in hours.values()),
        }
        for name, hours in sorted(held.items())
    }
    power = [r for r in telemetry if r["metric"] == "gpu_power_w"]
    samples = sum(r["samples"] for r in power)
    return {
        "telemetry": metrics,
        "power": {
            "mean_w": sum(r["mean"] * r["samples"] for r in power) / samples if samples else None,
            "low_w": min((r["low"] for r in power), default=None),
            "high_w": max((r["high"] for r in power), default=None),
            "swings": None,
            "verdict": "hourly telemetry cannot show swings of seconds" if power else "no power telemetry",
        },
    }
