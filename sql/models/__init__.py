"""Tables of the warehouse, split by concern: facts, runs, decisions, operations. `metadata` holds them all."""

from sql.models.base import metadata
from sql.models.decisions import (
    decisions,
    episodes,
    evidence,
    fault,
    health_events,
    incident_aliases,
    incident_outbox,
    incident_revisions,
)
from sql.models.facts import (
    coverage,
    quarantine,
    run_fragments,
    signal_lines,
    signals,
    sources,
    stream_progress,
    stream_touched,
    training_progress,
)
from sql.models.operations import actions, components, ingests, labels, meta, power_hourly, telemetry_hourly
from sql.models.runs import hosts, job_runs
from sql.models.watching import watch_files

__all__ = [
    "actions",
    "components",
    "coverage",
    "decisions",
    "episodes",
    "evidence",
    "fault",
    "health_events",
    "hosts",
    "incident_aliases",
    "incident_outbox",
    "incident_revisions",
    "ingests",
    "job_runs",
    "labels",
    "meta",
    "metadata",
    "power_hourly",
    "quarantine",
    "run_fragments",
    "signal_lines",
    "signals",
    "sources",
    "stream_progress",
    "stream_touched",
    "telemetry_hourly",
    "training_progress",
    "watch_files",
]
