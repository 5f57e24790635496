"""The review's document as tables and verdicts, for Markdown and HTML alike. Pure functions.

Every table names the saved query that made it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sql.review.numbers import between
from sql.review.week import percent

Json = dict[str, Any]

_JOB = re.compile(r"^Job \S+ (?:was interrupted )?")


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Cells are text, numbers or None; `note` stands below."""

    id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    query: str
    note: str = ""
    #: Digits behind the point by column, where not every number stands for itself.
    digits: Mapping[str, int] = field(default_factory=dict)

    @property
    def numeric(self) -> frozenset[int]:
        """Columns that hold numbers, whatever the first row does."""
        return frozenset(
            i
            for i in range(len(self.columns))
            if any(isinstance(row[i], int | float) for row in self.rows)
            and not any(isinstance(row[i], str) for row in self.rows)
        )


def tables(doc: Json) -> list[Table]:
    """All tables of a review, in reading order; empty ones say so by having no rows."""
    best = doc["checkpoint_seconds"].get("best_interval") or {}
    before = {c["component"]: c["count"] for c in doc["previous"]["by_component"]} if doc["previous"] else None
    return [
        *_provisional(doc),
        Table("quality", "Attribution quality", ("what", "value"), _quality(doc), "review_false_alarms"),
        Table(
            "label",
            "Incidents most worth a label",
            ("incident", "job", "when", "component", "confidence", "lost GPU-h", "why"),
            tuple(
                (
                    x["incident_id"],
                    x["job_id"],
                    _minute(x["interrupted_at"]),
                    x["component"],
                    x["confidence"],
                    x["lost_gpu_hours"],
                    _why(x["summary"]),
                )
                for x in doc["to_label"]
            ),
            "review_to_label",
            "Lost GPU-hours times (1 - confidence), dearest first. faultbeam label INCIDENT --component ID",
            {"confidence": 2, "lost GPU-h": 0},
        ),
        Table(
            "components",
            "Unexpected interruptions by component",
            (
                "component",
                "row of Table 5",
                "count",
                "%",
                *(("before",) if before is not None else ()),
                "faults",
                "lost GPU-h",
            ),
            tuple(
                (
                    c["component"],
                    c["llama3_row"],
                    c["count"],
                    c["percent"],
                    *(() if before is None else (before.get(c["component"], 0),)),
                    c["faults"],
                    c["lost_gpu_hours"],
                )
                for c in doc["by_component"]
            ),
            "review_incidents",
            "Percentages are computed from the counts. Faults count once, however many jobs they stopped.",
            {"%": 1, "lost GPU-h": 0},
        ),
        Table(
            "weeks",
            "By week",
            (
                "week",
                "unexpected",
                "planned",
                "by the scheduler",
                "MTTF h",
                "from",
                "to",
                "start-up s",
                "checkpoint s",
                "lost h",
            ),
            _weeks(doc),
            "review_attempts",
            f"MTTF of the largest job with its 95 % interval: {doc['mttf_trend']['verdict']}.",
            {"MTTF h": 2, "from": 2, "to": 2, "start-up s": 0, "checkpoint s": 1, "lost h": 1},
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
            {"lost GPU-h": 0},
        ),
        *_swings(doc),
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
                "E from",
                "E to",
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
                    _percent(p["expected_ettr"]),
                    *map(_percent, p["expected_ettr_ci95"]),
                    _percent(p["with_half_startup"]),
                    _percent(p["with_half_checkpoint"]),
                    p["spare_hosts"],
                    p["holds"],
                )
                for p in doc["projection"]
            ),
            "review_attempts",
            doc["projection_holds"],
            {
                "MTTF h": 2,
                "from": 2,
                "to": 2,
                "best interval s": 0,
                **dict.fromkeys(("E[ETTR] %", "E from", "E to", "half the start-up", "half the checkpoint"), 1),
            },
        ),
        Table(
            "startup",
            "Start-up by part",
            ("part", "median s", "attempts"),
            tuple(
                (part, doc["startup_seconds"][key], doc["startup_seconds"][count])
                for part, key, count in (
                    ("queue: end of the attempt before until the start", "queue_median", "queue_n"),
                    ("init: start until the checkpoint is loaded", "init_median", "init_n"),
                    ("load and first step: from there to the first step", "load_and_first_step_median", "load_n"),
                    ("start-up: start until the first step began", "median", "n"),
                )
            ),
            "review_attempts",
            "Parts are known only where the log prints them with stamps; they need not be the same attempts.",
            {"median s": 1},
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
            {"seconds": 0, "cost %": 2},
        ),
    ]


def _provisional(doc: Json) -> list[Table]:
    held = doc["provisional"]["incidents"]
    if not held:
        return []
    rows = tuple(
        (
            x["incident_id"],
            x["job_id"],
            _minute(x["interrupted_at"]),
            x["component"],
            x["confidence"],
            _why(x["summary"]),
        )
        for x in held
    )
    return [
        Table(
            "provisional",
            "Not final yet",
            ("incident", "job", "when", "component so far", "confidence", "why"),
            rows,
            "review_incidents",
            "Their logs may still be coming. They are in none of the figures.",
            {"confidence": 2},
        )
    ]


def _swings(doc: Json) -> list[Table]:
    if not doc["power"]["swings"]:
        return []
    rows = tuple(
        (
            x["at"][:19].replace("T", " "),
            x["watts_per_gpu"],
            x["seconds"],
            x["gpus_seen"],
            x["hosts"],
            x["job_mw"],
            x["job_mw_per_s"],
            x["tied_to"] or None,
        )
        for x in doc["power"]["swings"]
    )
    return [
        Table(
            "swings",
            "Largest swings of power",
            ("when", "W a GPU", "over s", "GPUs seen", "hosts", "MW of the job", "MW/s", "at a"),
            rows,
            "review_power",
            "MW: if all GPUs of the largest job do what the seen ones did.",
            {"W a GPU": 0, "over s": 1, "MW of the job": 2, "MW/s": 2},
        )
    ]


def _minute(at: str | None) -> str | None:
    return at[:16].replace("T", " ") if at else None


def _why(summary: str) -> str:
    """A summary without its beginning, which repeats the job's number."""
    return _JOB.sub("", summary, count=1)


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _weeks(doc: Json) -> tuple[tuple[Any, ...], ...]:
    counts = {w["week"]: w for w in doc["by_week"]}
    times = {w["week"]: w for w in doc["startup_by_week"]}
    means = {w["week"]: w for w in doc["mttf_trend"]["by_week"]}
    out = []
    for week in sorted({*counts, *times, *means}):
        c, t, m = counts.get(week, {}), times.get(week, {}), means.get(week, {})
        low, high = m.get("ci95") or (None, None)
        out.append(
            (
                week,
                c.get("unexpected", 0),
                c.get("planned", 0),
                c.get("scheduler_stops", 0),
                m.get("mttf_hours"),
                low,
                high,
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
        *(
            (
                f"of them without {x['what']}",
                f"{x['interruptions']}" + (f" ({x['hosts']} hosts: {', '.join(x['most'])})" if x["hosts"] else ""),
            )
            for x in doc["unattributed"]["not_seen"]
        ),
        ("seconds until detected", _delay(doc["detection_seconds"])),
        ("seconds until the answer was written", _delay(doc["diagnosis_seconds"])),
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


def _delay(d: Json) -> str:
    """Median and p90 of a delay, and how many are left out because archives tell nothing of it."""
    left = f"; {d['from_archives']} read from archives left out" if d["from_archives"] else ""
    if not d["n"]:
        return f"not known{left}"
    return f"median {d['median']:.0f}, p90 {d['p90']:.0f} of {d['n']}{left}"


def verdicts(doc: Json) -> list[tuple[str, str, str]]:
    """(subject, verdict in words, query): environment."""
    d = doc["diurnal"]
    size = ""
    if d["peak_to_trough"] is not None and d["ci95"] and d["verdict"] == "detectable":
        height = f"{100 * d['peak_to_trough']:.2f} % peak to trough ({between(d['ci95'], 100, 3)} %)"
        size = f": {height}, slowest at {d['slowest_hour']:.1f} h UTC"
    return [
        ("MTTF", doc["mttf_trend"]["verdict"], "review_attempts"),
        ("Throughput through the day", f"{d['verdict']}{size}", "review_throughput"),
        *(("What may carry it", m["verdict"], "review_telemetry") for m in d["mediators"]),
        ("Failures by hour", doc["by_hour"]["verdict"], "review_incidents"),
        ("Power", doc["power"]["verdict"], "review_power"),
    ]


def cell(value: Any, digits: int | None = None) -> str:  # noqa: ANN401
    """A cell as people read it, a number with so many digits behind the point; None is a dash: not known."""
    if value is None:
        return "–"
    if digits is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,.{digits}f}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return (
        f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000 else str(value)
    )
