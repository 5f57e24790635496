"""Samples of temperature, power and clocks, folded by hour as a format reads them, and as rows of `telemetry_hourly`.

Pure. The fold keys an hour by the frame of its stamps; only `rows` turns it into UTC, with the clocks of all sources.
A sample without a stamp cannot be placed and is left out, and so is one that is no number (`N/A`, `[Not Supported]`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from pipeline.records import power
from schemas.facts import CELL, Stamp, TelemetryFact

HOUR_US = 3_600_000_000
_NUMBER = re.compile(r"\s*(-?\d{1,12}(?:\.\d{1,6})?)(?![\d:/x])")
#: Readings outside these are faults of the sensor, not samples: (lowest, highest) by the unit that ends the name.
_PLAUSIBLE = {"c": (-60.0, 250.0), "w": (0.0, 20_000.0), "mhz": (0.0, 20_000.0), "pct": (0.0, 100.0)}


class ClockLike(Protocol):
    """What is used of a `pipeline.placing.clock.Clock`."""

    @property
    def host(self) -> str: ...

    def utc(self, stamp: Stamp) -> tuple[int | None, float]: ...


def number(text: str) -> float | None:
    """The number that a printed value begins with (`62 C`, `652.10 W`, `[N/A]`); None where there is none."""
    m = _NUMBER.match(text)
    return float(m[1]) if m else None


class TelemetryFold:
    """Samples of one source, folded by host, device, metric, hour and cell."""

    def __init__(self, source_id: str) -> None:
        self._source_id = source_id
        self._hours: dict[tuple[str, str, str, str, int], dict[int, list[float]]] = {}
        self._changes = power.ChangeFold()

    def add(self, stamp: Stamp, offset: int, host: str, device: str, metric: str, value: float | None) -> None:
        """One sample. offset: bytes from the member's begin."""
        if value is None or stamp.kind in ("none", "mono", "time") or not math.isfinite(value):
            return
        low, high = _PLAUSIBLE.get(metric.rpartition("_")[2], (-math.inf, math.inf))
        if not low <= value <= high:
            return
        if metric == power.METRIC:
            self._changes.add(stamp, offset, host, device, value)
        key = (host, device, metric, stamp.kind, stamp.us // HOUR_US * HOUR_US)
        cells = self._hours.get(key)
        if cells is None:
            cells = self._hours[key] = {}
        cell = cells.get(offset // CELL)
        if cell is None:
            cells[offset // CELL] = [1, value, value, value]
            return
        cell[0] += 1
        cell[1] += value
        if value < cell[2]:
            cell[2] = value
        if value > cell[3]:
            cell[3] = value

    def facts(self) -> tuple[TelemetryFact, ...]:
        changes = self._changes.cells()
        return tuple(
            TelemetryFact(
                self._source_id, host, device, metric, Stamp(kind, us),
                tuple((cell, int(v[0]), v[1], v[2], v[3]) for cell, v in sorted(cells.items())),
                changes.get((host, device, kind, us), ()) if metric == power.METRIC else (),
            )
            for (host, device, metric, kind, us), cells in sorted(self._hours.items())
        )  # fmt: skip


def rows(facts: Iterable[TelemetryFact], clocks: Mapping[str, ClockLike]) -> Iterator[dict[str, Any]]:
    """Rows of `telemetry_hourly` without the cluster. Hours that nothing ties to UTC are left out.

    In a zone whose offset is no whole hour, an hour of the local clock counts to the UTC hour in which it begins.
    """
    held: dict[tuple[str, str, str, int, str], list[float]] = {}
    for fact in facts:
        clock = clocks.get(fact.source_id)
        utc = clock.utc(fact.hour)[0] if clock is not None else None
        if clock is None or utc is None:
            continue
        n, total, low, high = fact.totals
        key = (fact.host or clock.host, fact.device, fact.metric, utc // HOUR_US * HOUR_US, fact.source_id)
        had = held.get(key)
        # two stamps' frames of one source may meet in one hour of UTC
        held[key] = (
            [float(n), total, low, high] if had is None
            else [had[0] + n, had[1] + total, min(had[2], low), max(had[3], high)]
        )  # fmt: skip
    for (host, device, metric, hour, source_id), (count, total, low, high) in sorted(held.items()):
        yield {
            "host": host, "device": device, "metric": metric, "hour_at": hour, "source_id": source_id,
            "n": int(count), "total": total, "low": low, "high": high,
        }  # fmt: skip
