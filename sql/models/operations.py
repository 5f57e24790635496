"""Tables of people and of operation: ingests, labels, actions (outbox), telemetry, components, meta."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table

from sql.models.base import cluster_column, metadata
from sql.types import Json, Real, Str, UtcMicros

ingests = Table(
    "ingests",
    metadata,
    Column("ingest_id", Integer, primary_key=True),
    Column("cluster", Str, nullable=False),
    Column("started_at", UtcMicros, nullable=False, comment="wall clock"),
    Column("finished_at", UtcMicros, comment="null: running, or it died"),
    Column("args", Json, nullable=False),
    Column("stats", Json),
    Index("ix_ingests_cluster", "cluster", "ingest_id"),
    comment="one row a load",
)

labels = Table(
    "labels",
    metadata,
    Column("label_id", Integer, primary_key=True),
    Column("cluster", Str, nullable=False),
    Column("incident_id", Str, nullable=False, comment="the id at the time; aliases are resolved when read"),
    Column("component", Str, nullable=False),
    Column("note", Str, nullable=False),
    Column("who", Str, nullable=False),
    Column("labelled_at", UtcMicros, nullable=False),
    Index("ix_labels_incident", "cluster", "incident_id"),
    comment="what people said; the latest of an incident wins over any decision",
)

actions = Table(
    "actions",
    metadata,
    cluster_column(),
    Column("action_id", Str, primary_key=True, comment="digest of cluster, incident, kind and target"),
    Column("incident_id", Str, nullable=False),
    Column("fault_id", Str, nullable=False),
    Column("kind", Str, nullable=False),
    Column("target", Str, nullable=False),
    Column("why", Str, nullable=False),
    Column("source", Str, nullable=False, comment="where the recommendation comes from"),
    Column("component", Str, nullable=False),
    Column("confidence", Real, nullable=False),
    Column("state", Str, nullable=False, comment="proposed, withdrawn, refused, running, done, failed"),
    Column("dry_run", Boolean, nullable=False),
    Column("policy", Str, comment="rule of the policy that allowed or refused it"),
    Column("command", Json, comment="what was, or would have been, run"),
    Column("result", Str),
    Column("attempts", Integer, nullable=False),
    Column("created_at", UtcMicros, nullable=False, comment="wall clock"),
    Column("started_at", UtcMicros),
    Column("finished_at", UtcMicros),
    Index("ix_actions_state", "cluster", "state"),
    Index("ix_actions_incident", "cluster", "incident_id"),
    comment="outbox of recommended actions; one process carries them out",
)

telemetry_hourly = Table(
    "telemetry_hourly",
    metadata,
    cluster_column(),
    Column("host", Str, primary_key=True),
    Column("device", Str, primary_key=True, comment="empty for the host itself"),
    Column("metric", Str, primary_key=True, comment="gpu_temperature_c, gpu_power_w, gpu_sm_clock_mhz ..."),
    Column("hour_at", UtcMicros, primary_key=True),
    Column("source_id", Str, primary_key=True),
    Column("n", BigInteger, nullable=False),
    Column("total", Real, nullable=False),
    Column("low", Real, nullable=False),
    Column("high", Real, nullable=False),
    # All that a mean over the fleet reads: without it each row of each device would be sorted.
    Index("ix_telemetry_hourly_metric", "cluster", "metric", "hour_at", "host", "n", "total", "low", "high"),
    comment="telemetry by hour; a source's hour is replaced as a whole",
)

power_hourly = Table(
    "power_hourly",
    metadata,
    cluster_column(),
    Column("host", Str, primary_key=True),
    Column("hour_at", UtcMicros, primary_key=True),
    Column("source_id", Str, primary_key=True),
    Column("n", BigInteger, nullable=False, comment="changes of GPUs over 1 to 10 s that were looked at"),
    Column("devices", Integer, nullable=False, comment="GPUs whose samples are 10 s apart or less"),
    Column("typical_w", Real, nullable=False, comment="usual size of a change of one GPU"),
    Column("n_swings", Integer, nullable=False, comment="changes above 8 times the usual, GPUs of a moment as one"),
    Column("largest_w", Real, comment="the largest swing of all GPUs of the host"),
    Column("swings", Json, nullable=False, comment="[us since 1970, seconds, watts, GPUs]"),
    comment="swings of power within seconds; a source's hour is replaced as a whole",
)

components = Table(
    "components",
    metadata,
    Column("component", Str, primary_key=True),
    Column("meaning", Str, nullable=False),
    Column("llama3_row", Str),
    Column("domain", Str, nullable=False),
    Column("who_acts", Str, nullable=False),
    Column("counts_as", Str, nullable=False),
    Column("position", Integer, nullable=False, comment="order in the taxonomy"),
    comment="the taxonomy, filled again by each `db upgrade`",
)

meta = Table(
    "meta",
    metadata,
    Column("name", Str, primary_key=True),
    Column("value", Str, nullable=False),
    comment="digest of the views, ruleset number in use",
)
