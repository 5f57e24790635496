"""All metrics of one period, as the JSON of the review holds them. Pure functions over `rows.Rows`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sql.review import diurnal, hours, overheads, rates, training
from sql.review.checkpoints import Mark, marks_by_source
from sql.review.environment import environment
from sql.review.offenders import offenders
from sql.review.projection import projection
from sql.review.rows import Row, Rows, seconds

Json = dict[str, Any]

#: An incident found later than this after its onset was read from an archive (s).
_ARCHIVED_S = 86400.0
#: Classes that count as failures of hardware or host in the node failure rate (356 of 419 in Table 5).
_HOST_DOMAINS = ("hardware",)
_HOST_CLASSES = ("maintenance.unplanned", "host.os")


def rounded(value: Any, digits: int = 6) -> Any:  # noqa: ANN401
    """Floats of a document at so many significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {k: rounded(v, digits) for k, v in value.items()}
    return [rounded(v, digits) for v in value] if isinstance(value, list | tuple) else value


def summarise(rows: Rows) -> Json:
    """Everything the review says of one period, save the comparison with another one."""
    since = None if rows.since_us is None else rows.since_us / 1e6
    until = None if rows.until_us is None else rows.until_us / 1e6
    marks = marks_by_source(rows["review_checkpoint_marks"])
    tasks = training.tasks(rows["review_attempts"], marks, since, until, training.dated(rows["review_throughput"]))
    main = tasks[0] if tasks else None
    incidents = rows["review_incidents"]
    stopped = [r for r in incidents if r["kind"] == "job_interruption"]
    by = Counter(r["counts_as"] for r in stopped)
    own = {a.run_key for a in main.attempts} if main else set()
    in_main = Counter(r["counts_as"] for r in stopped if r["run_key"] in own)
    body: Json = {
        "gpus": main.gpus if main else None,
        "hosts_in_use": main.hosts if main else None,
        "interruptions": by["unexpected"] + by["planned"],
        "unexpected": by["unexpected"],
        "planned": by["planned"],
        "scheduler_stops": by["scheduler"],
        "faults": len({r["fault_id"] for r in stopped if r["counts_as"] == "unexpected"}),
        "host_faults": sum(r["kind"] == "host_fault" for r in incidents),
        "mttf_hours": _mttf(main, in_main["unexpected"], in_main["unexpected"] + in_main["planned"]),
        "node_failure_rate": _node_rate(main, [r for r in stopped if r["run_key"] in own]),
    }
    body |= _training(main, since, until)
    body |= {
        "lost_gpu_hours": _lost(stopped),
        "by_component": by_component(incidents),
        "by_week": _by_week(stopped),
        "hosts": _hosts(rows, incidents, main, until),
        "by_hour": _by_hour(stopped),
        "diurnal": _diurnal(rows["review_throughput"], marks, main, since, until),
    }
    body |= environment(rows["review_telemetry"])
    body["projection"] = projection(main, body)
    body |= _quality(rows, stopped, main.hosts or 0 if main else 0)
    return body


def _mttf(main: training.Task | None, unexpected: int, every: int) -> Json:
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


def _node_rate(main: training.Task | None, stopped: Sequence[Row]) -> Json:
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


def _spread(values: Sequence[float]) -> Json:
    return {"median": overheads.quantile(values, 0.5), "p90": overheads.quantile(values, 0.9), "n": len(values)}


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
            **_spread(startups),
            "queue_median": overheads.quantile(queue, 0.5),
            "init_median": overheads.quantile(init, 0.5),
            "load_and_first_step_median": overheads.quantile(load, 0.5),
        },
        "checkpoint_seconds": {
            "mean": saving,
            "share": overheads.ratio(writing, elapsed) if took else None,
            "count": n_saves,
            "interval": interval,
        },
        "recovery_seconds": _spread(recovery),
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


def _week(at: float) -> str:
    from datetime import UTC, datetime, timedelta

    day = datetime.fromtimestamp(at, UTC).date()
    return (day - timedelta(days=day.weekday())).isoformat()


def _startup_by_week(attempts: Sequence[training.Attempt]) -> list[Json]:
    weeks: dict[str, list[training.Attempt]] = defaultdict(list)
    for a in attempts:
        weeks[_week(a.start)].append(a)
    return [
        {
            "week": week,
            "startup_median": overheads.quantile([a.startup_s for a in held if a.startup_s is not None], 0.5),
            "checkpoint_mean": overheads.mean([s.took for a in held for s in a.saves if s.took is not None]),
            "lost_hours": sum(a.lost_s or 0.0 for a in held) / 3600,
        }
        for week, held in sorted(weeks.items())
    ]


def _lost(rows: Sequence[Row]) -> float | None:
    known = [r["lost_gpu_seconds"] for r in rows if r["lost_gpu_seconds"] is not None]
    return sum(known) / 3600 if known else None


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
            "lost_gpu_hours": _lost(rows),
        }
        for c, rows in sorted(held.items(), key=lambda kv: (-len(kv[1]), kv[0]))
    ]


def _by_week(stopped: Sequence[Row]) -> list[Json]:
    weeks: dict[str, Counter[str]] = defaultdict(Counter)
    for row in stopped:
        at = seconds(row["interrupted_at"])
        if at is not None and row["counts_as"]:
            weeks[_week(at)][row["counts_as"]] += 1
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


def _diurnal(
    progress: Sequence[Row],
    marks: dict[tuple[str, str], list[Mark]],
    main: training.Task | None,
    since: float | None,
    until: float | None,
) -> Json:
    keys = frozenset(a.run_key for a in main.attempts) if main else frozenset()
    samples = [
        diurnal.Sample(at, rate, group)
        for at, rate, group in training.throughput(progress, marks, keys)
        if (since is None or at >= since) and (until is None or at < until)
    ]
    found = diurnal.day_effect(samples)
    return {
        "peak_to_trough": found.peak_to_trough,
        "ci95": list(found.ci95) if found.ci95 else None,
        "slowest_hour": found.slowest_hour,
        "verdict": found.verdict,
        "days": found.days,
        "samples": found.samples,
        "by_hour": _hour_means(samples),
    }


def _hour_means(samples: Sequence[diurnal.Sample]) -> list[Json]:
    """Throughput by hour as a share of its mean."""
    if not samples:
        return []
    middle = sum(s.rate for s in samples) / len(samples)
    held: dict[int, list[float]] = defaultdict(list)
    for s in samples:
        held[int(s.at % 86400 // 3600)].append(s.rate / middle)
    return [{"hour": h, "relative": sum(v) / len(v), "n": len(v)} for h, v in sorted(held.items())]


def _quality(rows: Rows, stopped: Sequence[Row], in_use: int) -> Json:
    counted = [r for r in stopped if r["counts_as"] == "unexpected"]
    ids = {r["incident_id"] for r in counted}
    handled = sum(bool(r["handled"]) for r in rows["review_handled"] if r["incident_id"] in ids)
    interval = rates.share_interval(handled, len(counted))
    unknown = [r for r in counted if r["domain"] == "unknown"]
    labelled = [r for r in stopped if r["decided_by"] == "label"]
    agreement: dict[str, list[Row]] = defaultdict(list)
    for row in labelled:
        agreement[row["component"]].append(row)
    floor = rates.constant_answer_scores(Counter(r["component"] for r in labelled).values())
    alarms = rows["review_false_alarms"]
    good = sum(r["successful_runs"] for r in alarms)
    critical = sum(r["with_critical_signal"] or 0 for r in alarms)
    delays = [
        r["detection_s"] for r in rows["review_handled"] if r["detection_s"] is not None and r["incident_id"] in ids
    ]
    # What was read from an archive was found when it was read; that says nothing about detection.
    detection = [s for s in delays if 0 <= s < _ARCHIVED_S]
    return {
        "detection_seconds": {**_spread(detection), "from_archives": len(delays) - len(detection)},
        "handled_automatically": {
            "value": overheads.ratio(handled, len(counted)),
            "ci95": list(interval) if interval else None,
            "handled": handled,
            "of": len(counted),
        },
        "quality": {
            "labels_added": len(labelled),
            "agreement": [
                {
                    "component": c,
                    "labels": len(held),
                    "agreed": sum(r["component"] == r["decided_component"] for r in held),
                }
                for c, held in sorted(agreement.items())
            ],
            "always_the_commonest": None if floor is None else {"accuracy": floor[0], "macro_f1": floor[1]},
            "false_alarms": {
                "successful_runs": good,
                "with_critical_signal": critical,
                "share": overheads.ratio(critical, good),
            },
            "versions": rows["review_versions"],
        },
        "to_label": rows["review_to_label"],
        "coverage": _coverage(rows, in_use),
        "unattributed": {
            "count": len(unknown),
            "share": overheads.ratio(len(unknown), len(counted)),
            "lost_gpu_hours": _lost(unknown),
            "by_outcome": dict(sorted(Counter(r["outcome"] or "not known" for r in unknown).items())),
        },
    }


def _coverage(rows: Rows, in_use: int) -> Json:
    fleet = rows["review_fleet"]
    kinds: dict[str, set[str]] = defaultdict(set)
    for row in rows["review_coverage"]:
        if row["host"]:
            kinds[row["what"]].add(row["host"])
    arrived = sum(bool(r["kernel_log"]) for r in fleet)
    # A host of which nothing arrived may not even be known by name.
    every = max(len(fleet), in_use)
    return {
        "hosts": every,
        "value": overheads.ratio(arrived, every),
        "by_kind": {what: len(hosts) for what, hosts in sorted(kinds.items())},
        "without_kernel_log": every - arrived,
        "named": [r["host"] for r in fleet if not r["kernel_log"]][:20],
    }
