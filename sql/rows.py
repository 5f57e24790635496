"""Decisions as rows of `decisions`, `evidence` and `health_events`, and back. Pure functions.

Times of events are kept to the microsecond. Names of `Decision.extra` with a meaning here: `provisional` (`1`),
`resumed_us`, `rack`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from schemas import taxonomy
from schemas.subject import Action, Decision, Event, EvidenceItem, NotSeen, Restart
from sql.runrows import run_from_json, run_json
from sql.types import iso, to_json, tuples

Row = Mapping[str, Any]

#: Fields of `Event` that are columns under their own name.
_EVENT_AS_IS = (
    "signal",
    "rule",
    "component",
    "severity",
    "fatal",
    "host",
    "device",
    "rank",
    "n_ranks",
    "source",
    "source_id",
    "family",
    "offset",
    "last_offset",
    "line",
    "count",
    "text",
    "alt",
    "action",
    "action_source",
    "maturity",
    "strength",
    "progress_after",
)

_EVENT_APART = frozenset({"id", "role", "t", "t_last", "unc", "ranks", "fields", "tags", *_EVENT_AS_IS})
#: Fields of `Event` without a column of their own; they stand in the JSON column `more`.
_EVENT_MORE = tuple(f.name for f in fields(Event) if f.name not in _EVENT_APART)
_DECISION_KNOWN = frozenset(
    [
        "subject_key",
        "kind",
        "incident",
        "incident_id",
        "fault_id",
        "component",
        "cause",
        "confidence",
        "decided_by",
        "summary",
        "first_host",
        "first_gpu",
        "first_rank",
        "onset_us",
        "evidence",
        "alternatives",
        "not_seen",
        "restart",
        "action",
        "health",
        "why",
        "run",
        "host",
        "device",
        "gpu_uuid",
        "gpu_serial",
        "driver_version",
        "rules_version",
        "model_version",
        "revision",
        "extra",
    ]
)
_DECISION_MORE = tuple(f.name for f in fields(Decision) if f.name not in _DECISION_KNOWN)


def _us(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1_000_000


def _not_seen(item: NotSeen) -> dict[str, Any]:
    return {
        "host": item.host or None,
        "what": item.what,
        "from": None if item.from_us is None else iso(item.from_us),
        "to": None if item.to_us is None else iso(item.to_us),
        "from_us": item.from_us,
        "to_us": item.to_us,
        "get": item.get,
    }


def _restart(restart: Restart | None) -> dict[str, Any] | None:
    if restart is None:
        return None
    return {
        "advice": restart.advice,
        "exclude_hosts": list(restart.exclude_hosts),
        "resume_step": restart.resume_step,
        "resume_path": restart.resume_path,
        "resume_us": restart.resume_us,
        "lost_gpu_hours": restart.lost_gpu_hours,
        "why": restart.why,
    }


def _action(action: Action | None) -> dict[str, Any] | None:
    if action is None:
        return None
    return {"kind": action.kind, "target": action.target, "why": action.why, "source": action.source}


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def decision_row(cluster: str, decision: Decision) -> dict[str, Any]:
    """The row of `decisions`, without wall-clock columns. SchemaError where the component is not in the taxonomy."""
    run, restart, extra = decision.run, decision.restart, decision.extra
    lost = None if restart is None or restart.lost_gpu_hours is None else restart.lost_gpu_hours * 3600
    return {
        "cluster": cluster,
        "subject_key": decision.subject_key,
        "incident": decision.incident,
        "incident_id": decision.incident_id,
        "fault_id": decision.fault_id,
        "kind": decision.kind,
        "run_key": run.run_key if run else None,
        "job_id": run.job_id if run else None,
        "attempt": run.attempt if run else 0,
        "started_at": (run.start_us if run.start_us is not None else run.log_start_us) if run else None,
        "interrupted_at": (run.end_us if run.end_us is not None else run.log_end_us) if run else None,
        "onset_at": decision.onset_us,
        "last_progress_at": run.last_progress_us if run else None,
        "resumed_at": _int(extra.get("resumed_us")),
        "still_running": run.still_running if run else None,
        "time_uncertainty_s": run.uncertainty_s if run else _root_uncertainty(decision.evidence),
        "outcome": (run.state or None) if run else None,
        "component": decision.component,
        "llama3_row": taxonomy.llama3_row(decision.component) if decision.incident else None,
        "cause": decision.cause,
        "planned": decision.component == "maintenance.planned",
        "counts_as": taxonomy.counts_as(decision.component, decision.kind) if decision.incident else None,
        "confidence": decision.confidence,
        "decided_by": decision.decided_by,
        "first_host": decision.first_host,
        "first_gpu": decision.first_gpu,
        "first_rank": decision.first_rank,
        "subject_host": decision.host,
        "device": decision.device,
        "gpu_uuid": decision.gpu_uuid,
        "gpu_serial": decision.gpu_serial,
        "rack": extra.get("rack"),
        "driver_version": decision.driver_version,
        "account": (run.account or None) if run else None,
        "n_hosts": (run.n_nodes if run.n_nodes is not None else len(run.nodes) or None) if run else None,
        "n_gpus": run.n_gpus if run else None,
        "lost_gpu_seconds": None if lost is None else round(lost, 3),
        "summary": decision.summary,
        "alternatives": [{"component": c, "confidence": p} for c, p in decision.alternatives],
        "not_seen": [_not_seen(item) for item in decision.not_seen],
        "restart": _restart(restart),
        "action": _action(decision.action),
        "why": list(decision.why),
        "run": run_json(run) if run else None,
        "extra": dict(decision.extra),
        "more": {name: getattr(decision, name) for name in _DECISION_MORE},
        "rules_version": decision.rules_version,
        "model_version": decision.model_version,
        "revision": decision.revision,
        "provisional": extra.get("provisional") == "1",
    }


def _root_uncertainty(evidence: Sequence[EvidenceItem]) -> float:
    return next((item.event.unc for item in evidence if item.role == "root"), 0.0)


def event_rows(cluster: str, decision: Decision, items: Sequence[EvidenceItem]) -> list[dict[str, Any]]:
    """Rows of `evidence` or `health_events`, in the order of the decision."""
    return [
        {
            "cluster": cluster,
            "subject_key": decision.subject_key,
            "seq": seq,
            "incident_id": decision.incident_id,
            "evidence_id": item.event.id,
            "role": item.role,
            "kind": item.event.role,
            "time": _us(item.event.t),
            "last_time": _us(item.event.t_last),
            "time_uncertainty_s": item.event.unc,
            "ranks": item.event.ranks,
            "fields": item.event.fields,
            "tags": sorted(item.event.tags),
            "more": {name: getattr(item.event, name) for name in _EVENT_MORE},
            **{name: getattr(item.event, name) for name in _EVENT_AS_IS},
        }
        for seq, item in enumerate(items)
    ]


def content_digest(row: Row, evidence: Sequence[Row], health: Sequence[Row]) -> str:
    """Names all that a decision says: two equal decisions have one digest."""
    return hashlib.sha256(to_json([row, evidence, health]).encode()).hexdigest()[:20]


def evidence_item(row: Row) -> EvidenceItem:
    """The item that `event_rows` made the row of."""
    event = Event(
        id=row["evidence_id"],
        role=row["kind"],
        t=_seconds(row["time"]),
        t_last=_seconds(row["last_time"]),
        unc=row["time_uncertainty_s"],
        ranks=tuple(row["ranks"]),
        fields=tuples(row["fields"]),
        tags=frozenset(row["tags"]),
        **{name: tuples(value) for name, value in row["more"].items() if name in _EVENT_MORE},
        **{name: row[name] for name in _EVENT_AS_IS},
    )
    return EvidenceItem(event, row["role"])


def decision_of(row: Row, evidence: Sequence[Row], health: Sequence[Row]) -> Decision:
    """The decision that the rows were made of."""
    restart, action, run = row["restart"], row["action"], row["run"]
    return Decision(
        subject_key=row["subject_key"],
        kind=row["kind"],
        incident=bool(row["incident"]),
        incident_id=row["incident_id"],
        fault_id=row["fault_id"],
        component=row["component"],
        cause=row["cause"],
        confidence=row["confidence"],
        decided_by=row["decided_by"],
        summary=row["summary"],
        first_host=row["first_host"],
        first_gpu=row["first_gpu"],
        first_rank=row["first_rank"],
        onset_us=row["onset_at"],
        evidence=tuple(map(evidence_item, evidence)),
        alternatives=tuple((a["component"], a["confidence"]) for a in row["alternatives"]),
        not_seen=tuple(
            NotSeen(n["host"] or "", n["what"], n["from_us"], n["to_us"], n["get"]) for n in row["not_seen"]
        ),
        restart=None if restart is None else Restart(**{**restart, "exclude_hosts": tuple(restart["exclude_hosts"])}),
        action=None if action is None else Action(**action),
        health=tuple(map(evidence_item, health)),
        why=tuple(row["why"]),
        run=None if run is None else run_from_json(run),
        host=row["subject_host"],
        device=row["device"],
        gpu_uuid=row["gpu_uuid"],
        gpu_serial=row["gpu_serial"],
        driver_version=row["driver_version"],
        rules_version=row["rules_version"],
        model_version=row["model_version"],
        revision=row["revision"],
        extra=dict(row["extra"]),
        **{name: tuples(value) for name, value in row["more"].items() if name in _DECISION_MORE},
    )
