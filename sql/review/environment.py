"""Temperature and clocks by hour of the day. Pure functions over hourly telemetry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sql.review.rows import Row


def by_hour_of_day(telemetry: Sequence[Row]) -> dict[str, Any]:
    """Mean of each metric by hour of the day (UTC), and how many hours it rests on."""
    held: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in telemetry:
        held[row["metric"]][int(row["hour_at"][11:13])].append(row["mean"])
    return {
        name: {
            "by_hour": {str(hour): sum(v) / len(v) for hour, v in sorted(hours.items())},
            "hours": sum(len(v) for v in hours.values()),
        }
        for name, hours in sorted(held.items())
    }
