"""Job runs (one row an attempt) and hosts: derived from facts, replaced as a whole."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table

from sql.models.base import cluster_column, metadata
from sql.types import Json, Real, Str, UtcMicros

job_runs = Table(
    "job_runs",
    metadata,
    cluster_column(),
    Column("run_key", Str, primary_key=True),
    Column("scheduler", Str, nullable=False, comment="empty where only a log is known"),
    Column("scheduler_cluster", Str, nullable=False, comment="cluster as the scheduler names it"),
    Column("job_id", Str),
    Column("attempt", Integer, nullable=False, comment="0 is the first, in order of start"),
    Column("started_at", UtcMicros),
    Column("ended_at", UtcMicros),
    Column("end_known", Boolean, nullable=False, comment="false: the end is the last stamp seen"),
    Column("state", Str, nullable=False, comment="the scheduler's word; empty if unknown"),
    Column("exit_code", BigInteger),
    Column("exit_signal", Integer),
    Column("nodes", Json, nullable=False),
    Column("n_nodes", Integer),
    Column("n_gpus", Integer),
    Column("user", Str, nullable=False, comment="user.name"),
    Column("account", Str, nullable=False),
    Column("name", Str, nullable=False),
    Column("reason", Str, nullable=False),
    Column("source_ids", Json, nullable=False, comment="job logs that belong to the run"),
    Column("assumed", Json, nullable=False, comment="assumptions in words"),
    Column("in_job_attempt", Boolean, nullable=False, comment="ended by a restart inside the job"),
    Column("success", Boolean, nullable=False, comment="reached its own end"),
    Column("planned_end", Boolean, nullable=False, comment="left by its own duration limit after a good save"),
    Column("truncated", Boolean, nullable=False, comment="the log just stops"),
    Column("still_running", Boolean, comment="null: not known"),
    Column("first_step", BigInteger),
    Column("last_step", BigInteger),
    Column("last_progress_at", UtcMicros),
    Column("step_s", Real, comment="median seconds a step"),
    Column("resume_step", BigInteger),
    Column("resume_path", Str),
    Column("resume_at", UtcMicros),
    Column("log_started_at", UtcMicros),
    Column("log_ended_at", UtcMicros),
    Column("time_uncertainty_s", Real, nullable=False),
    Column("extra", Json, nullable=False),
    Column("more", Json, nullable=False, comment="where it stands in its logs, input roots"),
    Index("ix_job_runs_job", "cluster", "job_id", "started_at"),
    Index("ix_job_runs_started_at", "cluster", "started_at"),
    Index("ix_job_runs_ended_at", "cluster", "ended_at"),
    comment="one row an attempt of a job",
)

hosts = Table(
    "hosts",
    metadata,
    cluster_column(),
    Column("host", Str, primary_key=True, comment="host.name"),
    Column("rack", Str),
    Column("leaf", Str, comment="leaf switch"),
    Column("n_gpus", Integer),
    Column("driver_version", Str),
    Column("gpus", Json, comment="[{index, pci, uuid, serial, model}]"),
    Column("first_seen_at", UtcMicros),
    Column("last_seen_at", UtcMicros),
    comment="hosts seen in any log or record",
)
