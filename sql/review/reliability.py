"""How often the largest job fails: MTTF, its trend and weeks, failures per node-day. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sql.review import rates, training
from sql.review.figures import monday, week_of
from sql.review.rows import Row, seconds
from sql.review.trend import WEEK_S, mttf_trend

Json = dict[str, Any]

#: Classes that count as failures of hardware or host in the node failure rate (356 of 419 in Table 5).
_HOST_DOMAINS = ("hardware",)
_HOST_CLASSES = ("maintenance.unplanned", "host.os")


def mttf(main: training.Task | None, unexpected: int, every: int) -> Json:
    hours_ = main.elapsed_s / 3600 if main else 0.0
    m = rates.mttf(hours_, unexpected)
    ci = None if m.low is None else [m.low, m.high]
    return {
        "value": m.value,
        "ci95": ci,
        "any_kind": rates.mttf(hours_, every).value,
        "job_hours": hours_ or None,
        "unexpected": unexpected,
        "task": main.key[3] if main else None,
    }


def node_rate(main: training.Task | None, stopped: Sequence[Row]) -> Json:
    days, hosts = (main.elapsed_s / 86400, main.hosts or 0) if main else (0.0, 0)
    hard = sum(
        r["counts_as"] == "unexpected" and (r["domain"] in _HOST_DOMAINS or r["component"] in _HOST_CLASSES)
        for r in stopped
    )
    unexpected = sum(r["counts_as"] == "unexpected" for r in stopped)
    every = sum(r["counts_as"] in ("unexpected", "planned") for r in stopped)
    value = rates.node_failure_rate(hard, hosts, days)
    ci = None
    if value is not None:
        ci = [rates.node_failure_rate(1, hosts, days) * x for x in rates.poisson_interval(hard)]  # type: ignore[operator]
    return {
        "value": value,
        "ci95": ci,
        "unit": "per 1,000 node-days",
        "failures": hard,
        "all_unexpected": rates.node_failure_rate(unexpected, hosts, days),
        "with_planned": rates.node_failure_rate(every, hosts, days),
        "node_days": hosts * days or None,
    }


def trend(main: training.Task | None, stopped: Sequence[Row]) -> Json:
    """Change of MTTF over the period with its verdict, and MTTF week by week. stopped: interruptions of the task."""
    times = [at for r in stopped if r["counts_as"] == "unexpected" and (at := seconds(r["interrupted_at"])) is not None]
    found = mttf_trend([main.clock(at) for at in times] if main else [], main.elapsed_s if main else 0.0)
    failures = Counter(week_of(at) for at in times)
    weeks = []
    for week, spent in _hours_by_week(main.spans if main else []).items():
        m = rates.mttf(spent, failures[week])
        weeks.append(
            {
                "week": week,
                "job_hours": spent,
                "unexpected": failures[week],
                "mttf_hours": m.value,
                "ci95": None if m.low is None else [m.low, m.high],
            }
        )
    return {
        "change_per_week": found.change_per_week,
        "ci95": list(found.ci95) if found.ci95 else None,
        "smallest_seen": found.smallest,
        "verdict": found.verdict,
        "by_week": weeks,
    }


def _hours_by_week(spans: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Hours of these spans in each ISO week."""
    out: dict[str, float] = {}
    for begin, end in spans:
        at = begin
        while at < end:
            upto = min(end, monday(at).timestamp() + WEEK_S)
            out[week_of(at)] = out.get(week_of(at), 0.0) + (upto - at) / 3600
            at = upto
    return dict(sorted(out.items()))
