"""Attempts of single pods: out of pod objects (container states) and out of events (scheduled, evicted, killed). Pure.

An attempt is one life of a pod on a node: it begins when the pod is assigned or its container starts and ends at the
first thing that stops it. What stopped it is kept in one word (`state`), the words of Kubernetes in `reason`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.records import k8s_objects as k8s
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

#: State of a pod by the word that Kubernetes gives as reason (of a container, a pod or a disruption).
STATE_OF_REASON = {
    "Completed": "COMPLETED",
    "OOMKilled": "OOM_KILLED",
    "DeadlineExceeded": "TIMEOUT",
    "Evicted": "EVICTED",
    "Preempting": "PREEMPTED",
    "Preempted": "PREEMPTED",
    "PreemptionByScheduler": "PREEMPTED",
    "PreemptionByKubeScheduler": "PREEMPTED",
    "DeletionByTaintManager": "EVICTED",
    "EvictionByEvictionAPI": "EVICTED",
    "TerminationByKubelet": "EVICTED",
    "DeletionByPodGC": "NODE_LOST",
    "NodeLost": "NODE_LOST",
    "ContainerStatusUnknown": "NODE_LOST",
    "NodeShutdown": "EVICTED",
    "Terminated": "EVICTED",
    "Shutdown": "EVICTED",
}
#: Words that say why go before words that only say that the pod is gone.
_WEIGHT = {"KILLED": 2, "DELETED": 3, "COMPLETED": 4, "RUNNING": 9, "PENDING": 9, "": 9}
#: Events within this of the first one speak of the same end.
_SAME_END_US = 60_000_000
_EXITED = re.compile(r"exit(?:ed)?(?: with)?(?: code)?[ =:]+(\d{1,3})\b")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One life of one pod."""

    namespace: str
    pod: str
    job: str
    node: str
    start: Stamp
    end: Stamp
    state: str
    offset: int
    line: int
    submit: Stamp = NO_STAMP
    exit_code: int | None = None
    exit_signal: int | None = None
    reason: str = ""
    gpus: int | None = None
    extra: tuple[tuple[str, str], ...] = ()


def better_state(a: str, b: str) -> str:
    """The word that says more about why a pod ended."""
    return a if _WEIGHT.get(a, 1) <= _WEIGHT.get(b, 1) else b


def _terminated(status: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return k8s.mapping(status, name, "terminated")


def _ended(base: Attempt, terminated: Sequence[Mapping[str, Any]], offset: int, extra: dict[str, str]) -> Attempt:
    """An attempt whose containers have all ended: the one that failed first speaks for the pod."""

    def order(t: Mapping[str, Any]) -> tuple[bool, int]:
        return (k8s.number(t, "exitCode") == 0, k8s.stamp(t, "finishedAt").us)

    lead = min(terminated, key=order)
    reason = k8s.text(lead, "reason")
    code = k8s.number(lead, "exitCode")
    starts = [s for t in terminated if (s := k8s.stamp(t, "startedAt")) != NO_STAMP and s.us > 0]
    ends = [s for t in terminated if (s := k8s.stamp(t, "finishedAt")) != NO_STAMP and s.us > 0]
    state = STATE_OF_REASON.get(reason) or ("COMPLETED" if code == 0 else "FAILED")
    return replace(
        base,
        start=min(starts, default=base.start),
        end=max(ends, default=base.end),
        state=state,
        offset=offset,
        exit_code=code,
        exit_signal=k8s.number(lead, "signal") or None,
        reason=reason,
        extra=tuple(sorted(extra.items())),
    )


def pod_attempts(pod: Mapping[str, Any], offset: int, line: int, length: int) -> list[Attempt]:
    """The attempts that a pod object knows: the one before the last restart of its containers, and the current one.

    The earlier one is placed one byte behind the record's start, so that both have a place of their own.
    """
    found = k8s.job_of(pod)
    if found is None:
        return []
    job, owner = found
    statuses = k8s.items(pod, "status", "containerStatuses")
    phase = k8s.text(pod, "status", "phase")
    restarts = max((k8s.number(s, "restartCount") or 0 for s in statuses), default=0)
    extra = {
        "namespace": k8s.text(pod, "metadata", "namespace"),
        "pod_uid": k8s.text(pod, "metadata", "uid"),
        "owner_kind": owner,
        "restarts": str(restarts) if restarts else "",
    }
    node = k8s.text(pod, "spec", "nodeName")
    base = Attempt(
        namespace=extra["namespace"], pod=k8s.text(pod, "metadata", "name"), job=job,
        node=short_host(node) if node else "", start=k8s.stamp(pod, "status", "startTime"), end=NO_STAMP, state="",
        offset=offset, line=line, submit=k8s.stamp(pod, "metadata", "creationTimestamp"),
        gpus=k8s.gpus_of(pod) or None, extra=tuple(sorted(extra.items())),
    )  # fmt: skip
    out = []
    before = [t for s in statuses if (t := _terminated(s, "lastState"))]
    if before:
        out.append(_ended(base, before, offset + min(1, length - 1), {**extra, "restarted": "1"}))
    now = [t for s in statuses if (t := _terminated(s, "state"))]
    if now and (len(now) == len(statuses) or phase in ("Succeeded", "Failed")):
        current = _ended(base, now, offset, extra)
    else:
        starts = [s for c in statuses if (s := k8s.stamp(c, "state", "running", "startedAt")) != NO_STAMP]
        state = {"Running": "RUNNING", "Pending": "PENDING", "Succeeded": "COMPLETED", "Failed": "FAILED"}.get(
            phase, ""
        )
        if before and not starts:
            return out  # waiting in a back-off: no new life yet
        current = replace(base, start=min(starts, default=base.start if state != "PENDING" else NO_STAMP), state=state)
    out.append(_disrupted(pod, current, phase))
    return out


def _disrupted(pod: Mapping[str, Any], current: Attempt, phase: str) -> Attempt:
    """What the pod's own status says about its end: evicted, preempted, node lost, deleted."""
    reason = k8s.text(pod, "status", "reason")
    state, end = STATE_OF_REASON.get(reason, ""), current.end
    for condition in k8s.items(pod, "status", "conditions"):
        if k8s.text(condition, "type") == "DisruptionTarget" and k8s.text(condition, "status") == "True":
            reason = reason or k8s.text(condition, "reason")
            state = state or STATE_OF_REASON.get(k8s.text(condition, "reason"), "")
            if end == NO_STAMP:
                end = k8s.stamp(condition, "lastTransitionTime")
    deleted = k8s.stamp(pod, "metadata", "deletionTimestamp")
    if deleted != NO_STAMP and end == NO_STAMP:
        # The stamp is when the grace period is over; the request came before.
        grace = k8s.number(pod, "metadata", "deletionGracePeriodSeconds") or 0
        end, state = Stamp("utc", deleted.us - grace * 1_000_000), state or "DELETED"
    if phase == "Failed" and end == NO_STAMP:
        moves = [k8s.stamp(c, "lastTransitionTime") for c in k8s.items(pod, "status", "conditions")]
        end = max((m for m in moves if m != NO_STAMP), default=NO_STAMP)
    if not state:
        return replace(current, end=end)
    return replace(current, end=end, state=better_state(state, current.state), reason=reason or current.reason)


def end_word(e: k8s.Event) -> tuple[str, int | None]:
    """(state, exit code) if a pod's event says that the pod or its container ended; ("", None) if not."""
    message = e.message
    if e.reason == "TaintManagerEviction":
        return ("", None) if message.startswith("Cancel") else ("EVICTED", None)
    if e.reason in ("Evicted", "Evict", "EvictedByVPA"):
        return "EVICTED", None
    if e.reason in ("Preempted", "Preempting"):
        return "PREEMPTED", None
    if e.reason in ("NodeShutdown", "Shutdown", "Terminated"):
        return "EVICTED", None
    if e.reason in ("Killing", "ExceededGracePeriod"):
        return "KILLED", None
    if e.reason == "DeadlineExceeded":
        return "TIMEOUT", None
    if e.reason in ("UnexpectedAdmissionError", "NodeAffinity") or e.reason.startswith("OutOf"):
        return "FAILED", None
    if e.reason == "BackOff":
        return ("FAILED", None) if "restarting failed container" in message else ("", None)
    if e.reason == "Failed":
        m = _EXITED.search(message)
        if m:
            return "FAILED", int(m[1])
        pull = re.search(r"[Pp]ull|ImageInspect|InvalidImageName|CreateContainerConfig", message)
        return ("", None) if pull else ("FAILED", None)
    return "", None


@dataclass(slots=True)
class _Life:
    """A pod's life while its events are read."""

    first: k8s.Event
    node: str = ""
    start: Stamp = NO_STAMP
    end: Stamp = NO_STAMP
    state: str = ""
    exit_code: int | None = None
    reason: str = ""
    lines: list[k8s.Event] = field(default_factory=list)


def _lives(events: Iterable[k8s.Event]) -> list[_Life]:
    lives: list[_Life] = []
    current: _Life | None = None
    for e in events:
        state, code = end_word(e)
        begins = e.reason == "Scheduled" or (e.reason == "Started" and e.kind == "Pod")
        if not begins and not state:
            if current is not None and e.host:
                current.node = current.node or e.host
            continue
        if current is None or (begins and current.end != NO_STAMP) or (e.reason == "Scheduled" and current.start.us):
            current = _Life(e)
            lives.append(current)
        current.node = current.node or e.host
        if begins:
            current.start = current.start if current.start != NO_STAMP else e.first
        elif current.end == NO_STAMP:
            current.end, current.state, current.exit_code, current.reason = e.first, state, code, e.reason
        elif e.first.us - current.end.us <= _SAME_END_US:
            word = better_state(current.state, state)
            if word != current.state:
                current.state, current.reason = word, e.reason
            current.exit_code = current.exit_code if current.exit_code is not None else code
    return lives


def event_attempts(events: Iterable[k8s.Event], jobs: Iterable[str]) -> list[Attempt]:
    """The attempts that pods' events tell of, for pods that look like training (not of the cluster, not a service)."""
    by_pod: dict[tuple[str, str], list[k8s.Event]] = defaultdict(list)
    for e in events:
        if e.kind == "Pod" and e.first != NO_STAMP and not k8s.is_system(e.namespace, e.name):
            by_pod[e.pod].append(e)
    known = sorted(set(jobs))
    out = []
    for (namespace, pod), mine in sorted(by_pod.items()):
        if k8s.is_service_name(pod) and not any(pod.startswith(f"{j}-") for j in known):
            continue
        for life in _lives(sorted(mine, key=lambda e: (e.first.us, e.offset))):
            state = life.state or "RUNNING"
            out.append(
                Attempt(
                    namespace, pod, k8s.job_stem(pod, known), life.node, life.start, life.end, state,
                    life.first.offset, life.first.line, exit_code=life.exit_code, reason=life.reason,
                    extra=(("namespace", namespace),) if namespace else (),
                )
            )  # fmt: skip
    return out
