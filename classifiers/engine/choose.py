"""Weighing the candidates: which one is the root, how sure, what else it could be.

Order of evidence (see the knowledge): an explicit statement first; then, among candidates of comparable weight, the
earliest; where no clock tells, the stronger, hardware before job text. What another candidate explains is a
consequence and no rival.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from classifiers.engine.candidates import Candidate
from classifiers.engine.explain import before, linked
from classifiers.engine.first import place_of
from classifiers.engine.outcome import Outcome
from classifiers.engine.resolve import base_weight, cleared, resolve
from classifiers.engine.shapes import SHAPES
from schemas.subject import Event, JobRun, Subject
from schemas.taxonomy import components, is_named

#: Candidates at least this strong, relative to the strongest, compete by order.
COMPARABLE = 0.6
#: Messages of two devices of one host this close together are not ordered by cause, seconds.
DEVICES_TIE_S = 10.0
#: A line of a job's output that fits two components leaves this much to the other.
JOB_TEXT_DOUBT = 0.15
#: What a host's event still weighs where only its place among the inputs says that the host was the job's.
ASSUMED_HOST = 0.8
#: What a cancellation weighs that only ended a hang: too little to be an answer.
HUNG = 0.25
#: A cancelled job that had stood still for this long, and for half of its life, was cancelled because it hung, seconds.
STOOD_STILL_S = 3600.0
#: How far behind an abort its `what():` line may stand, bytes: other ranks print between them.
WHAT_WITHIN = 4096
#: What a job's line that fits two components still weighs where the kernel log that could tell them apart is missing.
WITHOUT_HOST_LOG = 0.6
#: No answer is surer than this.
CEILING = 0.97
_ANNOUNCED = re.compile(
    r"(?i)\b(?:(?:planned|scheduled|announced|regular|quarterly|monthly)[ _-]"
    r"(?:maint\w*|upgrade|downtime|outage|shutdown|reboot)"
    r"|maint\w*[ _-](?:window|reservation|mode|period|starts?|begins?)"
    r"|(?:firmware|driver|kernel|os)[ _-](?:upgrade|rollout)[ _-]window|(?:upgrade|downtime)[ _-]window)\b"
)
#: Signals that are consequences where an event with this tag or signal stands before them in the same log: a watchdog
#: ends its process by an abort, and a rendezvous whose connection broke had lost its other side.
_AFTER = {"cpp_terminate": "timeout", "fatal_python": "timeout", "pt_rdzv_conn": "store_conn_broke"}
_HARDWARE = frozenset({"gpu", "net", "host", "facility"})


def _domain(component: str) -> str:
    return component.split(".", 1)[0]


def _family(event: Event) -> str:
    if event.family == "job":
        return "job"
    return "hardware" if _domain(resolve(event)[0]) in _HARDWARE else "system"


def from_events(subject: Subject) -> list[Candidate]:
    """One candidate an event that may be a cause."""
    out = []
    heavy = [e for e in subject.events if base_weight(e) >= 0.5]
    for event in subject.events:
        if _aftermath(event, subject):
            continue
        # Heat and link errors come minutes before the loss that they cause, while training still goes on.
        precursor = cleared(event) and any(linked(event, e) and before(e, event) is not True for e in heavy)
        weight = base_weight(event, precursor=precursor)
        component, alt = resolve(event)
        if alt and event.family == "job" and _host_log_missing(event, subject):
            weight = round(weight * WITHOUT_HOST_LOG, 4)
        if "assumed_host" in event.tags:
            weight = round(weight * ASSUMED_HOST, 4)
        if weight > 0 and component and is_named(component):
            out.append(
                Candidate(
                    component,
                    weight,
                    event.cause or event.signal,
                    (event,),
                    event.meaning or event.signal,
                    _family(event),
                    alt,
                )
            )
    return out


def _host_log_missing(event: Event, subject: Subject) -> bool:
    """Whether kernel logs of the run are at hand, but not that of the host where the job's line was printed.

    Where no host's log is there, it is a report without them, and the line has to do; where only this one is missing,
    the word that would have told a lost device from a program's error is likely in it.
    """
    logs = {row.host: row.seen for row in subject.coverage if row.what == "kernel log" and row.host}
    place = place_of(event, subject.run)
    return any(logs.values()) and place is not None and logs.get(place) is False


def _aftermath(event: Event, subject: Subject) -> bool:
    """Whether a line is only what a process says that something else ended: see `_AFTER`, and an abort whose reason
    stands in the `what():` line after it."""
    if event.signal == "cpp_terminate" and any(_says_why(event, e) for e in subject.events):
        return True
    if event.signal == "fatal_python" and any(
        e.signal == "cpp_terminate" and e.source_id == event.source_id and 0 < event.offset - e.offset <= WHAT_WITHIN
        for e in subject.events
    ):
        return True
    mark = _AFTER.get(event.signal)
    return mark is not None and any(
        (mark in e.tags or mark == e.signal)
        and e.strength != "weak"
        and e.source_id == event.source_id
        and before(e, event) is True
        for e in subject.events
        if not cleared(e)
    )


def _says_why(abort: Event, line: Event) -> bool:
    near = line.source_id == abort.source_id and 0 < line.offset - abort.offset <= WHAT_WITHIN
    return near and "what():" in line.text and base_weight(line) > 0


def from_back_pointers(subject: Subject) -> list[Candidate]:
    """Causes that are only named by their consequences ("caused by previous Xid 149"), first named first."""
    printed = {e.signal for e in subject.events}
    named = [e for e in subject.events if e.back and e.back not in printed and is_named(e.back_component or "unknown")]
    return [
        Candidate(e.back_component, 0.8, e.back, (e,), f"the line names {e.back} as its cause", "hardware")
        for e in named
        if e.back and e.back_component in components()
    ]


def announced(subject: Subject) -> str:
    """The words by which a maintenance was announced: job comment, reason of the run, drain or log text; "" if none."""
    run = subject.run
    texts = [] if run is None else [run.reason, *(x.split("=", 1)[-1] for x in run.extra if "omment" in x)]
    texts.extend(e.text for e in subject.events if _explains_itself(e))
    return next((m[0] for t in texts if (m := _ANNOUNCED.search(t))), "")


def _explains_itself(event: Event) -> bool:
    """Whether a line may say why somebody stopped something: reasons, cancellations, events of the cluster."""
    return bool({"maintenance", "cancel"} & event.tags) or "reason" in event.signal or event.family == "cluster"


def from_state(subject: Subject, result: Outcome) -> list[Candidate]:
    """What the scheduler's own word says of the cause."""
    run = subject.run
    if run is None:
        return []
    tags = {t for e in subject.events for t in e.tags}
    told = tuple(e for e in subject.events if {"preempt", "time_limit", "cancel", "oom", "maintenance"} & e.tags)
    state = run.state
    out = []
    words = announced(subject)
    if words and state not in ("PREEMPTED", "TIMEOUT", "OUT_OF_MEMORY"):
        spoken = tuple(e for e in subject.events if _ANNOUNCED.search(e.text) and e.family != "kernel")
        out.append(
            Candidate(
                "maintenance.planned",
                0.86,
                "announced_maintenance",
                spoken,
                f"an announced reason: {words}",
                "scheduler",
                "scheduler.cancelled",
                final=True,
            )
        )
    if state == "PREEMPTED" or "preempt" in tags:
        out.append(
            Candidate(
                "scheduler.preempted",
                0.95,
                "preempted",
                _with(told, "preempt"),
                "a higher priority took the nodes",
                "scheduler",
                None,
                final=True,
            )
        )
    if state in ("TIMEOUT", "DEADLINE") or "time_limit" in tags:
        out.append(
            Candidate(
                "scheduler.time_limit",
                0.9,
                "time_limit",
                _with(told, "time_limit"),
                "the time limit was reached",
                "scheduler",
                "unknown",
                final=not result.hanging,
            )
        )
    if state == "OUT_OF_MEMORY":
        out.append(
            Candidate(
                "software.bug", 0.88, "oom_kill", _with(told, "oom"), "the job passed its memory limit", "scheduler"
            )
        )
    if state == "CANCELLED" or ("cancel" in tags and state in ("", "RUNNING")):
        out.append(
            Candidate(
                "scheduler.cancelled",
                HUNG if _stood_still(run) else 0.8,
                "cancelled",
                _with(told, "cancel"),
                "the job was cancelled",
                "scheduler",
                "unknown",
            )
        )
    if state in ("KILLED", "DELETED") and run.scheduler == "k8s":
        # Its pods were stopped, and no pod or event says that it failed, was evicted or made room: someone deleted it.
        out.append(
            Candidate(
                "scheduler.cancelled",
                0.6,
                "deleted",
                _with(subject.events, "teardown"),
                "its pods were stopped without having failed",
                "scheduler",
                "unknown",
            )
        )
    return out


def _stood_still(run: JobRun) -> bool:
    """Whether a run had made no step for most of its life when it was cancelled, though its log does not say when it
    stopped: bars without stamps. All its steps, had it begun with the first one, fit into far less time."""
    if (
        run.start_us is None
        or run.end_us is None
        or run.last_progress_us is None
        or not run.step_s
        or not run.last_step
    ):
        return False
    lived, silent = (run.end_us - run.start_us) / 1e6, (run.end_us - run.last_progress_us) / 1e6
    least = max(STOOD_STILL_S, lived / 2)
    return silent > least and lived - run.last_step * run.step_s > least


def _with(events: Sequence[Event], tag: str) -> tuple[Event, ...]:
    return tuple(e for e in events if tag in e.tags)


def gather(subject: Subject, result: Outcome) -> list[Candidate]:
    """All candidates: from events, from the scheduler's word, from shapes."""
    shaped = [c for shape in SHAPES for c in shape(subject)]
    return [*from_events(subject), *from_back_pointers(subject), *from_state(subject, result), *shaped]


def _explains(a: Candidate, b: Candidate) -> bool:
    """Whether `a` makes `b` a consequence."""
    if a.root is None or b.root is None or a is b:
        return False
    if linked(a.root, b.root) and not (linked(b.root, a.root) and before(a.root, b.root) is not True):
        return True
    if a.family == "shape" and any(e.id == b.root.id for e in a.events):
        return True
    # A strong cause in the system explains what the job printed from then on; a strong line of the job explains the
    # generic failure lines after it.
    if b.family == "job" and before(b.root, a.root) is not True:
        sure_host = "assumed_host" not in a.root.tags
        if a.family == "hardware" and sure_host and a.weight >= 0.6 and a.weight > b.weight - 0.25:
            return True
        if a.family == "job" and a.root.strength == "strong" and b.root.strength == "weak" and a.weight >= b.weight:
            return True
    return False


def _carried(candidates: Sequence[Candidate]) -> list[Candidate]:
    """A cause that the knowledge links to a heavier consequence is at least nearly as likely as that."""
    out = []
    for c in candidates:
        heavier = [
            o.weight
            for o in candidates
            if o is not c and c.root and o.root and linked(c.root, o.root) and before(o.root, c.root) is not True
        ]
        out.append(replace(c, weight=max([c.weight, *(round(0.9 * w, 4) for w in heavier)])))
    return out


def _earlier(a: Candidate, b: Candidate) -> bool | None:
    if a.root is None or b.root is None:
        return None
    x, y = a.root, b.root
    if x.device and y.device and x.device != y.device and x.host == y.host and _close(x, y):
        return None  # two devices of one host: seconds between their messages say nothing about cause
    return before(x, y)


def _close(x: Event, y: Event) -> bool:
    return x.t is not None and y.t is not None and abs(x.t - y.t) <= DEVICES_TIE_S


def rank(candidates: Sequence[Candidate], result: Outcome, *, hang_seen: bool = False) -> list[Candidate]:
    """Candidates with consequences marked down, the chosen one first.

    hang_seen: a time-out was printed before the job was cancelled, so the cancelling hand only cleaned up.
    """
    candidates = _carried(candidates)
    marked: list[Candidate] = []
    for c in candidates:
        # an explicit statement is about the whole, whatever explains the line that it stands on
        by = [o for o in candidates if not c.final and _explains(o, c) and not _explains(c, o)]
        marked.append(replace(c, weight=round(c.weight * 0.25, 4)) if by else c)
    marked = _supported(marked)
    finals = [c for c in marked if c.final]
    faults = [c for c in marked if not c.final and c.family != "scheduler" and c.weight >= 0.5]
    if finals:
        top_final = max(finals, key=lambda c: c.weight)
        rival = [f for f in faults if _earlier(f, top_final) is True and top_final.component == "scheduler.time_limit"]
        if not rival:
            return _order(marked, top_final)
    cancelled = [c for c in marked if c.component == "scheduler.cancelled"]
    if cancelled and faults:
        marked = [c if c.component != "scheduler.cancelled" else replace(c, weight=0.2) for c in marked]
    elif cancelled and (result.hanging or hang_seen):
        marked = [c if c.component != "scheduler.cancelled" else replace(c, weight=HUNG) for c in marked]
    if not marked:
        return []
    best = max(c.weight for c in marked)
    near = [c for c in marked if c.weight >= COMPARABLE * best]
    chosen = near[0]
    for c in near[1:]:
        order = _earlier(c, chosen)
        stronger = (c.weight, c.family == "hardware", c.component) > (
            chosen.weight,
            chosen.family == "hardware",
            chosen.component,
        )
        if order is True or (order is None and stronger):
            chosen = c
    return _order(marked, chosen)


def _order(candidates: Sequence[Candidate], chosen: Candidate) -> list[Candidate]:
    rest = sorted((c for c in candidates if c is not chosen), key=lambda c: (-c.weight, c.component, c.cause))
    return [chosen, *rest]


def _supported(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Independent signals of one component on one host raise each other a little."""
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for c in candidates:
        if c.root is not None and c.weight > 0.2:
            groups[(c.component, c.root.host)].add(c.root.signal)
    out = []
    for c in candidates:
        n = len(groups.get((c.component, c.root.host), ())) if c.root is not None else 1
        out.append(replace(c, weight=round(1 - (1 - c.weight) * 0.75 ** min(n - 1, 3), 4)) if n > 1 else c)
    return out


def confidence(ranked: Sequence[Candidate]) -> tuple[float, list[tuple[str, float]]]:
    """(confidence of the first, alternatives with theirs): the rest of the probability goes to rivals by weight."""
    if not ranked:
        return 0.0, []
    top = ranked[0]
    rivals: dict[str, float] = defaultdict(float)
    for c in ranked[1:]:
        if c.component != top.component:
            rivals[c.component] = max(rivals[c.component], c.weight)
    pull = max(rivals.values(), default=0.0)
    sure = min(CEILING, top.weight * (1 - 0.35 * pull))
    if top.alt and top.family == "job":
        sure *= 1 - JOB_TEXT_DOUBT
    if top.alt:
        rivals[top.alt] = max(rivals.get(top.alt, 0.0), 0.3 * top.weight)
    total = sum(rivals.values()) or 1.0
    left = 1 - sure
    shares = [(name, round(min(left * w / total, left), 3)) for name, w in rivals.items() if w > 0.02]
    return round(sure, 3), sorted(shares, key=lambda item: (-item[1], item[0]))[:4]
