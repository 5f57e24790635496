"""Decisions and inputs as the stable JSON document (`schemas.diagnosis`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from schemas.diagnosis import (
    ActionDoc,
    AlternativeDoc,
    Diagnosis,
    EvidenceDoc,
    FirstFailing,
    HealthEventDoc,
    IncidentDoc,
    InputDoc,
    NotSeenDoc,
    RestartDoc,
    ResumeFrom,
)
from schemas.facts import SourceFact
from schemas.subject import Decision, EvidenceItem
from schemas.taxonomy import counts_as, llama3_row


def iso(us: int | None) -> str | None:
    """Microseconds since 1970 as ISO-8601 UTC with `Z`; whole seconds print without a fraction."""
    if us is None:
        return None
    moment = datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)
    return moment.isoformat(timespec="microseconds" if us % 1_000_000 else "seconds").replace("+00:00", "Z")


def _seconds(t: float | None) -> str | None:
    return None if t is None else iso(round(t * 1e6))


def _evidence_fields(item: EvidenceItem) -> dict[str, Any]:
    e = item.event
    return {
        "id": e.id,
        "signal": e.signal,
        "role": item.role,
        "time": _seconds(e.t),
        "host": e.host or None,
        "device": e.device or None,
        "rank": e.rank,
        "source": e.source,
        "line": e.line,
        "offset": e.offset,
        "count": e.count,
        "text": e.text,
    }


def incident(d: Decision) -> IncidentDoc:
    """One decision as an entry of `incidents`."""
    run = d.run
    end = None if run is None else (run.end_us if run.end_us is not None else run.log_end_us)
    if run is not None and run.still_running:
        end = None
    restart, action = d.restart, d.action
    assert restart is not None
    assert action is not None
    resume = None
    if restart.resume_step is not None or restart.resume_path is not None:
        resume = ResumeFrom(step=restart.resume_step, path=restart.resume_path, time=iso(restart.resume_us))
    return IncidentDoc(
        incident_id=d.incident_id,
        fault_id=d.fault_id,
        kind=cast(Any, d.kind),
        job_id=run.job_id if run is not None else None,
        attempt=run.attempt if run is not None else 0,
        started_at=iso(run.start_us) if run is not None else None,
        interrupted_at=end if end is None else iso(end),
        onset_at=iso(d.onset_us),
        last_progress_at=iso(run.last_progress_us) if run is not None else None,
        still_running=run.still_running if run is not None else None,
        time_uncertainty_s=run.uncertainty_s if run is not None else _uncertainty(d.evidence),
        outcome=(run.state or None) if run is not None else None,
        component=d.component,
        llama3_row=llama3_row(d.component),
        cause=d.cause,
        planned=d.component == "maintenance.planned",
        counts_as=cast(Any, counts_as(d.component, d.kind)),
        confidence=d.confidence,
        decided_by=cast(Any, d.decided_by),
        first_failing=FirstFailing(host=d.first_host, gpu=d.first_gpu, rank=d.first_rank),
        summary=d.summary,
        evidence=[EvidenceDoc(**_evidence_fields(item)) for item in d.evidence],
        alternatives=[AlternativeDoc(component=name, confidence=share) for name, share in d.alternatives],
        not_seen=[
            NotSeenDoc(host=n.host or None, what=n.what, from_=iso(n.from_us), to=iso(n.to_us), get=n.get)
            for n in d.not_seen
        ],
        restart=RestartDoc(
            advice=cast(Any, restart.advice),
            exclude_hosts=list(restart.exclude_hosts),
            resume_from=resume,
            lost_gpu_hours=restart.lost_gpu_hours,
            why=restart.why,
        ),
        action=ActionDoc(kind=cast(Any, action.kind), target=action.target, why=action.why, source=action.source),
        assumptions=list(d.assumptions),
    )


def _uncertainty(evidence: Sequence[EvidenceItem]) -> float:
    known = [i.event.unc for i in evidence if i.event.t is not None]
    return round(min(known), 3) if known else 0.0


def health_event(item: EvidenceItem) -> HealthEventDoc:
    """A fault that interrupted nothing."""
    kind = "corrected" if "corrected" in item.event.tags else "cleared" if item.event.progress_after else "seen"
    return HealthEventDoc(**_evidence_fields(item), component=item.event.component, kind=kind)


def inputs(sources: Iterable[SourceFact]) -> list[InputDoc]:
    """What was read, by input."""
    return [
        InputDoc(
            source=s.inner_paths[0] if s.inner_paths else s.source_id,
            format=s.format,
            bytes=s.size,
            signal_lines=s.signal_lines,
            unparsed_lines=s.unparsed_lines,
            note=s.note,
        )
        for s in sorted(sources, key=lambda s: (s.inner_paths, s.source_id))
    ]


def document(incidents: Sequence[Decision], quiet: Iterable[Decision], sources: Iterable[SourceFact]) -> Diagnosis:
    """The whole document: incidents in the given order, health events of all subjects, inputs."""
    seen: dict[str, HealthEventDoc] = {}
    rooted = {item.event.id for d in incidents for item in d.evidence}
    for d in (*incidents, *quiet):
        for item in d.health:
            if item.event.id not in rooted:
                seen.setdefault(item.event.id, health_event(item))
    return Diagnosis(
        incidents=[incident(d) for d in incidents],
        health_events=sorted(seen.values(), key=lambda h: (h.time or "", h.id)),
        inputs=inputs(sources),
    )
