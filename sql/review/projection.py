"""What the measured rates would mean for a bigger job, and what shorter overheads would buy. Pure functions."""

from __future__ import annotations

from typing import Any

from sql.review import overheads, rates
from sql.review.training import Task

#: GPUs of the sizes that are projected, besides the size in use.
SIZES = (16_384, 32_768, 65_536, 131_072)
#: Below this many GPUs or failures the rate of one job says little about another size.
_MIN_GPUS, _MIN_FAILURES = 1024, 30

CAVEAT = (
    "Holds for big jobs whose failures are independent and grow with the number of hosts. Small jobs fail for other "
    "reasons (a measured 1,024-GPU MTTF of 7.9 h was far from the 28.8 h projected), and new hardware, switches and "
    "power are not in it."
)
_REPAIR_DAYS = 1.0


def projection(main: Task | None, body: dict[str, Any]) -> list[dict[str, Any]]:
    """One row a size: MTTF with interval, expected effective share with the best checkpoint interval, and spares.

    Source of the formula: arXiv 2410.21680. body: the metrics of the period, as `summary` holds them.
    """
    mttf = body["mttf_hours"]
    if main is None or not main.gpus or not main.hosts or mttf["value"] is None:
        return []
    per_host = main.gpus / main.hosts
    restart = (body["startup_seconds"]["median"] or 0.0) + (body["startup_seconds"]["queue_median"] or 0.0)
    write = body["checkpoint_seconds"]["mean"] or 0.0
    rate = body["node_failure_rate"]["all_unexpected"]
    out = []
    for gpus in sorted({main.gpus, *(s for s in SIZES if s > main.gpus)}):
        scale = main.gpus / gpus
        hours = mttf["value"] * scale
        hosts = gpus / per_host
        out.append(
            {
                "gpus": gpus,
                "mttf_hours": hours,
                "ci95": [x * scale if x is not None else None for x in mttf["ci95"]],
                "best_checkpoint_interval_s": overheads.daly(write, hours * 3600),
                "expected_ettr": _expected(hosts, hours, restart, write),
                "expected_ettr_ci95": [
                    None if x is None else _expected(hosts, x * scale, restart, write) for x in mttf["ci95"]
                ],
                "with_half_startup": _expected(hosts, hours, restart / 2, write),
                "with_half_checkpoint": _expected(hosts, hours, restart, write / 2),
                "spare_hosts": rates.spares(rate, hosts, _REPAIR_DAYS),
                "holds": _holds(main.gpus, mttf["unexpected"], gpus),
            }
        )
    return out


def _expected(hosts: float, mttf_hours: float, restart_s: float, write_s: float) -> float | None:
    """E[ETTR] with the best interval for that MTTF."""
    interval = overheads.daly(write_s, mttf_hours * 3600)
    if interval is None:
        return None
    rate = 24 / mttf_hours / hosts
    return overheads.expected_ettr(hosts, rate, restart_s / 60, interval / 60, write_s / 60)


def _holds(measured: int, failures: int, gpus: int) -> str:
    if gpus == measured:
        return "measured"
    if measured < _MIN_GPUS:
        return f"doubtful: measured on {measured} GPUs only"
    if failures < _MIN_FAILURES:
        return f"doubtful: {failures} failures measured"
    return f"{gpus / measured:.0f} times the measured size" if gpus / measured >= 2 else "near the measured size"
