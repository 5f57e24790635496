"""Events, runs and subjects for tests, with sensible values for everything that a test does not care about."""

from __future__ import annotations

from typing import Any

from schemas.identity import digest
from schemas.subject import Event, JobRun, Subject

T0 = 1_750_000_000.0


def event(signal: str, component: str, t: float | None = 0.0, **over: Any) -> Event:
    """An event of a signal at T0 + t seconds; a fatal cause on host n1 in a kernel log unless told otherwise."""
    values: dict[str, Any] = {
        "id": digest("test", signal, repr(t), repr(sorted(over.items(), key=str))),
        "signal": signal,
        "rule": signal,
        "component": component,
        "role": "cause",
        "severity": "error",
        "fatal": "y",
        "t": None if t is None else T0 + t,
        "t_last": None if t is None else T0 + t,
        "unc": 0.5,
        "host": "n1",
        "device": "",
        "rank": None,
        "ranks": (),
        "n_ranks": 0,
        "source": "kern.log",
        "source_id": "kern",
        "family": "kernel",
        "offset": int((t or 0) * 100) + 10_000,
        "last_offset": int((t or 0) * 100) + 10_000,
        "line": 1,
        "count": 1,
        "text": f"{signal} happened",
        "cause": signal,
        "meaning": signal,
        "hosts": ("n1",),
        "order": int((t or 0) * 1e6) + 10**9,
    }
    values.update(over)
    if "host" in over and "hosts" not in over:
        values["hosts"] = (over["host"],) if over["host"] else ()
    return Event(**values)


def said(signal: str, component: str, t: float | None = 0.0, **over: Any) -> Event:
    """The same from job output, which names no host."""
    values: dict[str, Any] = {"family": "job", "source": "job.log", "source_id": "job", "host": "", "hosts": ()}
    return event(signal, component, t, **{**values, **over})


def run(**over: Any) -> JobRun:
    """A run of two hosts that failed 60 s after T0, with progress until T0."""
    values: dict[str, Any] = {
        "run_key": "r1",
        "scheduler": "slurm",
        "cluster": "c",
        "job_id": "17",
        "attempt": 0,
        "start_us": int((T0 - 7200) * 1e6),
        "end_us": int((T0 + 60) * 1e6),
        "end_known": True,
        "state": "FAILED",
        "exit_code": 1,
        "exit_signal": None,
        "nodes": ("n1", "n2"),
        "n_nodes": 2,
        "n_gpus": 16,
        "user": "ada",
        "account": "lab",
        "name": "train",
        "reason": "",
        "source_ids": ("job",),
        "first_step": 1,
        "last_step": 100,
        "last_progress_us": int(T0 * 1e6),
    }
    values.update(over)
    return JobRun(**values)


def subject(*events: Event, **over: Any) -> Subject:
    """A job interruption with these events; `run=None` makes it an episode of host n1."""
    the_run = over.pop("run", run())
    values: dict[str, Any] = {
        "key": "r1" if the_run else "e1",
        "kind": "job_interruption" if the_run else "host_fault",
        "run": the_run,
        "events": tuple(events),
        "host": "" if the_run else "n1",
    }
    values.update(over)
    return Subject(**values)
