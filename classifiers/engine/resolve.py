"""What one event may be a cause of, and how likely, before any other event is looked at.

A weight is the probability that an event of this kind, seen in the evidence window of an interruption and not
followed by progress, is the cause. The base values are our judgement from the vendor's fatality and role columns;
`docs/evaluation.md` shows how they score.
"""

from __future__ import annotations

import re

from schemas.subject import Event

#: Components that stand for "no cause by itself".
SILENT = frozenset({"informational", "symptom_only", "clock", "by_log", "by_nested", "by_exitcode", "host_boot"})
_BY_FATAL = {"y": 0.92, "maybe": 0.72, "n": 0.3}
_BY_SEVERITY = {"info": 0.35, "warning": 0.65}
#: Steps of the whole job after an event that show that it did not stop the job.
CLEARED_STEPS = 2

_LOCAL = re.compile(
    r"/(?:tmp|scratch|local\w*|var|nvme\w*|ssd\w*|raid\w*|dev/shm|data\d+|mnt/(?:nvme|ssd|local)\w*)(?:/|\b)"
)
_REMOTE = re.compile(
    r"/(?:gpfs|lustre|nfs|fsx|beegfs|weka|vast|ceph|shared|efs|gcs|s3|fs\d*|home|work|mnt)(?:/|\b)|[a-z0-9]+://"
)


def storage_component(event: Event) -> tuple[str, str | None]:
    """Local disk or remote service, by the path on the line; (component, alternative).

    Only a block device's own error makes it the disk: a job's EIO on a local path is as often a full or broken
    file system, so it is named with the service as alternative.
    """
    text = event.text
    if _LOCAL.search(text):
        return "host.ssd", "dependency"
    if _REMOTE.search(text):
        return "dependency", "host.ssd"
    return "dependency", "software.bug"


#: Exceptions that a process raises because of another one, or that name no place.
_SECOND_HAND = re.compile(
    r"(?:Dist\w*|Connection\w*|BrokenPipe\w*|EOF|Timeout\w*|\w*Timeout|ActorDied|RayTask|RayActor|ChildFailed|"
    r"Signal|ProcessExited|ProcessRaised|CalledProcess|Remote\w*|Rendezvous\w*|Cancelled|KeyboardInterrupt|SystemExit)"
    r"(?:Error|Exception)?$"
)


def own_exception(event: Event) -> bool:
    """Whether a generic last line of a traceback speaks of the program's own failure, not of another process."""
    if event.strength != "weak" or "exception" not in event.tags or event.family != "job":
        return False
    kind = event.field("t").rsplit(".", 1)[-1]
    return bool(kind) and _SECOND_HAND.match(kind) is None


def resolve(event: Event) -> tuple[str, str | None]:
    """The component that the event argues for and its alternative; ("", None) where it argues for none.

    An uncaught exception that no rule knows is most often the program's own; it argues weakly for that.
    """
    component = event.component
    if component == "by_log" and own_exception(event):
        return "software.bug", None
    if component == "storage":
        return storage_component(event)
    if component == "sdc_or_software":
        return "software.bug", "gpu.sdc"
    if component == "host_unknown":
        return "unknown", "host.os"
    if component.startswith("by_") or component in SILENT:
        return "", None
    return component, event.alt


def cleared(event: Event) -> bool:
    """Whether training went on after the event's last occurrence. Wrong results do not stop training: no progress
    clears them."""
    return event.progress_after >= CLEARED_STEPS and event.component != "gpu.sdc"


def base_weight(event: Event, *, precursor: bool = False) -> float:
    """See the module's docstring. 0 for symptoms, context, cleared and silent events.

    precursor: what it would weigh had training not gone on after it.
    """
    component, _ = resolve(event)
    if not component or (cleared(event) and not precursor):
        return 0.0
    if event.role in ("symptom", "context") and not own_exception(event):
        return 0.0
    if "corrected" in event.tags or "advice" in event.tags or "teardown" in event.tags:
        return 0.0
    weight = _BY_FATAL.get(event.fatal, 0.5)
    if event.role == "either":
        weight *= 0.75
    weight *= _BY_SEVERITY.get(event.severity, 1.0)
    if event.component in ("host_unknown", "sdc_or_software"):
        weight = min(weight, 0.3)
    if component.startswith("unknown"):
        return 0.0
    if event.maturity == "incubating":
        weight *= 0.8
    if event.strength == "weak":
        weight = min(weight, 0.45)
    return round(weight, 4)
