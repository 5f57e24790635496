"""Decision tables: one decision a subject, replaced as a whole together with its evidence.

`incidents`, as people query it, is a view over `decisions`, `labels` and `components` (`sql/views`).
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKeyConstraint, Index, Integer, Table
from sqlalchemy.schema import SchemaItem

from sql.models.base import cluster_column, metadata
from sql.types import Json, Real, Str, UtcMicros

decisions = Table(
    "decisions",
    metadata,
    cluster_column(),
    Column("subject_key", Str, primary_key=True),
    Column("incident", Boolean, nullable=False, comment="false: nothing was interrupted, health events only"),
    Column("incident_id", Str, nullable=False),
    Column("fault_id", Str, nullable=False),
    Column("kind", Str, nullable=False, comment="job_interruption or host_fault"),
    Column("run_key", Str),
    Column("job_id", Str),
    Column("attempt", Integer, nullable=False),
    Column("started_at", UtcMicros),
    Column("interrupted_at", UtcMicros),
    Column("onset_at", UtcMicros, comment="time of the root evidence"),
    Column("last_progress_at", UtcMicros),
    Column("detected_at", UtcMicros, comment="wall clock: when it first became an incident"),
    Column("resumed_at", UtcMicros),
    Column("still_running", Boolean),
    Column("time_uncertainty_s", Real, nullable=False),
    Column("outcome", Str, comment="the scheduler's word"),
    Column("component", Str, nullable=False),
    Column("llama3_row", Str),
    Column("cause", Str, nullable=False),
    Column("planned", Boolean, nullable=False),
    Column("counts_as", Str, comment="unexpected, planned, scheduler or null"),
    Column("confidence", Real, nullable=False),
    Column("decided_by", Str, nullable=False),
    Column("first_host", Str),
    Column("first_gpu", Integer),
    Column("first_rank", Integer),
    Column("subject_host", Str, nullable=False),
    Column("device", Str, nullable=False),
    Column("gpu_uuid", Str, nullable=False),
    Column("gpu_serial", Str, nullable=False),
    Column("rack", Str),
    Column("driver_version", Str, nullable=False),
    Column("account", Str),
    Column("n_hosts", Integer),
    Column("n_gpus", Integer),
    Column("lost_gpu_seconds", Real),
    Column("summary", Str, nullable=False),
    Column("alternatives", Json, nullable=False, comment="[{component, confidence}]"),
    Column("not_seen", Json, nullable=False, comment="[{host, what, from, to, get}]"),
    Column("restart", Json),
    Column("action", Json),
    Column("why", Json, nullable=False, comment="steps of the reasoning, in words"),
    Column("run", Json, comment="the job run as it was when decided"),
    Column("extra", Json, nullable=False),
    Column("more", Json, nullable=False, comment="further fields of the decision"),
    Column("rules_version", Integer, nullable=False),
    Column("model_version", Str, nullable=False),
    Column("revision", BigInteger, nullable=False, comment="number of distinct facts seen"),
    Column("provisional", Boolean, nullable=False, comment="first answer of a stream, before its grace period"),
    Column("content", Str, nullable=False, comment="digest of the decision: an equal one is not written again"),
    Column("decided_at", UtcMicros, nullable=False, comment="wall clock"),
    Index("ix_decisions_incident_id", "incident_id"),
    Index("ix_decisions_interrupted_at", "cluster", "interrupted_at"),
    Index("ix_decisions_fault", "cluster", "fault_id"),
    Index("ix_decisions_job", "cluster", "job_id"),
    comment="the current answer for each subject",
)


def _event_columns() -> tuple[SchemaItem, ...]:
    return (
        cluster_column(),
        Column("subject_key", Str, primary_key=True),
        Column("seq", Integer, primary_key=True, autoincrement=False, comment="order in the decision"),
        Column("incident_id", Str, nullable=False),
        Column("evidence_id", Str, nullable=False),
        Column("signal", Str, nullable=False),
        Column("rule", Str, nullable=False),
        Column("role", Str, nullable=False, comment="root, cascade, teardown or context"),
        Column("component", Str, nullable=False),
        Column("kind", Str, nullable=False, comment="cause, symptom, either or context: what the signal can be"),
        Column("severity", Str, nullable=False),
        Column("fatal", Str, nullable=False),
        Column("time", UtcMicros),
        Column("last_time", UtcMicros),
        Column("time_uncertainty_s", Real, nullable=False),
        Column("host", Str, nullable=False, comment="empty if unknown (host.name)"),
        Column("device", Str, nullable=False),
        Column("rank", Integer),
        Column("ranks", Json, nullable=False),
        Column("n_ranks", Integer, nullable=False),
        Column("source", Str, nullable=False, comment="path inside the input (log.file.path)"),
        Column("source_id", Str, nullable=False),
        Column("family", Str, nullable=False),
        Column("offset", BigInteger, nullable=False),
        Column("last_offset", BigInteger, nullable=False),
        Column("line", BigInteger),
        Column("count", BigInteger, nullable=False),
        Column("text", Str, nullable=False),
        Column("fields", Json, nullable=False),
        Column("alt", Str),
        Column("action", Str, nullable=False),
        Column("action_source", Str, nullable=False),
        Column("maturity", Str, nullable=False),
        Column("strength", Str, nullable=False),
        Column("progress_after", BigInteger, nullable=False, comment="steps of the whole job after it"),
        Column("tags", Json, nullable=False),
        Column("more", Json, nullable=False, comment="further fields of the event: meaning, links, hosts ..."),
        ForeignKeyConstraint(
            ["cluster", "subject_key"], ["decisions.cluster", "decisions.subject_key"], ondelete="CASCADE"
        ),
    )


evidence = Table(
    "evidence",
    metadata,
    *_event_columns(),
    Index("ix_evidence_incident_id", "incident_id"),
    Index("ix_evidence_host_time", "cluster", "host", "time"),
    comment="what a decision rests on",
)

health_events = Table(
    "health_events",
    metadata,
    *_event_columns(),
    Index("ix_health_events_host_time", "cluster", "host", "time"),
    comment="faults that interrupted nothing",
)

episodes = Table(
    "episodes",
    metadata,
    cluster_column(),
    Column("subject_key", Str, primary_key=True),
    Column("from_us", BigInteger, comment="first event, us since 1970; null without a clock"),
    Column("to_us", BigInteger),
    comment="times of the host episodes that have a decision",
)

fault = Table(
    "fault",
    metadata,
    cluster_column(),
    Column("fault_id", Str, primary_key=True),
    Column("component", Str, nullable=False),
    Column("cause", Str, nullable=False),
    Column("host", Str),
    Column("onset_at", UtcMicros),
    Column("n_incidents", Integer, nullable=False),
    Column("n_interruptions", Integer, nullable=False, comment="job interruptions among them"),
    comment="one fault may interrupt many jobs; kept in step with decisions",
)

incident_revisions = Table(
    "incident_revisions",
    metadata,
    Column("revision_id", Integer, primary_key=True),
    Column("cluster", Str, nullable=False),
    Column("incident_id", Str, nullable=False),
    Column("subject_key", Str, nullable=False),
    Column("what", Str, nullable=False, comment="new, changed or retracted"),
    Column("component", Str, nullable=False),
    Column("cause", Str, nullable=False),
    Column("confidence", Real, nullable=False),
    Column("decided_by", Str, nullable=False),
    Column("rules_version", Integer, nullable=False),
    Column("model_version", Str, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("provisional", Boolean, nullable=False),
    Column("changed_at", UtcMicros, nullable=False, comment="wall clock"),
    Index("ix_incident_revisions_incident", "cluster", "incident_id"),
    comment="history: one row each time component, cause or confidence changed",
)

incident_aliases = Table(
    "incident_aliases",
    metadata,
    cluster_column(),
    Column("alias", Str, primary_key=True, comment="an id that was replaced"),
    Column("incident_id", Str, nullable=False, comment="the id that it has now"),
    Index("ix_incident_aliases_incident", "cluster", "incident_id"),
    comment="old ids of incidents; labels follow them",
)

incident_outbox = Table(
    "incident_outbox",
    metadata,
    Column("seq", Integer, primary_key=True, comment="order in which they are sent"),
    Column("cluster", Str, nullable=False),
    Column("incident_id", Str, nullable=False),
    Column("subject_key", Str, nullable=False),
    Column("what", Str, nullable=False, comment="new, changed or retracted"),
    Column("revision", BigInteger, nullable=False, comment="number of distinct facts seen"),
    Column("provisional", Boolean, nullable=False),
    Column("incident", Str, comment="the incident as diagnose prints it, JSON; null where retracted"),
    Column("replaced_by", Str, comment="the id that the incident has now, where a retracted one lives on"),
    Column("created_us", BigInteger, nullable=False, comment="wall clock, us since 1970"),
    Column("sent_us", BigInteger, comment="wall clock; null: not delivered yet"),
    Index("ix_incident_outbox_sent_us", "sent_us", "seq"),
    comment="incidents for other systems; written with the decision, sent by the stream's relay",
)
