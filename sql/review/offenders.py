"""Hosts that come back: repeat offenders and lemons, with the reason in words. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sql.review.overheads import quantile
from sql.review.rows import Row, seconds

WINDOW_S = 28 * 86400.0
#: A host is a lemon above this share of the fleet; published lemons are 1.2 % of the hosts (arXiv 2410.21680).
LEMON_QUANTILE = 0.988


@dataclass(frozen=True, slots=True)
class Offender:
    """A host and what speaks against it over the last 28 days. One fault counts once, however many jobs it stopped."""

    host: str
    kind: str  # lemon | repeat
    score: int
    faults: int
    causes: int
    multi_host: int
    component: str
    repeats: int
    gpu: str | None
    lost_gpu_hours: float
    why: str


def counts_against(row: Row) -> bool:
    """Whether an incident says something about the machine: hardware, its system, or an unplanned host stop."""
    return bool(row["host"]) and row["domain"] in ("hardware", "software") and row["component"] != "software.bug"


def offenders(incidents: Iterable[Row], fleet: int | None, until: float | None) -> list[Offender]:
    """Repeat offenders and lemons among the incidents of the 28 days before `until` (s since 1970), worst first.

    fleet: hosts known, for the distribution: hosts without a fault score 0. The score counts distinct causes, faults
    that stopped a job of many hosts twice, other faults once. A lemon scores above the fleet's 98.8 % quantile and has
    two faults or more: a single one is bad luck.
    """
    by_host: dict[str, list[Row]] = defaultdict(list)
    for row in incidents:
        at = seconds(row["onset_at"]) or seconds(row["interrupted_at"])
        if counts_against(row) and at is not None and (until is None or until - WINDOW_S <= at <= until):
            by_host[row["host"]].append(row)
    scored = {host: _score(rows) for host, rows in by_host.items()}
    spread = [s for s, *_ in scored.values()] + [0] * max(0, (fleet or 0) - len(scored))
    limit = quantile(spread, LEMON_QUANTILE) or 0.0
    out = []
    for host, (score, faults, causes, multi) in scored.items():
        component, repeats, gpu = _repeats(by_host[host])
        if len(faults) < 2 or (repeats == 0 and score <= limit):
            continue
        lost = sum((r["lost_gpu_seconds"] or 0.0) for r in by_host[host]) / 3600
        why = []
        if repeats:
            part = f" on {gpu}" if gpu else ""
            why.append(f"{component} failed again{part} {repeats} time{'s' if repeats > 1 else ''} within 28 days")
        if score > limit:
            why.append(
                f"score {score} against {limit:.1f} of the fleet: {len(faults)} faults, {causes} causes, "
                f"{multi} stopped a job of many hosts"
            )
        kind = "lemon" if score > limit else "repeat"
        out.append(
            Offender(host, kind, score, len(faults), causes, multi, component, repeats, gpu, lost, "; ".join(why))
        )
    return sorted(out, key=lambda o: (-o.score, -o.repeats, o.host))


def _score(rows: Sequence[Row]) -> tuple[int, set[str], int, int]:
    faults = {r["fault_id"] for r in rows}
    causes = len({r["cause"] for r in rows})
    multi = len({r["fault_id"] for r in rows if r["kind"] == "job_interruption" and (r["n_hosts"] or 1) > 1})
    return causes + 2 * multi + len(faults) - multi, faults, causes, multi


def _repeats(rows: Sequence[Row]) -> tuple[str, int, str | None]:
    """(component, its faults beyond the first, the GPU where all were on one) of what came back most."""
    by_component: dict[str, set[str]] = defaultdict(set)
    parts: dict[str, set[str]] = defaultdict(set)
    for r in rows:
        by_component[r["component"]].add(r["fault_id"])
        part = r["gpu_serial"] or r["gpu_uuid"] or (f"gpu {r['gpu']}" if r["gpu"] is not None else "")
        parts[r["component"]].add(part)
    component = max(sorted(by_component), key=lambda c: len(by_component[c]))
    part = next(iter(parts[component])) if len(parts[component]) == 1 else ""
    return component, len(by_component[component]) - 1, part or None
