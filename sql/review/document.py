"""The review as a document (`faultbeam.review/1`), from a warehouse. Stable: keys are added, never renamed."""

from __future__ import annotations

from typing import Any

from sql.review import overheads, rows
from sql.review.figures import rounded
from sql.review.projection import CAVEAT
from sql.review.summary import summarise
from sql.review.week import changes
from sql.store import Store
from sql.types import iso

SCHEMA = "faultbeam.review/1"
WEEK_US = 7 * 86_400_000_000

#: Which saved query made each number.
SOURCES = {
    "interruptions": "review_incidents",
    "by_component": "review_incidents",
    "by_week": "review_incidents",
    "by_hour": "review_incidents",
    "mttf_hours": "review_attempts",
    "mttf_trend": "review_attempts",
    "provisional": "review_incidents",
    "diagnosis_seconds": "review_handled",
    "telemetry": "review_telemetry",
    "node_failure_rate": "review_attempts",
    "ettr": "review_attempts",
    "effective_training_time": "review_attempts",
    "startup_seconds": "review_attempts",
    "recovery_seconds": "review_attempts",
    "lost_work": "review_attempts",
    "projection": "review_attempts",
    "checkpoint_seconds": "review_checkpoint_marks",
    "diurnal": "review_throughput",
    "lost_gpu_hours": "review_incidents",
    "hosts": "review_incidents",
    "handled_automatically": "review_handled",
    "detection_seconds": "review_handled",
    "power": "review_power",
    "to_label": "review_to_label",
    "coverage": "review_fleet",
    "coverage_by_kind": "review_coverage",
    "quality": "review_false_alarms",
    "versions": "review_versions",
    "unattributed": "review_unattributed",
}
#: Left out of `previous`: long lists that nobody compares.
_NOT_COMPARED = ("to_label", "telemetry", "quality", "coverage", "provisional")


def build(
    store: Store, cluster: str | None = None, since_us: int | None = None, until_us: int | None = None
) -> dict[str, Any]:
    """The review of a period [since, until); without bounds, of all that the warehouse holds.

    `previous` holds the same numbers for the period of equal length before; it is null where nothing is known of it.
    """
    known = rows.bounds(store, cluster)
    since = since_us if since_us is not None else known[0] if known else None
    # The last moment itself belongs to the period.
    until = until_us if until_us is not None else known[1] + 1 if known else None
    held = rows.read(store, cluster, since, until)
    body = summarise(held)
    body["checkpoint_seconds"]["best_interval"] = _best(body)
    previous = None
    if known and since is not None and until is not None and until > since and known[0] < since:
        previous = summarise(rows.read(store, cluster, 2 * since - until, since))
        previous = {k: v for k, v in previous.items() if k not in _NOT_COMPARED}
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "cluster": cluster,
        "since": iso(since) if since is not None else None,
        "until": iso(until) if until is not None else None,
        **body,
        "projection_holds": CAVEAT,
        "previous": previous,
        "sources": SOURCES,
    }
    document["changes"] = changes(document, _weeks(store, cluster, since, until))
    return rounded(document)  # type: ignore[no-any-return]


def _best(body: dict[str, Any]) -> dict[str, Any]:
    """Young's and Daly's interval (s) for this MTTF, and the share of time that they and the one in use cost."""
    hours = body["mttf_hours"]["value"]
    mttf = None if hours is None else hours * 3600
    write, used = body["checkpoint_seconds"]["mean"], body["checkpoint_seconds"]["interval"]
    best = overheads.daly(write, mttf)
    return {
        "young": overheads.young(write, mttf),
        "daly": best,
        "cost_in_use": overheads.overhead_at(used, write, mttf),
        "cost_at_best": overheads.overhead_at(best, write, mttf),
    }


def _weeks(
    store: Store, cluster: str | None, since: int | None, until: int | None
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The last seven days and the seven before, where the period is longer than that; None: compare whole periods."""
    if since is None or until is None or until - since < 2 * WEEK_US:
        return None
    return (
        summarise(rows.read(store, cluster, until - WEEK_US, until)),
        summarise(rows.read(store, cluster, until - 2 * WEEK_US, until - WEEK_US)),
    )
