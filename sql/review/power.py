"""Power: its level by hour, its swings within seconds, and what training did at that moment. Pure functions.

Swings come from `power_hourly`, which holds them where samples are 10 s apart or less. What one host's GPUs did is told
for the whole job as if all of its GPUs did the same, which is what a job in step does; the words say so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

from sql.review.rows import Row, document
from sql.review.swings import NEAR_S, tied
from sql.review.training import Task

#: Swings of hosts this close together are one of the job (s): clocks of hosts differ by less.
_TOGETHER_S = 5.0
#: A job that stands still for longer than this before its end hung (s).
_HANG_S = 60.0
#: What to do where samples are too coarse.
NEEDED = (
    "swings of seconds need a sample every 1 to 10 s: nvidia-smi --query-gpu=timestamp,index,uuid,power.draw "
    "--format=csv -l 1 on a host of the job, or dcgm-exporter with stamps"
)


def power(telemetry: Sequence[Row], finely: Sequence[Row], main: Task | None) -> dict[str, Any]:
    """`power` of the review. telemetry: rows of `review_telemetry`; finely: of `review_power`."""
    level = [r for r in telemetry if r["metric"] == "gpu_power_w"]
    samples = sum(r["samples"] for r in level)
    # Hours at the borders are sampled in part: the fullest one tells how often samples come.
    every = min((3600 * r["series"] / r["samples"] for r in level), default=None)
    events = _grouped(finely, main)
    causes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        causes[event["tied_to"] or "nothing known"].append(event)
    return {
        "mean_w": sum(r["mean"] * r["samples"] for r in level) / samples if samples else None,
        "low_w": min((r["low"] for r in level), default=None),
        "high_w": max((r["high"] for r in level), default=None),
        "sampled_every_s": every,
        "gpu_hours_finely_sampled": sum(r["devices"] for r in finely),
        "swings": sorted(events, key=lambda e: (-abs(e["watts_per_gpu"]), e["at"]))[:20] if finely else None,
        "by_cause": {
            cause: {
                "count": len(found),
                "watts_per_gpu": median(abs(e["watts_per_gpu"]) for e in found),
                "job_mw": _median([e["job_mw"] for e in found]),
                "job_mw_per_s": _median([e["job_mw_per_s"] for e in found]),
            }
            for cause, found in sorted(causes.items())
        },
        "verdict": _verdict(every, finely, causes, main),
    }


def moments(main: Task | None) -> list[tuple[float, str]]:
    """What training did at known moments, in order: (seconds since 1970 UTC, checkpoint | start | stop)."""
    out: list[tuple[float, str]] = []
    for a in main.attempts if main else ():
        out += [(at, "start") for at in (a.start, a.first_progress) if at is not None]
        out += [(at, "stop") for at in (a.end,) if at is not None]
        for save in a.saves:
            if save.at is not None:
                out += [(save.at, "checkpoint"), (save.at + (save.took or 0.0), "checkpoint")]
    return sorted(out)


def _during(at: float, main: Task | None) -> str:
    """What an attempt was at, at a moment without an event of its own.

    Logs print every so many steps: a job that stands still did so somewhere between its last line and its end.
    """
    attempts = main.attempts if main else []
    begun = bisect_right(attempts, at, key=lambda a: a.start)
    for a in reversed(attempts[max(0, begun - 2) : begun]):
        if a.first_progress is not None and a.start <= at <= a.first_progress:
            return "start"
        if a.end is not None and a.last_progress is not None and a.last_progress < at <= a.end + NEAR_S:
            return "stall" if a.end - at > _HANG_S else "stop"
    return ""


def _grouped(finely: Sequence[Row], main: Task | None) -> list[dict[str, Any]]:
    """Swings of all hosts, those of one moment and direction as one, each with the nearest event of the largest job."""
    single = [
        (us / 1e6, seconds, watts, gpus, row["host"])
        for row in finely
        for us, seconds, watts, gpus in document(row["swings"]) or []
    ]
    known = moments(main)
    times = [at for at, _ in known]
    gpus = main.gpus if main else None
    out = []
    for rising in (False, True):
        group: list[tuple[float, float, float, int, str]] = []
        for one in [*sorted(s for s in single if (s[2] > 0) == rising), None]:
            if group and (one is None or one[0] - group[-1][0] > _TOGETHER_S):
                found = _event(group, gpus)
                at = found["at_s"]
                out.append({**found, "tied_to": tied(at, known, times, NEAR_S) or _during(at, main)})
                group = []
            if one is not None:
                group.append(one)
    return sorted(out, key=lambda e: e["at_s"])


def _event(group: list[tuple[float, float, float, int, str]], gpus: int | None) -> dict[str, Any]:
    """One swing of the job, of the swings of its hosts. gpus: of the job."""
    from sql.types import iso

    seen = sum(n for *_, n, _ in group)
    watts = sum(w for _, _, w, _, _ in group) / seen
    at = median(t for t, *_ in group)
    seconds = median(s for _, s, *_ in group)
    scale = None if gpus is None else gpus / 1e6
    return {
        "at": iso(round(at * 1e6)),
        "at_s": at,
        "seconds": seconds,
        "watts_per_gpu": watts,
        "gpus_seen": seen,
        "hosts": len({host for *_, host in group}),
        "job_mw": None if scale is None else abs(watts) * scale,
        "job_mw_per_s": None if scale is None else abs(watts) * scale / seconds,
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return median(known) if known else None


def _verdict(
    every: float | None, finely: Sequence[Row], causes: dict[str, list[dict[str, Any]]], main: Task | None
) -> str:
    if every is None:
        return f"no power telemetry; {NEEDED}"
    if not finely:
        return f"sampled every {every:,.0f} s: {NEEDED}"
    hosts = len({r["host"] for r in finely})
    where = (
        f"{sum(r['devices'] for r in finely):,} GPU-hours of fine samples from {hosts} host{'s' if hosts > 1 else ''}"
    )
    if not causes:
        return f"no swing in {where}"
    parts = []
    for cause, found in sorted(causes.items(), key=lambda kv: (-len(kv[1]), kv[0])):
        size = median(abs(e["watts_per_gpu"]) for e in found)
        words = {"nothing known": "beside nothing known"}.get(cause, f"at a {cause}")
        parts.append(f"{len(found)} {words} ({size:,.0f} W a GPU)")
    line = f"{sum(map(len, causes.values())):,} swings in {where}: {', '.join(parts)}"
    largest = max((e["job_mw"] for found in causes.values() for e in found if e["job_mw"] is not None), default=None)
    if largest is None or main is None:
        return line
    return f"{line}; the largest is {largest:.3g} MW if all {main.gpus:,} GPUs of the job do the same"
