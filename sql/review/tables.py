"""The review's document as headline numbers and tables, for Markdown and HTML alike. Pure functions.

Every number and table names the saved query that made it.
"""

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


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Cells are text, numbers or None; `note` stands below."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    query: str
    note: str = ""


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


def _between(ci: Sequence[float | None] | None, scale: float = 1.0, digits: int = 2) -> str:
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


def _numbers(d: Json) -> list[tuple[str, str, str, str]]:
    m, r, e, c = d["mttf_hours"], d["node_failure_rate"], d["effective_training_time"], d["checkpoint_seconds"]
    start, lost, handled = d["startup_seconds"], d["lost_work"], d.get("handled_automatically", {})
    recovery = d["recovery_seconds"]
    return [
        (
            "Interruptions",
            amount(d["interruptions"]),
            f"{d['unexpected']} unexpected, {d['planned']} planned; beside: {d['scheduler_stops']} by the scheduler",
            "review_incidents",
        ),
        ("MTTF of the largest job", hours(m["value"]), _between(m["ci95"]), "review_attempts"),
        ("Effective training time", percent(e["value"]), "steps that were kept / elapsed time", "review_attempts"),
        ("ETTR", percent(d["ettr"]["value"]), "steps kept and their checkpoints / elapsed time", "review_attempts"),
        (
            "Node failure rate",
            amount(r["value"]),
            " ".join(x for x in (r["unit"] + ";" if r["ci95"] else r["unit"], _between(r["ci95"])) if x),
            "review_attempts",
        ),
        ("Start-up", span(start["median"]), f"median of {start['n']}; p90 {span(start['p90'])}", "review_attempts"),
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
            f"{_between(handled.get('ci95'), 100, 1)} %; reference 99.4 %" if handled.get("ci95") else "",
            "review_handled",
        ),
        (
            "Without a named cause",
            percent(d["unattributed"]["share"]),
            f"{d['unattributed']['count']} interruptions",
            "review_incidents",
        ),
    ]


def tables(doc: Json) -> list[Table]:
    """All tables of a review, in reading order; empty ones say so by having no rows."""
    best = doc["checkpoint_seconds"].get("best_interval") or {}
    before = {c["component"]: c["count"] for c in doc["previous"]["by_component"]} if doc["previous"] else None
    return [
        Table(
            "components",
            "Unexpected interruptions by component",
            ("component", "row of Table 5", "count", "%", "before", "faults", "lost GPU-h"),
            tuple(
                (
                    c["component"],
                    c["llama3_row"],
                    c["count"],
                    c["percent"],
                    None if before is None else before.get(c["component"], 0),
                    c["faults"],
                    c["lost_gpu_hours"],
                )
                for c in doc["by_component"]
            ),
            "review_incidents",
            "Percentages are computed from the counts. Faults count once, however many jobs they stopped.",
        ),
        Table(
            "weeks",
            "By week",
            ("week", "unexpected", "planned", "by the scheduler", "start-up s", "checkpoint s", "lost h"),
            _weeks(doc),
            "review_attempts",
        ),
        Table(
            "hosts",
            "Hosts to look at",
            ("host", "kind", "score", "faults", "component", "repeats", "GPU", "lost GPU-h", "why"),
            tuple(
                (
                    h["host"],
                    h["kind"],
                    h["score"],
                    h["faults"],
                    h["component"],
                    h["repeats"],
                    h["gpu"],
                    h["lost_gpu_hours"],
                    h["why"],
                )
                for h in doc["hosts"]
            ),
            "review_incidents",
            "The 28 days before the end of the period. Thresholds come from this fleet's own distribution.",
        ),
        Table(
            "label",
            "Incidents most worth a label",
            ("incident", "job", "when", "component", "confidence", "lost GPU-h", "summary"),
            tuple(
                (
                    x["incident_id"],
                    x["job_id"],
                    (x["interrupted_at"] or "")[:19],
                    x["component"],
                    x["confidence"],
                    x["lost_gpu_hours"],
                    x["summary"],
                )
                for x in doc["to_label"]
            ),
            "review_to_label",
            "Lost GPU-hours times (1 - confidence). faultbeam label INCIDENT --component ID",
        ),
        Table(
            "projection",
            "Projection by size",
            (
                "GPUs",
                "MTTF h",
                "from",
                "to",
                "best interval s",
                "E[ETTR] %",
                "half the start-up",
                "half the checkpoint",
                "spare hosts",
                "holds",
            ),
            tuple(
                (
                    p["gpus"],
                    p["mttf_hours"],
                    p["ci95"][0],
                    p["ci95"][1],
                    p["best_checkpoint_interval_s"],
                    *(
                        None if p[k] is None else 100 * p[k]
                        for k in ("expected_ettr", "with_half_startup", "with_half_checkpoint")
                    ),
                    p["spare_hosts"],
                    p["holds"],
                )
                for p in doc["projection"]
            ),
            "review_attempts",
            doc["projection_holds"],
        ),
        Table(
            "checkpoints",
            "Checkpoint interval",
            ("interval", "seconds", "cost %"),
            (
                ("in use", doc["checkpoint_seconds"]["interval"], _percent(best.get("cost_in_use"))),
                ("best by Daly", best.get("daly"), _percent(best.get("cost_at_best"))),
                ("best by Young", best.get("young"), None),
            ),
            "review_checkpoint_marks",
            "Cost: share of the time for writing, and for redoing what was lost, to first order.",
        ),
        Table("quality", "Attribution quality", ("what", "value"), _quality(doc), "review_false_alarms"),
    ]


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _weeks(doc: Json) -> tuple[tuple[Any, ...], ...]:
    counts = {w["week"]: w for w in doc["by_week"]}
    times = {w["week"]: w for w in doc["startup_by_week"]}
    out = []
    for week in sorted({*counts, *times}):
        c, t = counts.get(week, {}), times.get(week, {})
        out.append(
            (
                week,
                c.get("unexpected", 0),
                c.get("planned", 0),
                c.get("scheduler_stops", 0),
                t.get("startup_median"),
                t.get("checkpoint_mean"),
                t.get("lost_hours"),
            )
        )
    return tuple(out)


def _quality(doc: Json) -> tuple[tuple[Any, ...], ...]:
    q, coverage, alarms = doc["quality"], doc["coverage"], doc["quality"]["false_alarms"]
    rows: list[tuple[Any, ...]] = [
        ("labels in the period", q["labels_added"]),
        *((f"agreed with labels of {a['component']}", f"{a['agreed']} of {a['labels']}") for a in q["agreement"]),
        (
            "successful runs with a critical signal",
            f"{alarms['with_critical_signal']} of {alarms['successful_runs']} "
            f"({percent(alarms['share'])}; keep under 1 %)",
        ),
        ("hosts whose kernel log arrived", f"{percent(coverage['value'])} of {coverage['hosts']}"),
        (
            "interruptions without a named cause",
            f"{doc['unattributed']['count']} ({percent(doc['unattributed']['share'])})",
        ),
    ]
    if q["always_the_commonest"]:
        floor = q["always_the_commonest"]
        rows.append(
            ("floor: always the commonest class", f"accuracy {floor['accuracy']:.3f}, macro-F1 {floor['macro_f1']:.3f}")
        )
    for v in q["versions"]:
        rows.append(
            (
                f"answers by {v['decided_by']}",
                f"{v['answers']} (rules {v['rules_version']}, model {v['model_version'] or 'none'})",
            )
        )
    return tuple(rows)


def verdicts(doc: Json) -> list[tuple[str, str, str]]:
    """(subject, verdict in words, query): environment."""
    d = doc["diurnal"]
    size = ""
    if d["peak_to_trough"] is not None and d["ci95"] and d["verdict"] == "detectable":
        height = f"{100 * d['peak_to_trough']:.2f} % peak to trough ({_between(d['ci95'], 100, 3)} %)"
        size = f": {height}, slowest at {d['slowest_hour']:.1f} h UTC"
    return [
        ("Throughput through the day", f"{d['verdict']}{size}", "review_throughput"),
        ("Failures by hour", doc["by_hour"]["verdict"], "review_incidents"),
        ("Power", doc["power"]["verdict"], "review_telemetry"),
    ]


def cell(value: Any) -> str:  # noqa: ANN401
    """A cell as people read it; None is a dash, which says: not known."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return (
        f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000 else str(value)
    )
