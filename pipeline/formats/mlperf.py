"""MLPerf training log events (`:::MLLOG {json}`) inside job output: reading one event, and what it says.

No format of its own: submissions print these lines among everything else a job prints, often glued behind a task
label. `event(text)` returns the decoded object or None (torn lines are common at the end of a dead run), `stamp` its
`time_ms` as UTC, `step` the progress that it reports. Source: mlcommons/logging, mlperf_logging/mllog.
"""

from __future__ import annotations

import json
import re
from typing import Any

from schemas.facts import NO_STAMP, Stamp

MARK = ":::MLLOG"
_TIME = re.compile(r'"time_ms": ?(\d{12,14})\b')
_DECODER = json.JSONDecoder()

#: Keys whose events count finished work, with the metadata names that hold the count, best first.
_DONE = {
    "tracked_stats": (("step", "step_num", "iteration"), ("samples_count",)),
    "train_loss": (("step", "step_num"), ("samples_count",)),
    "block_stop": (("step", "step_num"), ("samples_count",)),
    "epoch_stop": (("epoch_num",),),
}


def event(text: str) -> dict[str, Any] | None:
    """The event of a line that holds one; None where there is none or it is torn."""
    at = text.find(MARK)
    start = text.find("{", at) if at >= 0 else -1
    if start < 0:
        return None
    try:
        found, _ = _DECODER.raw_decode(text, start)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def stamp(text: str) -> Stamp:
    """`time_ms` of the event in a line, torn or whole: milliseconds since 1970, UTC."""
    at = text.find(MARK)
    m = _TIME.search(text, at, at + 400) if at >= 0 else None
    return Stamp("utc", int(m[1]) * 1000) if m else NO_STAMP


def step(text: str) -> tuple[str, int, float | None] | None:
    """(series, completed count, seconds a step or None) that a line reports; None for all other events."""
    found = event(text)
    if found is None:
        return None
    key = found.get("key")
    names = _DONE.get(key) if isinstance(key, str) else None
    meta = found.get("metadata")
    if names is None or not isinstance(meta, dict):
        return None
    value = found.get("value")
    seconds: float | None = None
    if isinstance(value, dict):
        if any(str(k).startswith("validation") for k in value):
            return None
        timing = value.get("train_step_timing in s", value.get("train_step_time"))
        seconds = float(timing) if isinstance(timing, (int, float)) and timing > 0 else None
    for unit, group in zip(("epoch" if key == "epoch_stop" else "step", "samples"), names, strict=False):
        for name in group:
            count = meta.get(name)
            if isinstance(count, (int, float)) and not isinstance(count, bool) and count >= 0:
                return f"{unit}/mllog.{key}", int(count), seconds
    return None
