"""The review's headline numbers for people, each with its interval or parts and its query. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sql.review.week import hours, percent

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Number:
    """A headline: what it is, its value in words, its interval or parts, the value before, the query."""

    label: str
    value: str
    detail: str
    before: str
    query: str


def span(value: float | None) -> str:
    """Seconds for people."""
    if value is None:
        return "not known"
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s" if value < 7200 else f"{value / 3600:,.1f} h"


def amount(value: float | None) -> str:
    """A count or quantity for people."""
    return (
        "not known"
        if value is None
        else f"{value:,.0f}"
        if abs(value) >= 100 or value == int(value)
        else f"{value:.3g}"
    )


def between(ci: Sequence[float | None] | None, scale: float = 1.0, digits: int = 2) -> str:
    if not ci or ci[0] is None:
        return ""
    high = "no upper limit" if ci[1] is None else f"{scale * ci[1]:.{digits}f}"
    return f"95 %: {scale * ci[0]:.{digits}f} to {high}"


def numbers(doc: Json) -> list[Number]:
    """The headline numbers of a review."""
    past = doc["previous"]
    now = [_numbers(doc), _numbers(past) if past else []]
    return [
        Number(label, value, detail, now[1][i][1] if past else "", query)
        for i, (label, value, detail, query) in enumerate(now[0])
    ]


def _provisional(d: Json) -> str:
    held = d.get("provisional", {}).get("count", 0)
    return f"; left out: {held} whose answer is not final yet" if held else ""


def _other_rates(r: Json) -> str:
    """The rate with what is no fault of a host, as other publications count it."""
    if r["all_unexpected"] is None or r["with_planned"] is None:
        return ""
    return f"all unexpected {r['all_unexpected']:.2f}, with planned {r['with_planned']:.2f}"


def _undated(start: Json) -> str:
    """Attempts whose start-up is not known, because their first step lines carry no stamp."""
    held = start["without_dated_first_step"]
    return f"; {held} of {start['attempts']} attempts left out: no stamp on their first step" if held else ""


def _numbers(d: Json) -> list[tuple[str, str, str, str]]:
    m, r, e, c = d["mttf_hours"], d["node_failure_rate"], d["effective_training_time"], d["checkpoint_seconds"]
    start, lost, handled = d["startup_seconds"], d["lost_work"], d.get("handled_automatically", {})
    recovery = d["recovery_seconds"]
    return [
        (
            "Interruptions",
            amount(d["interruptions"]),
            f"{d['unexpected']} unexpected, {d['planned']} planned; beside: {d['scheduler_stops']} by the scheduler"
            f"{_provisional(d)}",
            "review_incidents",
        ),
        (
            "MTTF of the largest job",
            hours(m["value"]),
            "; ".join(
                x for x in (between(m["ci95"]), d["mttf_trend"]["verdict"] if d["mttf_trend"]["ci95"] else "") if x
            ),
            "review_attempts",
        ),
        ("Effective training time", percent(e["value"]), "steps that were kept / elapsed time", "review_attempts"),
        ("ETTR", percent(d["ettr"]["value"]), "steps kept and their checkpoints / elapsed time", "review_attempts"),
        (
            "Node failure rate",
            amount(r["value"]),
            "; ".join(x for x in (r["unit"], between(r["ci95"]), _other_rates(r)) if x),
            "review_attempts",
        ),
        (
            "Start-up",
            span(start["median"]),
            f"median of {start['n']}; p90 {span(start['p90'])}{_undated(start)}",
            "review_attempts",
        ),
        (
            "Checkpoint",
            span(c["mean"]),
            f"mean of {c['count']}; every {span(c['interval'])}; {percent(c['share'])} of the time",
            "review_checkpoint_marks",
        ),
        (
            "Recovery",
            span(recovery["median"]),
            f"median until the next useful step; p90 {span(recovery['p90'])}",
            "review_attempts",
        ),
        (
            "Lost work",
            hours(lost["hours"]),
            f"{amount(lost['gpu_hours'])} GPU-hours of steps done twice",
            "review_attempts",
        ),
        (
            "Lost GPU-hours",
            amount(d["lost_gpu_hours"]),
            "last checkpoint until the end, all interruptions",
            "review_incidents",
        ),
        (
            "Handled without a person",
            percent(handled.get("value")),
            f"{between(handled.get('ci95'), 100, 1)} %; reference 99.4 %" if handled.get("ci95") else "",
            "review_handled",
        ),
        (
            "Without a named cause",
            percent(d["unattributed"]["share"]),
            f"{d['unattributed']['count']} interruption{'' if d['unattributed']['count'] == 1 else 's'}",
            "review_incidents",
        ),
    ]
