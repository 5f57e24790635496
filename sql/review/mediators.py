"""Does temperature or clock carry the day effect? A partial regression beside the cosinor. Pure functions.

log(throughput) = attempt effect + A cos(2 pi h/24) + B sin(2 pi h/24) + trend + c z, with z the mean of a metric over
the fleet in the hour of the sample. c is known only from what z does besides its daily cycle (weather, load, repairs):
where it does nothing else, its part cannot be told from the hour of the day, and the verdict says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sql.review.diurnal import MIN_DAYS, Sample, clipped, day_waves, sandwiches, within
from sql.review.rows import seconds

#: Metrics that may carry it: name, words for people, unit of a change.
METRICS: tuple[tuple[str, str, str, float], ...] = (
    ("gpu_temperature_c", "temperature", "°C", 1.0),
    ("gpu_sm_clock_mhz", "clock", "10 MHz", 10.0),
)
#: Hours in which training ran for less than this share of a full hour's samples are left out: an idle GPU is cool.
_FULL = 0.95
#: Weather lasts: what neighbouring hours share is looked at over two days.
_REACH_S = 2 * 86400.0
#: Share of a metric's variance that its daily cycle, the trend and the attempts must leave for its part to be told.
_OWN = 0.02


@dataclass(frozen=True, slots=True)
class Mediator:
    """per_unit: change of throughput (a share) by one `unit` of the metric at the same hour of the day.

    swing: peak to trough of the metric over the day, in its own unit. carried: share of the day effect that goes with
    it, with ci95 by per_unit's. own: share of the metric's variance that is not its daily cycle. hours: hours that
    hold both.
    """

    metric: str
    unit: str
    per_unit: float | None
    per_unit_ci95: tuple[float, float] | None
    swing: float | None
    carried: float | None
    carried_ci95: tuple[float, float] | None
    own: float | None
    hours: int
    verdict: str


def mediators(samples: Sequence[Sample], hourly: Mapping[str, Mapping[int, float]], seen: bool) -> list[Mediator]:
    """One for each of METRICS. hourly: metric -> hour since 1970 -> mean; seen: whether there is a day effect."""
    held = sorted((s for s in samples if s.rate > 0), key=lambda s: (s.at, s.group))
    counts = Counter(int(s.at // 3600) for s in held)
    ordered = sorted(counts.values())
    least = _FULL * ordered[int(0.9 * (len(ordered) - 1))] if ordered else 0.0
    full = {hour for hour, n in counts.items() if n >= least}
    return [_mediator(held, full, hourly.get(metric[0], {}), seen, metric) for metric in METRICS]


def _mediator(
    held: Sequence[Sample],
    full: set[int],
    hourly: Mapping[int, float],
    seen: bool,
    which_metric: tuple[str, str, str, float],
) -> Mediator:
    metric, name, unit, size = which_metric

    def blank(why: str, hours: int = 0, swing: float | None = None, own: float | None = None) -> Mediator:
        return Mediator(metric, unit, None, None, swing, None, None, own, hours, why)

    if not hourly:
        return blank(f"{name}: not known, no hourly {metric}")
    both = [s for s in held if (hour := int(s.at // 3600)) in full and hour in hourly]
    hours = len({int(s.at // 3600) for s in both})
    days = (both[-1].at - both[0].at) / 86400 if both else 0.0
    if days < MIN_DAYS - 0.25 or hours < 10 * MIN_DAYS:
        return blank(f"{name}: cannot be told with {hours} hours in {days:.0f} days", hours)
    import numpy as np
    from scipy.special import stdtrit

    at = np.array([s.at for s in both])
    groups = {g: i for i, g in enumerate(dict.fromkeys(s.group for s in both))}
    which = np.array([groups[s.group] for s in both])
    y = clipped(np.log(np.array([s.rate for s in both])), which, np)
    columns = np.column_stack([*day_waves(at, np), (at - at.mean()) / 86400, y, at])
    # Telemetry is known by the hour only: so is what it is compared with, or the steps between hours would speak too.
    (*base, y, at), which, hour = _by_hour(columns, which, (at // 3600).astype(int), np)
    z = np.array([hourly[h] for h in hour.tolist()])
    base = within(np.column_stack(base), which, np)
    y, z = within(y[:, None], which, np)[:, 0], within(z[:, None], which, np)[:, 0]
    inverse = np.linalg.pinv(base.T @ base)
    total, cycle = inverse @ (base.T @ y), inverse @ (base.T @ z)
    swing = 2 * float(np.hypot(*cycle[:2]))
    spread = float(z @ z)
    left = z - base @ cycle
    own = float(left @ left) / spread if spread > 0 else 0.0
    if own < _OWN:
        return blank(
            f"{name}: moves with the hour alone, so its part cannot be told from the hour's", hours, swing, own
        )
    x = np.column_stack([base, z])
    inverse = np.linalg.pinv(x.T @ x)
    beta = inverse @ (x.T @ y)
    error = max(float(np.sqrt(max(s[3, 3], 0.0))) for s in sandwiches(x, y - x @ beta, at, inverse, np, _REACH_S))
    # Few days make the errors themselves uncertain, and too small by what the fit took.
    t = float(stdtrit(max(days - 4, 1.0), 0.975)) * float(np.sqrt(days / max(days - 4, 1.0)))
    slope, ends = float(beta[3]), (float(beta[3]) - t * error, float(beta[3]) + t * error)
    middle, first, last = (100 * size * x for x in (slope, *ends))
    per = f"{middle:+.2g} % per {unit} (95 %: {first:+.2g} to {last:+.2g} %)"
    carried = ci = None
    if seen:
        along = float(cycle[:2] @ total[:2]) / float(total[:2] @ total[:2])
        carried, ci = slope * along, _ordered(ends[0] * along, ends[1] * along)
    known = ends[0] > 0 or ends[1] < 0
    if not known:
        verdict = f"{name}: no part seen, {per} at the same hour"
    elif carried is None or ci is None:
        verdict = f"{name}: {per} at the same hour; there is no day effect to carry"
    else:
        share = f"{100 * carried:.0f} % of the day effect ({100 * ci[0]:.0f} to {100 * ci[1]:.0f} %)"
        verdict = f"{name}: goes with {share}, {per}"
    scaled = (size * ends[0], size * ends[1])
    return Mediator(metric, unit, size * slope, scaled, swing, carried, ci, own, hours, verdict)


def _by_hour(columns: Any, which: Any, hour: Any, np: Any) -> tuple[Any, Any, Any]:  # noqa: ANN401
    """(means of the columns, attempt, hour) of each hour of each attempt, in order of time."""
    cells, place, counts = np.unique(np.column_stack([hour, which]), axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    means = [np.bincount(place, weights=c) / counts for c in columns.T]
    return means, cells[:, 1], cells[:, 0]


def _ordered(a: float, b: float) -> tuple[float, float]:
    return min(a, b), max(a, b)


def hourly_means(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, float]]:
    """metric -> hour since 1970 -> mean of all devices and clusters by their samples, of rows of `review_telemetry`."""
    sums: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        held = sums.setdefault(row["metric"], {}).setdefault(int((seconds(row["hour_at"]) or 0) // 3600), [0.0, 0.0])
        held[0] += row["mean"] * row["samples"]
        held[1] += row["samples"]
    return {m: {h: total / n for h, (total, n) in hours.items() if n} for m, hours in sums.items()}
