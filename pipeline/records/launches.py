"""The launch of a step's tasks as a node's slurmd logs it: a moment that the scheduler's record tells of as well.

Source of the wording: SchedMD/slurm src/slurmd/slurmd/req.c (`launch task StepId=700.0 request from UID:...`; before
20.11 the id stands without its name).
"""

from __future__ import annotations

import re

from pipeline.formats.base import Frame
from schemas.identity import short_host
from schemas.moments import moment_fact, step_event

#: Literal of the lines, for `LineFormat.marks`.
LAUNCH = b"launch task "
#: Real steps alone: the batch and extern steps wait for the prolog, so their records begin earlier.
_LAUNCH = re.compile(r"(?:launch_tasks: )?launch task (?:StepId=)?(\d+(?:_\d+)?\.\d+)(?:\+\d+)? request from ")


def launched(frame: Frame) -> dict[str, str]:
    """The moment of the launch on the node's own clock, for `SourceFact.facts`; {} if the line is no launch."""
    m = _LAUNCH.match(frame.text)
    if m is None or frame.stamp.kind not in ("utc", "local", "noyear") or frame.stamp.borrowed:
        return {}
    host = short_host(frame.host) if frame.host else ""
    name, _, value = moment_fact(host, step_event(m[1]), frame.stamp.kind, frame.stamp.us).partition("=")
    return {name: value}
