"""Was anything interrupted, and how did it look to the scheduler?

A run that reached its own end has no incident, however alarming its text. A log that just stops is cut or still
running. A host without a job has a fault when a signal on it is fatal to the work there.
"""

from __future__ import annotations

from dataclasses import dataclass

from classifiers.engine.resolve import base_weight, cleared, resolve
from schemas.subject import Event, JobRun, Subject
from schemas.taxonomy import is_named

#: Scheduler words for a run that ended well, and for runs that have not ended.
ENDED_WELL = frozenset({"COMPLETED", "SUCCEEDED", "COMPLETING"})
NOT_ENDED = frozenset({"RUNNING", "PENDING", "CONFIGURING", "SUSPENDED", "STAGE_OUT", "REQUEUED", "RESIZING"})
#: Least weight of a fault that makes a log without a scheduler's word an interruption.
LOG_FAULT = 0.25
#: A service that is back within this time was no incident, seconds.
BACK_WITHIN_S = 120.0
#: Fields that tell one service from another.
_OF_SERVICE = ("server", "target", "unit", "service")
#: Evidence on its own that something stopped, without being a cause.
STOP_TAGS = frozenset(
    {"timeout", "exit_code", "restart", "teardown", "cancel", "preempt", "time_limit", "oom", "nodefail"}
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """interrupted: whether there is an incident. hanging: allocated and without progress. word: for summaries."""

    interrupted: bool
    hanging: bool
    word: str
    why: str


def _stops(events: tuple[Event, ...]) -> list[Event]:
    """Events that say that something of the run stopped and after which no progress came."""
    return [e for e in events if not cleared(e) and (STOP_TAGS & e.tags or base_weight(e) >= LOG_FAULT)]


def _last_words(events: tuple[Event, ...]) -> Event | None:
    """The failure in which a job log's traceback ends, if nothing of the run's life comes after it."""
    own = [e for e in events if e.family == "job" and not cleared(e)]
    heads = [e for e in own if "traceback" in e.tags and not e.progress_after]
    for head in heads:
        later = [e for e in own if e.source_id == head.source_id and e.offset > head.offset]
        ends = [
            e for e in later if e.fatal != "n" and e.severity in ("error", "critical") and "traceback" not in e.tags
        ]
        life = [e for e in later if {"success", "ckpt_saved", "start", "resume"} & e.tags]
        if ends and not life:
            return ends[-1]
    return None


def of_run(run: JobRun, subject: Subject) -> Outcome:
    """The outcome of a job run."""
    if run.state in ENDED_WELL:
        return Outcome(False, False, run.state.lower(), "the scheduler says that the run completed")
    if run.planned_end:
        return Outcome(False, False, "ended by plan", "the run ended itself after a good save")
    if run.success and not run.in_job_attempt and run.state in ("", *NOT_ENDED):
        return Outcome(False, False, "finished", "the log says that the run reached its own end")
    if run.state and run.state not in NOT_ENDED:
        return Outcome(True, False, run.state, f"the scheduler's word is {run.state}")
    if run.in_job_attempt and not run.success:
        return Outcome(True, False, "restarted", "the job was restarted inside its allocation")
    stops = _stops(subject.events)
    if run.truncated and abrupt_boots(subject):
        return Outcome(True, False, "cut off", "the log breaks off and its host booted anew")
    if run.exit_code not in (None, 0) or run.exit_signal:
        return Outcome(True, False, "failed", f"exit code {run.exit_code}, signal {run.exit_signal}")
    if run.still_running and run.last_progress_us is not None:
        return Outcome(True, True, "hanging", "no progress for longer than ten steps while allocated")
    if stops:
        return Outcome(True, False, "stopped", f"{stops[0].signal} and no progress after it")
    if not run.success and (failure := _last_words(subject.events)) is not None:
        return Outcome(True, False, "stopped", f"a traceback ends in {failure.signal} and nothing comes after it")
    if run.end_known and not run.success:
        return Outcome(True, False, "ended", "an end marker is missing or says that the run did not succeed")
    return Outcome(False, False, "cut", "the log just stops: cut or still running")


def of_host(subject: Subject) -> Outcome:
    """The outcome of a fault episode: a signal fatal to the work there, or `maybe` with processes seen hit."""
    named = [
        e
        for e in subject.events
        if base_weight(e) > 0
        and is_named(resolve(e)[0])
        and "recovered" not in e.tags
        and not came_back(e, subject.events)
    ]
    fatal = [e for e in named if e.fatal == "y" and e.severity not in ("info",)]
    if fatal:
        return Outcome(True, False, "host fault", f"{fatal[0].signal} is fatal to the work on the host")
    hit = [e for e in subject.events if "process_hit" in e.tags or "nodefail" in e.tags or "boot" in e.tags]
    maybe = [e for e in named if e.fatal == "maybe" and e.severity not in ("info",)]
    if maybe and (hit or any(e.field("pid") not in ("", "'<unknown>'", "<unknown>") for e in maybe)):
        return Outcome(True, False, "host fault", f"{maybe[0].signal}, with processes hit")
    if abrupt_boots(subject):
        return Outcome(True, False, "host fault", "the host booted anew without having been shut down")
    lost = [e for e in subject.events if "nodefail" in e.tags and e.severity in ("error", "critical")]
    if lost and not any("recovered" in e.tags for e in subject.events):
        return Outcome(True, False, "host fault", f"{lost[0].signal}: the host was lost and did not come back")
    return Outcome(False, False, "health", "nothing fatal to the work on the host")


def came_back(event: Event, events: tuple[Event, ...]) -> bool:
    """Whether a service that failed was back within two minutes, and stayed: its own word says so ("recovered")."""
    names = _names(event)
    back = [
        e
        for e in events
        if "recovered" in e.tags
        and e.t is not None
        and event.t_last is not None
        and 0 <= e.t - event.t_last <= BACK_WITHIN_S
        and (not e.hosts or not event.hosts or set(e.hosts) & set(event.hosts))
        and resolve(e)[0] == resolve(event)[0]
        and (names == _names(e) or names & _names(e))
    ]
    if not back:
        return False
    first = min(e.t or 0.0 for e in back)
    return not any(e.signal == event.signal and e.id != event.id and (e.t or 0.0) > first for e in events)


def _names(event: Event) -> frozenset[str]:
    return frozenset(value for name in _OF_SERVICE if (value := event.field(name)))


def abrupt_boots(subject: Subject) -> list[Event]:
    """Boots in the middle of a log that no shutdown came before. A dmesg always begins with its own boot."""
    planned = [e for e in subject.events if "planned_boot" in e.tags]
    unclean = {e.source_id for e in subject.events if "unclean" in e.tags}
    return [
        e
        for e in subject.events
        if "boot" in e.tags
        and (e.offset > 0 or e.family == "scheduler" or e.source_id in unclean)
        and not any(_soon(p, e) for p in planned)
    ]


def _soon(planned: Event, boot: Event) -> bool:
    if planned.t is None or boot.t is None:
        return planned.source_id == boot.source_id and planned.offset < boot.offset
    return -60.0 <= boot.t - planned.t <= 1800.0


def outcome(subject: Subject) -> Outcome:
    """See `of_run` and `of_host`."""
    return of_run(subject.run, subject) if subject.run is not None else of_host(subject)
