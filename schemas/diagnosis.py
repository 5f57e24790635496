"""The stable document of `faultbeam diagnose --format json` (`faultbeam.diagnosis/1`). Others build on it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = "faultbeam.diagnosis/1"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FirstFailing(_Model):
    host: str | None = None
    gpu: int | None = None
    rank: int | None = None


class EvidenceDoc(_Model):
    id: str
    signal: str
    role: Literal["root", "cascade", "teardown", "context"]
    time: str | None
    host: str | None
    device: str | None
    rank: int | None
    source: str
    line: int | None
    offset: int
    count: int
    text: str


class HealthEventDoc(EvidenceDoc):
    component: str
    kind: str


class AlternativeDoc(_Model):
    component: str
    confidence: float


class NotSeenDoc(_Model):
    host: str | None
    what: str
    from_: str | None = Field(alias="from")
    to: str | None
    get: str

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class ResumeFrom(_Model):
    step: int | None
    path: str | None
    time: str | None


class RestartDoc(_Model):
    advice: Literal["restart", "restart_excluding", "do_not_restart", "wait"]
    exclude_hosts: list[str]
    resume_from: ResumeFrom | None
    lost_gpu_hours: float | None
    why: str


class ActionDoc(_Model):
    kind: Literal[
        "restart_job",
        "exclude_host",
        "reset_gpu",
        "reboot_host",
        "drain_host",
        "replace_part",
        "notify_owner",
        "collect_evidence",
        "none",
    ]
    target: str
    why: str
    source: str


class IncidentDoc(_Model):
    incident_id: str
    fault_id: str
    kind: Literal["job_interruption", "host_fault"]
    job_id: str | None
    attempt: int
    started_at: str | None
    interrupted_at: str | None
    onset_at: str | None
    last_progress_at: str | None
    still_running: bool | None
    time_uncertainty_s: float
    outcome: str | None
    component: str
    llama3_row: str | None
    cause: str
    planned: bool
    counts_as: Literal["unexpected", "planned", "scheduler"] | None
    confidence: float
    decided_by: Literal["rule", "model", "rule+model", "label"]
    first_failing: FirstFailing
    summary: str
    evidence: list[EvidenceDoc]
    alternatives: list[AlternativeDoc]
    not_seen: list[NotSeenDoc]
    restart: RestartDoc
    action: ActionDoc
    assumptions: list[str] = Field(default_factory=list)


class InputDoc(_Model):
    source: str
    format: str
    bytes: int
    signal_lines: int
    unparsed_lines: int
    note: str | None


class Diagnosis(_Model):
    schema_: str = Field(default=SCHEMA, alias="schema")
    incidents: list[IncidentDoc]
    health_events: list[HealthEventDoc]
    inputs: list[InputDoc]

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
