"""Job runs out of what one Kubernetes dump says: pods' attempts, job objects and jobs' events in, fragments out. Pure.

For each attempt of a job there is one fragment of the job (step "") over all its pods, and one for each pod (step = pod
name), as sacct has a job's row and its steps. A pod that comes again, or comes after all others have ended, begins the
job's next attempt.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.records import k8s_objects as k8s
from pipeline.records.k8s_attempts import STATE_OF_REASON, Attempt, better_state
from schemas.facts import NO_STAMP, RunFragment, Stamp

_FAILED = re.compile(
    r"(?:\w*Job(?:Set)?)?Failed(?:Jobs)?|BackoffLimitExceeded|PodFailurePolicy|FailedIndexes|\w*JobRestarting"
)
_DONE = re.compile(r"(?:\w*Job)?(?:Succeeded|Completed)|AllJobsCompleted|Completed?")
#: How near before an eviction a node must have said that it is short of memory to be the node of the pod.
_PRESSURE_US = 120_000_000
#: Two printed times of one pod's start (event, container) differ by less.
_SAME_START_US = 300_000_000


@dataclass(frozen=True, slots=True)
class JobWord:
    """What a job object or a job's event says about the job's end."""

    job: str
    namespace: str
    state: str
    at: Stamp
    reason: str
    offset: int
    line: int
    start: Stamp = NO_STAMP
    submit: Stamp = NO_STAMP


def job_event_word(e: k8s.Event) -> JobWord | None:
    """The end of a job that an event on a job object tells."""
    if e.kind not in k8s.JOB_KINDS or e.first == NO_STAMP:
        return None
    if e.reason == "DeadlineExceeded":
        state = "TIMEOUT"
    elif re.search(r"Preempt", e.reason):
        state = "PREEMPTED"
    elif _DONE.fullmatch(e.reason):
        state = "COMPLETED"
    elif _FAILED.fullmatch(e.reason):
        state = "FAILED"
    elif e.reason in ("SuccessfulDelete", "SuccessfulDeletePod"):
        state = "DELETED"
    else:
        return None
    return JobWord(e.name, e.namespace, state, e.last, e.reason, e.offset, e.line)


def job_object_word(obj: Mapping[str, Any], offset: int, line: int) -> JobWord:
    """The state of a job object (batch/v1 Job, kubeflow jobs, JobSet, RayJob) from its conditions or status words."""
    name, namespace = k8s.text(obj, "metadata", "name"), k8s.text(obj, "metadata", "namespace")
    start = k8s.stamp(obj, "status", "startTime")
    submit = k8s.stamp(obj, "metadata", "creationTimestamp")
    state, at, reason = "", k8s.stamp(obj, "status", "completionTime"), ""
    for condition in k8s.items(obj, "status", "conditions"):
        kind = k8s.text(condition, "type")
        if k8s.text(condition, "status") != "True":
            continue
        word = {"Failed": "FAILED", "FailureTarget": "FAILED", "Complete": "COMPLETED", "Completed": "COMPLETED",
                "Succeeded": "COMPLETED", "Suspended": "SUSPENDED"}.get(kind, "")  # fmt: skip
        if word and (not state or word == "FAILED"):
            reason = k8s.text(condition, "reason")
            state = STATE_OF_REASON.get(reason, word) if word == "FAILED" else word
            at = k8s.stamp(condition, "lastTransitionTime") if at == NO_STAMP or word == "FAILED" else at
    if not state:
        ray = k8s.text(obj, "status", "jobStatus")
        state = {"FAILED": "FAILED", "SUCCEEDED": "COMPLETED", "STOPPED": "CANCELLED", "RUNNING": "RUNNING"}.get(
            ray, ""
        )
        at = k8s.stamp(obj, "status", "endTime") if at == NO_STAMP else at
        reason = k8s.text(obj, "status", "reason") or ray
    if state in ("", "RUNNING", "SUSPENDED"):
        at = at if state == "SUSPENDED" else NO_STAMP
        state = state or ("RUNNING" if k8s.number(obj, "status", "active") else "")
    return JobWord(name, namespace, state, at, reason, offset, line, start, submit)


def place_evicted(events: list[k8s.Event]) -> dict[tuple[str, str], str]:
    """Nodes of pods, from events: assigned or reported there; or evicted just after one node alone ran short.

    The kubelet that evicts a pod reports the shortage itself, so that node is the pod's where only one did.
    """
    nodes: dict[tuple[str, str], str] = {}
    for e in events:
        if e.kind == "Pod" and e.host:
            nodes.setdefault(e.pod, e.host)
    short = [e for e in events if e.kind == "Node" and e.reason in _SHORT_OF]
    for e in events:
        if e.kind == "Pod" and e.reason == "Evicted" and e.pod not in nodes:
            near = {s.host for s in short if -1_000_000 <= e.first.us - s.first.us <= _PRESSURE_US}
            if len(near) == 1:
                nodes[e.pod] = near.pop()
    return nodes


_SHORT_OF = frozenset(
    {"EvictionThresholdMet", "NodeHasInsufficientMemory", "NodeHasMemoryPressure", "NodeHasDiskPressure", "SystemOOM",
     "NodeHasInsufficientPID", "NodeUnderMemoryPressure", "NodeUnderDiskPressure"}
)  # fmt: skip


def merge_attempts(objects: list[Attempt], events: list[Attempt]) -> list[Attempt]:
    """Attempts of both kinds, each life once: what a pod object knows leads, events fill in and add earlier lives."""
    out = list(objects)
    places: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i, o in enumerate(out):
        places[o.namespace, o.pod].append(i)
    for e in events:
        mine = places[e.namespace, e.pod]
        same = next((i for i in mine if _one_life(out[i], e)), None)
        if same is None:
            mine.append(len(out))
            out.append(e)
            continue
        o = out[same]
        gone = o.end == NO_STAMP and e.end != NO_STAMP
        out[same] = replace(
            o,
            node=o.node or e.node,
            start=o.start if o.start != NO_STAMP else e.start,
            end=e.end if gone else o.end,
            state=e.state if gone else better_state(o.state, e.state),
            exit_code=o.exit_code if o.exit_code is not None else e.exit_code,
            reason=o.reason or e.reason,
        )
    return out


def _one_life(o: Attempt, e: Attempt) -> bool:
    """Whether an attempt seen in events is the one that a pod object (or other events) tells of."""
    if e.start != NO_STAMP and o.start != NO_STAMP and abs(o.start.us - e.start.us) > _SAME_START_US:
        return False
    return e.end == NO_STAMP or o.start == NO_STAMP or e.end.us >= o.start.us


def _groups(attempts: Iterable[Attempt]) -> list[list[Attempt]]:
    """A job's pods, cut into attempts of the job."""
    groups: list[list[Attempt]] = []
    for a in sorted(attempts, key=lambda a: (a.start.us or a.end.us, a.offset, a.pod)):
        current = groups[-1] if groups else None
        if current is None or any(o.pod == a.pod for o in current):
            groups.append([a])
            continue
        ends = [o.end for o in current]
        over = all(e != NO_STAMP for e in ends) and a.start != NO_STAMP and a.start.us > max(e.us for e in ends)
        if over:
            groups.append([a])
        else:
            current.append(a)
    return groups


def _pod_fragment(source_id: str, a: Attempt) -> RunFragment:
    return RunFragment(
        source_id=source_id, offset=a.offset, line=a.line, scheduler="k8s", cluster="", job_id=a.job, step=a.pod,
        state=a.state, submit=a.submit, start=a.start, end=a.end, exit_code=a.exit_code, exit_signal=a.exit_signal,
        nodes=(a.node,) if a.node else (), n_nodes=1 if a.node else None, n_gpus=a.gpus, name=a.pod, reason=a.reason,
        extra=tuple(f"{k}={v}" for k, v in a.extra if v),
    )  # fmt: skip


def _job_fragment(source_id: str, job: str, pods: list[Attempt], words: list[JobWord]) -> RunFragment:
    """The job over its pods: nodes of all, first start, the end and state that the controller or the pods give."""
    # A job object has one start for all its attempts, so the pods' own come first.
    starts = [p.start for p in pods if p.start != NO_STAMP] or [w.start for w in words if w.start != NO_STAMP]
    ended = sorted((p for p in pods if p.end != NO_STAMP), key=lambda p: (p.end.us, p.offset))
    bad = [p for p in ended if p.state not in ("COMPLETED", "RUNNING", "PENDING", "")]
    strong = [w for w in words if w.state not in ("", "DELETED", "RUNNING")]
    weak = [w for w in words if w.state == "DELETED"]
    state, end, reason = "", NO_STAMP, ""
    if strong:
        last = max(strong, key=lambda w: (w.at.us, w.offset))
        state, end, reason = last.state, last.at, last.reason
        if state == "FAILED" and bad:
            # The controller only counts failed pods; the first pod says what happened.
            state = bad[0].state if bad[0].state in ("OOM_KILLED", "PREEMPTED", "TIMEOUT") else state
    elif bad:
        state, end, reason = bad[0].state, bad[-1].end, bad[0].reason
        for p in bad[1:]:
            if p.end.us - bad[0].end.us <= 60_000_000:
                state = better_state(state, p.state)
    elif pods and len(ended) == len(pods):
        state, end = ended[-1].state, ended[-1].end
    elif weak:
        state, end, reason = "DELETED", weak[0].at, weak[0].reason
    elif pods or words:
        state = "RUNNING" if starts else next((w.state for w in words if w.state), "PENDING")
    failed = bad[0] if bad else None
    nodes = tuple(sorted({p.node for p in pods if p.node}))
    anchors = [(p.offset, p.line) for p in pods] + [(w.offset, w.line) for w in words]
    offset, line = min(anchors)
    submits = [s for s in [p.submit for p in pods] + [w.submit for w in words] if s != NO_STAMP]
    namespace = next((x for x in [p.namespace for p in pods] + [w.namespace for w in words] if x), "")
    extra = {"namespace": namespace, "pods": str(len(pods)) if pods else "", "failed_pod": failed.pod if failed else "",
             "failed_node": failed.node if failed else ""}  # fmt: skip
    gpus = [p.gpus for p in pods if p.gpus]
    return RunFragment(
        source_id=source_id, offset=offset, line=line, scheduler="k8s", cluster="", job_id=job, state=state,
        submit=min(submits, default=NO_STAMP), start=min(starts, default=NO_STAMP), end=end,
        exit_code=failed.exit_code if failed else (0 if state == "COMPLETED" else None),
        exit_signal=failed.exit_signal if failed else None,
        nodes=nodes, n_nodes=len(nodes) or None, n_gpus=sum(gpus) if gpus else None, name=job, reason=reason,
        extra=tuple(sorted(f"{k}={v}" for k, v in extra.items() if v)),
    )  # fmt: skip


def fragments(source_id: str, attempts: Iterable[Attempt], words: Iterable[JobWord]) -> list[RunFragment]:
    """Fragments of all jobs, sorted by key. A job of which neither a start nor an end is known gives none."""
    by_job: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for a in attempts:
        by_job[a.namespace, a.job].append(a)
    said: dict[tuple[str, str], list[JobWord]] = defaultdict(list)
    for w in words:
        # Events of a job's controller may lack the namespace that its pods' events have.
        spaces = [k for k in by_job if k[1] == w.job and (not w.namespace or w.namespace == k[0] or not k[0])]
        said[spaces[0] if spaces else (w.namespace, w.job)].append(w)
    out: list[RunFragment] = []
    for key in sorted({*by_job, *said}):
        groups = _groups(by_job.get(key, ()))
        mine = sorted(said.get(key, ()), key=lambda w: (w.at.us, w.offset))
        heard: list[list[JobWord]] = [[] for _ in groups] or [[]]
        for w in mine:
            when = w.at.us or w.start.us
            begun = [i for i, g in enumerate(groups) if min((a.start.us for a in g), default=0) <= when]
            heard[begun[-1] if begun else 0].append(w)
        for group, its in zip(groups or [[]], heard, strict=True):
            whole = _job_fragment(source_id, key[1], group, its)
            if whole.start == NO_STAMP and whole.end == NO_STAMP:
                continue
            out.append(whole)
            out += [_pod_fragment(source_id, a) for a in group]
    return sorted(out, key=lambda f: f.key)
