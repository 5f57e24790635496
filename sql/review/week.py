"""What changed, in five lines for somebody with ten minutes. Pure functions over review documents."""

from __future__ import annotations

from math import comb, sqrt
from typing import Any

Json = dict[str, Any]


#: The query behind each of the five lines, in their order.
CHANGE_QUERIES = ("review_incidents", "review_attempts", "review_incidents", "review_attempts", "review_unattributed")


def changes(document: Json, weeks: tuple[Json, Json] | None) -> list[str]:
    """Five lines. weeks: (last seven days, seven before) where the period is longer; else it is against `previous`."""
    now, before = weeks if weeks else (document, document["previous"])
    name, other = ("the last 7 days", "the 7 before") if weeks else ("this period", "the one before")
    return [
        _interruptions(now, before, name, other),
        _mttf(now, before, document),
        _component(now, before, name),
        _time(now, before),
        _look(now),
    ]


def hours(value: float | None) -> str:
    """`3.09 h`, or a word where it is not known."""
    return "not known" if value is None else f"{value:,.2f} h"


def percent(value: float | None) -> str:
    """`90.5 %`, or a word where it is not known."""
    return "not known" if value is None else f"{100 * value:.1f} %"


def _than(now: float | None, before: float | None, show: str, unit: str) -> str:
    if now is None or before is None:
        return ""
    return f" ({show.format(now - before)}{unit} against before)"


def _interruptions(now: Json, before: Json | None, name: str, other: str) -> str:
    parts = f"{now['unexpected']} unexpected and {now['planned']} planned"
    every = f"{now['interruptions']} interruption{'' if now['interruptions'] == 1 else 's'}"
    line = f"{name[0].upper()}{name[1:]}: {every}, {parts}"
    if now["provisional"]["count"]:
        line += f" ({now['provisional']['count']} more not final yet)"
    if before is None:
        return f"{line}; nothing is known of a period before."
    # Two Poisson counts differ by more than chance where their difference is above 1.96 times the root of their sum.
    a, b = now["unexpected"], before["unexpected"]
    sure = abs(a - b) > 1.96 * sqrt(a + b) if a + b else False
    return f"{line}; {other}: {b} unexpected, {'more than chance' if sure else 'a change that chance makes'}."


def _mttf(now: Json, before: Json | None, whole: Json | None = None) -> str:
    m = now["mttf_hours"]
    if m["value"] is None:
        seen = f"{m['unexpected']} unexpected interruptions in {hours(m['job_hours'])}"
        return f"MTTF of the largest job: not known ({seen})."
    low, high = m["ci95"]
    line = f"MTTF of the largest job: {hours(m['value'])} (95 %: {low:.2f} to {hours(high)})"
    past = before["mttf_hours"]["value"] if before else None
    trend = now["mttf_trend"] if now["mttf_trend"]["ci95"] else (whole or now)["mttf_trend"]
    words = f" Over the whole period: {trend['verdict']}." if trend["verdict"].startswith("MTTF") else ""
    return f"{line}{_than(m['value'], past, '{:+.2f}', ' h')}.{words}"


def _component(now: Json, before: Json | None, name: str) -> str:
    if not now["by_component"]:
        return f"No unexpected interruption in {name}."
    top = now["by_component"][0]
    past = {c["component"]: c["count"] for c in before["by_component"]} if before else {}
    line = f"Most frequent: {top['component']} with {top['count']} ({top['percent']:.0f} %)"
    if before is None:
        return f"{line}."
    rise, which = max((c["count"] - past.get(c["component"], 0), c["component"]) for c in now["by_component"])
    if rise <= 0:
        return f"{line}; no component rose."
    was = past.get(which, 0)
    chance = len({*past, *(c["component"] for c in now["by_component"])}) * _as_many(was + rise, was)
    sure = "more than chance" if chance < 0.05 else "as chance makes"
    return f"{line}; largest rise: {which} from {was} to {was + rise}, {sure}."


def _as_many(now: int, before: int) -> float:
    """Chance that, of so many events in two equal periods, at least `now` fall into the second."""
    n = now + before
    return float(sum(comb(n, k) for k in range(now, n + 1)) / 2**n)


def _time(now: Json, before: Json | None) -> str:
    value = now["effective_training_time"]["value"]
    past = before["effective_training_time"]["value"] if before else None
    change = "" if value is None or past is None else f" ({100 * (value - past):+.1f} points)"
    start = now["startup_seconds"]["median"]
    ready = "not known" if start is None else f"{start:.0f} s"
    lost = now["lost_gpu_hours"]
    cost = "lost GPU-hours not known" if lost is None else f"{lost:,.0f} GPU-hours lost"
    return f"Effective training time {percent(value)}{change}; start-up {ready}; {cost}."


def _look(now: Json) -> str:
    worst = [f"{h['host']} ({h['faults']} faults, most in {h['component']})" for h in now["hosts"][:3]]
    unknown = now["unattributed"]
    share = percent(unknown["share"]) if unknown["share"] is not None else "none"
    missing = unknown["not_seen"][0] if unknown["not_seen"] else None
    lacking = f", {missing['what']} not there for {missing['interruptions']} of them" if missing else ""
    who = f"hosts to look at: {', '.join(worst)}" if worst else "no host stands out"
    return f"{unknown['count']} without a named cause ({share}){lacking}; {who}."
