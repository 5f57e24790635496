"""What the engine decides on, and what it answers: plain data, no behaviour beyond simple properties.

A `Subject` is one job run (attempt) or one fault episode of a host, with every event that its evidence window
holds. `decide(subject)` (classifiers.engine) is a pure function from `Subject` to `Decision`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Begin of a step of `Decision.why` that is an assumption about clocks.
ASSUMED = "assumed: "


@dataclass(frozen=True, slots=True)
class JobRun:
    """One attempt of a job, assembled from fragments, elastic restarts and progress.

    Times are UTC microseconds or None. `end_known`: the end was printed by a scheduler or an end marker, else it is
    the last stamp seen. `success`: reached its own end. `truncated`: the log just stops, without any end.
    `attempt` counts from 0 in order of start within a job id.
    """

    run_key: str
    scheduler: str  # "" where only a log is known
    cluster: str
    job_id: str | None
    attempt: int
    start_us: int | None
    end_us: int | None
    end_known: bool
    state: str  # scheduler's word in upper case, "" if unknown
    exit_code: int | None
    exit_signal: int | None
    nodes: tuple[str, ...]
    n_nodes: int | None
    n_gpus: int | None
    user: str
    account: str
    name: str
    reason: str
    source_ids: tuple[str, ...]  # job logs that belong to the run
    assumed: tuple[str, ...] = ()  # assumptions in words: how logs were tied to the run, zone, year
    in_job_attempt: bool = False  # ended by an in-job restart (elastic agent, Ray, requeue)
    success: bool = False
    planned_end: bool = False  # exited by its own duration limit or signal handler after a good save
    truncated: bool = False
    still_running: bool | None = None  # None: not known
    first_step: int | None = None
    last_step: int | None = None
    last_progress_us: int | None = None
    step_s: float | None = None  # median seconds a step
    resume_step: int | None = None
    resume_path: str | None = None
    resume_us: int | None = None
    log_start_us: int | None = None
    log_end_us: int | None = None
    uncertainty_s: float = 1.0
    extra: tuple[str, ...] = ()
    # where the attempt stands in its logs: (source_id, first byte, byte after the last one or -1 for "to the end")
    spans: tuple[tuple[str, int, int], ...] = ()
    roots: tuple[str, ...] = ()  # input roots that its fragments and logs came from

    @property
    def label(self) -> str:
        return self.job_id or f"log {self.run_key[:8]}"


@dataclass(frozen=True, slots=True)
class Event:
    """A signal as the engine sees it: decoded, placed, merged over sources.

    component: a taxonomy id, or a deciding word that the engine resolves. role: `cause`, `symptom`, `either`,
    `context`. fatal: `y`, `maybe`, `n`. t: seconds since 1970 UTC, or None where nothing ties the source to a
    clock. seq: order among events that share a source (offset). ranks: first ranks, by time.
    local: the event comes from a host or device of the run; False for a neighbour or an unknown host.
    """

    id: str
    signal: str  # e.g. `xid.94`, `nccl.watchdog_timeout`
    rule: str
    component: str
    role: str
    severity: str
    fatal: str
    t: float | None
    t_last: float | None
    unc: float
    host: str
    device: str
    rank: int | None
    ranks: tuple[int, ...]
    n_ranks: int
    source: str  # label for people: inner path
    source_id: str
    family: str
    offset: int
    last_offset: int
    line: int | None
    count: int
    text: str
    fields: tuple[tuple[str, str], ...] = ()
    alt: str | None = None
    action: str = ""
    action_source: str = ""
    maturity: str = "stable"
    strength: str = "strong"  # `weak`: a generic failure line
    progress_after: int = 0  # completed steps of the whole job after the event's last occurrence
    progress_before: int = 0  # completed steps of the attempt seen before its first occurrence
    tags: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()  # all hosts that said it, or that it names (a node list); first = `host`
    back: str | None = None  # signal that the line itself names as its cause
    back_component: str = ""  # what that signal would argue for, had it been printed
    cause: str = ""  # the free cause string of a decision
    meaning: str = ""
    links: tuple[tuple[str, str, float], ...] = ()  # (cause signal or glob, where, within_s)
    keys: tuple[str, ...] = ()  # distinct identity strings of the folded signals (`op=ALLREDUCE;seq=78`), at most 32
    at_least: bool = False  # `t` was borrowed from an earlier line: the event came then or later
    order: int = 0  # position in its source family where no clock helps (offset)

    def field(self, name: str, default: str = "") -> str:
        for key, value in self.fields:
            if key == name:
                return value
        return default


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether a kind of log of a host was there for the window of a subject."""

    host: str
    what: str  # `kernel log`, `job log`, `scheduler record`, `bmc log`
    from_us: int | None
    to_us: int | None
    seen: bool


@dataclass(frozen=True, slots=True)
class Subject:
    """Everything that a decision may look at. `run` is None for a fault episode of a host.

    `history`: earlier crashes of programs (28 days, strictly before the run's start) on the same hosts.
    `peers`: runs that were interrupted within minutes on other hosts, as (run_key, end_us, n_nodes) and hosts' events
    of the site, for faults that several jobs share.
    """

    key: str
    kind: str  # `job_interruption` | `host_fault`
    run: JobRun | None
    events: tuple[Event, ...]
    history: tuple[Event, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    host: str = ""
    sibling_runs: tuple[JobRun, ...] = ()  # other runs of the same input root or job id
    site_events: tuple[Event, ...] = ()  # same minutes, other hosts: for shared causes
    facts: tuple[str, ...] = ()  # `name=value` of the sources involved (driver_version=...)
    previous: tuple[Event, ...] = ()  # events of the attempt before this one of the same job


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    event: Event
    role: str  # root | cascade | teardown | context


@dataclass(frozen=True, slots=True)
class Action:
    kind: str
    target: str
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class Restart:
    advice: str  # restart | restart_excluding | do_not_restart | wait
    exclude_hosts: tuple[str, ...]
    resume_step: int | None
    resume_path: str | None
    resume_us: int | None
    lost_gpu_hours: float | None
    why: str


@dataclass(frozen=True, slots=True)
class NotSeen:
    host: str
    what: str
    from_us: int | None
    to_us: int | None
    get: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for one subject. `incident` False: nothing was interrupted, `evidence` holds health events only."""

    subject_key: str
    kind: str
    incident: bool
    incident_id: str
    fault_id: str
    component: str
    cause: str
    confidence: float
    decided_by: str
    summary: str
    first_host: str | None
    first_gpu: int | None
    first_rank: int | None
    onset_us: int | None
    evidence: tuple[EvidenceItem, ...]
    alternatives: tuple[tuple[str, float], ...] = ()
    not_seen: tuple[NotSeen, ...] = ()
    restart: Restart | None = None
    action: Action | None = None
    health: tuple[EvidenceItem, ...] = ()
    why: tuple[str, ...] = ()  # the steps of the reasoning, in words, for `explain`
    run: JobRun | None = None
    host: str = ""
    device: str = ""
    gpu_uuid: str = ""
    gpu_serial: str = ""
    driver_version: str = ""
    rules_version: int = 0
    model_version: str = ""
    revision: int = 0
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed of zones, years and clocks, and of which logs are the run's, in words."""
        own = self.run.assumed if self.run is not None else ()
        return tuple(dict.fromkeys((*own, *(w.removeprefix(ASSUMED) for w in self.why if w.startswith(ASSUMED)))))
