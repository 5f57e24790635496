"""Small figures that several parts of the review use. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sql.review import overheads
from sql.review.rows import Row

Json = dict[str, Any]


def rounded(value: Any, digits: int = 6) -> Any:  # noqa: ANN401
    """Floats of a document at so many significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    return [rounded(v, digits) for v in value] if isinstance(value, list | tuple) else value


def spread(values: Sequence[float]) -> Json:
    """Median, 90 % quantile and number of values."""
    return {"median": overheads.quantile(values, 0.5), "p90": overheads.quantile(values, 0.9), "n": len(values)}


def lost_gpu_hours(rows: Sequence[Row]) -> float | None:
    """GPU-hours that these incidents cost; None where none of them says."""
    known = [r["lost_gpu_seconds"] for r in rows if r["lost_gpu_seconds"] is not None]
    return sum(known) / 3600 if known else None


def monday(at: float) -> datetime:
    """Begin of the ISO week of a moment in seconds since 1970 UTC."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


def week_of(at: float) -> str:
    """The Monday of the ISO week of a moment, as a date."""
    return monday(at).date().isoformat()
