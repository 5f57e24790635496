"""How good the answers are, and what they rest on. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sql.review import overheads, rates
from sql.review.figures import lost_gpu_hours, spread
from sql.review.rows import Row, Rows, document

Json = dict[str, Any]

#: An incident found later than this after its onset was read from an archive (s).
_ARCHIVED_S = 86400.0


def quality(rows: Rows, stopped: Sequence[Row], in_use: int) -> Json:
    """Detection, diagnosis, handling, labels, false alarms, coverage and what stayed without a cause."""
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
    return {
        "detection_seconds": _delays(rows, ids, "detection_s"),
        "diagnosis_seconds": _delays(rows, ids, "diagnosis_s"),
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
            "lost_gpu_hours": lost_gpu_hours(unknown),
            "by_outcome": dict(sorted(Counter(r["outcome"] or "not known" for r in unknown).items())),
            "not_seen": _not_seen(rows, {r["incident_id"] for r in unknown}),
        },
    }


def _delays(rows: Rows, ids: set[str], name: str) -> Json:
    """Seconds of these interruptions. What was read from an archive was found when it was read: that says nothing."""
    delays = [r[name] for r in rows["review_handled"] if r[name] is not None and r["incident_id"] in ids]
    live = [s for s in delays if 0 <= s < _ARCHIVED_S]
    return {**spread(live), "from_archives": len(delays) - len(live)}


def _not_seen(rows: Rows, ids: set[str]) -> list[Json]:
    """Why no cause could be named: kinds of logs that were not there, by how many interruptions lacked them."""
    held: dict[str, set[str]] = defaultdict(set)
    hosts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows["review_unattributed"]:
        if row["incident_id"] in ids:
            for missing in document(row["not_seen"]) or []:
                held[missing["what"]].add(row["incident_id"])
                if missing.get("host"):
                    hosts[missing["what"]][missing["host"]] += 1
    return [
        {
            "what": what,
            "interruptions": len(found),
            "hosts": len(hosts[what]),
            "most": [h for h, _ in sorted(hosts[what].items(), key=lambda kv: (-kv[1], kv[0]))[:5]],
        }
        for what, found in sorted(held.items(), key=lambda kv: (-len(kv[1]), -len(hosts[kv[0]]), kv[0]))
    ]


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
