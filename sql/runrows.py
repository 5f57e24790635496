"""Job runs as rows of `job_runs` and back, and as JSON inside a decision. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from schemas.subject import JobRun
from sql.models import job_runs
from sql.types import tuples

#: Column of the table for fields of `JobRun` whose names differ.
_COLUMN = {
    "cluster": "scheduler_cluster",
    "start_us": "started_at",
    "end_us": "ended_at",
    "last_progress_us": "last_progress_at",
    "resume_us": "resume_at",
    "log_start_us": "log_started_at",
    "log_end_us": "log_ended_at",
    "uncertainty_s": "time_uncertainty_s",
}
_NAMES = tuple(f.name for f in fields(JobRun))
#: Fields without a column of their own; they stand in the JSON column `more`.
_MORE = tuple(n for n in _NAMES if _COLUMN.get(n, n) not in job_runs.c)
_OWN = tuple(n for n in _NAMES if n not in _MORE)
_FLAGS = frozenset({"end_known", "in_job_attempt", "success", "planned_end", "truncated"})


def run_row(cluster: str, run: JobRun) -> dict[str, Any]:
    """The row of a run in a cluster's warehouse; `scheduler_cluster` keeps the cluster that the record names."""
    row = {_COLUMN.get(name, name): getattr(run, name) for name in _OWN}
    return {**row, "cluster": cluster, "more": {name: getattr(run, name) for name in _MORE}}


def run_of(row: Mapping[str, Any]) -> JobRun:
    """The run that `run_row` made the row of."""
    return _build({**{name: row[_COLUMN.get(name, name)] for name in _OWN}, **row["more"]})


def run_json(run: JobRun) -> dict[str, Any]:
    """The run as JSON, fields at their default left out."""
    return {f.name: value for f in fields(JobRun) if (value := getattr(run, f.name)) != f.default}


def run_from_json(document: Mapping[str, Any]) -> JobRun:
    """The run that `run_json` made the document of."""
    return _build(dict(document))


def _build(values: dict[str, Any]) -> JobRun:
    plain: dict[str, Any] = {name: tuples(value) for name, value in values.items() if name in _NAMES}
    plain.update({name: bool(plain[name]) for name in _FLAGS & plain.keys()})
    return JobRun(**plain)
