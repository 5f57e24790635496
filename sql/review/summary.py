"""All metrics of one period, as the JSON of the review holds them. Pure functions over `rows.Rows`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sql.review import hours, overheads, rates, reliability, training
from sql.review.checkpoints import marks_by_source
from sql.review.daily import diurnal_of
from sql.review.environment import by_hour_of_day
from sql.review.figures import lost_gpu_hours, spread, week_of
from sql.review.offenders import offenders
from sql.review.power import power
from sql.review.projection import projection
from sql.review.quality import quality
from sql.review.rows import Row, Rows, seconds

Json = dict[str, Any]


def summarise(rows: Rows) -> Json:
    """Everything the review says of one period, save the comparison with another one."""
    since = None if rows.since_us is None else rows.since_us / 1e6
    until = None if rows.until_us is None else rows.until_us / 1e6
    marks = marks_by_source(rows["review_checkpoint_marks"])
    tasks = training.tasks(rows["review_attempts"], marks, since, until, training.dated(rows["review_throughput"]))
    main = tasks[0] if tasks else None
    # A stream's first answers may still change: they are told beside the figures, not in them.
    incidents = [r for r in rows["review_incidents"] if not r["provisional"]]
    stopped = [r for r in incidents if r["kind"] == "job_interruption"]
    by = Counter(r["counts_as"] for r in stopped)
    own = {a.run_key for a in main.attempts} if main else set()
    mine = [r for r in stopped if r["run_key"] in own]
    in_main = Counter(r["counts_as"] for r in mine)
    body: Json = {
        "gpus": main.gpus if main else None,
        "hosts_in_use": main.hosts if main else None,
        "interruptions": by["unexpected"] + by["planned"],
        "unexpected": by["unexpected"],
        "planned": by["planned"],
        "scheduler_stops": by["scheduler"],
        "faults": len({r["fault_id"] for r in stopped if r["counts_as"] == "unexpected"}),
        "host_faults": sum(r["kind"] == "host_fault" for r in incidents),
        "provisional": _provisional(rows["review_incidents"]),
        "mttf_hours": reliability.mttf(main, in_main["unexpected"], in_main["unexpected"] + in_main["planned"]),
        "mttf_trend": reliability.trend(main, mine),
        "node_failure_rate": reliability.node_rate(main, mine),
    }
    body |= _training(main, since, until)
    body |= {
        "lost_gpu_hours": lost_gpu_hours(stopped),
        "by_component": by_component(incidents),
        "by_week": _by_week(stopped),
        "hosts": _hosts(rows, incidents, main, until),
        "by_hour": _by_hour(stopped),
        "diurnal": diurnal_of(rows["review_throughput"], marks, main, since, until, rows["review_telemetry"]),
        "telemetry": by_hour_of_day(rows["review_telemetry"]),
        "power": power(rows["review_telemetry"], rows["review_power"], main),
    }
    body["projection"] = projection(main, body)
    body |= quality(rows, stopped, main.hosts or 0 if main else 0)
    return body


def _training(main: training.Task | None, since: float | None, until: float | None) -> Json:
    attempts = main.attempts if main else []
    inside = [a for a in attempts if (since is None or a.start >= since) and (until is None or a.start < until)]
    elapsed = main.elapsed_s if main else None
    useful = sum(a.useful_s * _part(a, since, until) for a in attempts)
    known = any(a.first_step is not None for a in attempts)
    took = [s.took for a in inside for s in a.saves if s.took is not None]
    saving = overheads.mean(took)
    n_saves = sum(s.done for a in inside for s in a.saves)
    lost = [(a.lost_s, a.gpus) for a in inside if a.lost_s is not None]
    interval = training.checkpoint_interval(main) if main else None
    recovery = [a.recovery_s for a in inside if a.recovery_s is not None]
    startups = [a.startup_s for a in inside if a.startup_s is not None]
    queue = [a.queue_s for a in inside if a.queue_s is not None]
    init = [a.load_at - a.start for a in inside if a.load_at is not None and a.load_at >= a.start]
    load = [
        a.first_progress - a.load_at
        for a in inside
        if a.load_at is not None and a.first_progress is not None and a.first_progress >= a.load_at
    ]
    writing = saving * n_saves if saving is not None else 0.0
    return {
        "ettr": {
            "value": overheads.ratio(useful + writing, elapsed) if known else None,
            "of": main.key[3] if main else None,
        },
        "effective_training_time": {"value": overheads.ratio(useful, elapsed) if known else None},
        "startup_seconds": {
            **spread(startups),
            "without_dated_first_step": sum(a.first_step is not None and a.startup_s is None for a in inside),
            "attempts": len(inside),
            "queue_median": overheads.quantile(queue, 0.5),
            "queue_n": len(queue),
            "init_n": len(init),
            "load_n": len(load),
            "init_median": overheads.quantile(init, 0.5),
            "load_and_first_step_median": overheads.quantile(load, 0.5),
        },
        "checkpoint_seconds": {
            "mean": saving,
            "share": overheads.ratio(writing, elapsed) if took else None,
            "count": n_saves,
            "interval": interval,
        },
        "recovery_seconds": spread(recovery),
        "lost_work": {
            "hours": sum(x for x, _ in lost) / 3600 if lost else None,
            "gpu_hours": sum(x * (g or 0) for x, g in lost) / 3600 if lost else None,
            "n": len(lost),
        },
        "goodput_loss_gpu_hours": overheads.goodput_loss_gpu_hours(
            [
                ((a.end - a.start) / 3600, a.gpus)
                for a in inside
                if a.counts_as == "unexpected" and a.end is not None and a.gpus
            ]
        ),
        "startup_by_week": _startup_by_week(inside),
    }


def _part(a: training.Attempt, since: float | None, until: float | None) -> float:
    """Share of an attempt that lies in the period: attempts at its borders count in part."""
    end = a.end if a.end is not None else a.last_progress
    if end is None or end <= a.start:
        return 1.0
    low = a.start if since is None else max(a.start, since)
    high = end if until is None else min(end, until)
    return max(0.0, min(1.0, (high - low) / (end - a.start)))


def _provisional(incidents: Sequence[Row]) -> Json:
    """Incidents whose answer is not final yet; they are in no figure."""
    held = [r for r in incidents if r["provisional"]]
    return {
        "count": sum(r["kind"] == "job_interruption" for r in held),
        "host_faults": sum(r["kind"] == "host_fault" for r in held),
        "incidents": [
            {k: r[k] for k in ("incident_id", "job_id", "interrupted_at", "component", "confidence", "host", "summary")}
            for r in sorted(held, key=lambda r: (r["interrupted_at"] or r["onset_at"] or "", r["incident_id"]))[-20:]
        ],
    }


def _startup_by_week(attempts: Sequence[training.Attempt]) -> list[Json]:
    weeks: dict[str, list[training.Attempt]] = defaultdict(list)
    for a in attempts:
        weeks[week_of(a.start)].append(a)
    return [
        {
            "week": week,
            "startup_median": overheads.quantile([a.startup_s for a in held if a.startup_s is not None], 0.5),
            "checkpoint_mean": overheads.mean([s.took for a in held for s in a.saves if s.took is not None]),
            "lost_hours": sum(a.lost_s or 0.0 for a in held) / 3600,
        }
        for week, held in sorted(weeks.items())
    ]


def by_component(incidents: Sequence[Row]) -> list[Json]:
    """Unexpected interruptions by component, most frequent first; percent of the unexpected ones."""
    held: dict[str, list[Row]] = defaultdict(list)
    for row in incidents:
        if row["counts_as"] == "unexpected":
            held[row["component"]].append(row)
    shares = rates.percents({c: len(r) for c, r in held.items()})
    return [
        {
            "component": c,
            "llama3_row": rows[0]["llama3_row"],
            "count": len(rows),
            "percent": shares[c],
            "faults": len({r["fault_id"] for r in rows}),
            "lost_gpu_hours": lost_gpu_hours(rows),
        }
        for c, rows in sorted(held.items(), key=lambda kv: (-len(kv[1]), kv[0]))
    ]


def _by_week(stopped: Sequence[Row]) -> list[Json]:
    weeks: dict[str, Counter[str]] = defaultdict(Counter)
    for row in stopped:
        at = seconds(row["interrupted_at"])
        if at is not None and row["counts_as"]:
            weeks[week_of(at)][row["counts_as"]] += 1
    return [
        {"week": w, "unexpected": c["unexpected"], "planned": c["planned"], "scheduler_stops": c["scheduler"]}
        for w, c in sorted(weeks.items())
    ]


def _hosts(rows: Rows, incidents: Sequence[Row], main: training.Task | None, until: float | None) -> list[Json]:
    fleet = max(len(rows["review_fleet"]), (main.hosts or 0) if main else 0)
    return [
        {
            "host": o.host,
            "kind": o.kind,
            "score": o.score,
            "faults": o.faults,
            "component": o.component,
            "repeats": o.repeats,
            "gpu": o.gpu,
            "lost_gpu_hours": o.lost_gpu_hours,
            "why": o.why,
        }
        for o in offenders(incidents, fleet, until)[:50]
    ]


def _by_hour(stopped: Sequence[Row]) -> Json:
    times = [s for r in stopped if r["counts_as"] == "unexpected" and (s := seconds(r["interrupted_at"])) is not None]
    test = hours.by_hour([(s % 86400) / 3600 for s in times])
    return {
        "counts": list(test.counts),
        "p": test.p,
        "peak_hour": test.peak_hour if test.p is not None and test.p < 0.05 else None,
        "smallest_swing": test.smallest_swing,
        "verdict": test.verdict,
    }
