"""Kubernetes API objects as JSON: a List, one object, JSON lines or a watch stream, of events, pods, nodes and jobs.

Each event, abnormal condition, ended or stuck container and taint becomes one sentence of a fixed shape that the rules
below `knowledge/rules/k8s` match:

    k8s event reason=NodeNotReady kind=Node name=gpu-17 type=Warning: Node gpu-17 status is now: NodeNotReady
    k8s condition type=Ready status=Unknown kind=Node name=gpu-17 reason=NodeStatusUnknown: Kubelet stopped posting ...
    k8s container reason=OOMKilled kind=Pod name=fit-0 container=main exit=137: ...
    k8s pod reason=Evicted kind=Pod name=fit-0 phase=Failed: The node was low on resource: memory. ...
    k8s taint key=node.kubernetes.io/unreachable effect=NoExecute kind=Node name=gpu-17: ...

Runs come from pods, job objects and events (`pipeline.records.k8s_runs`). A cut document gives what stood before the
cut.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector
from pipeline.records import k8s_objects as k8s
from pipeline.records import k8s_runs as runs
from pipeline.records.json_items import Broken, iter_items
from pipeline.records.k8s_attempts import Attempt, event_attempts, pod_attempts
from schemas.facts import NO_STAMP, Facts, Stamp
from schemas.identity import short_host

_KEYS = frozenset({"items"})
_KIND = re.compile(rb'"kind"\s*:\s*"(?:List|Event|Pod|Node|Job|JobSet|RayCluster|\w{1,16}List|\w{1,16}Job)"')
_SHAPE = re.compile(rb'"(?:involvedObject|regarding|containerStatuses|nodeInfo|firstTimestamp)"\s*:')
#: Conditions that are good when True; all others are good when False.
_GOOD_TRUE = frozenset({"Ready", "SuccessfulMountVolume"})
#: Steps of every healthy start, of which a dump is full: no rule speaks of them.
_ROUTINE = frozenset(
    {"Scheduled", "Pulling", "Pulled", "Created", "Started", "AddedInterface", "SuccessfulCreate",
     "SuccessfulCreatePod", "SuccessfulCreateService", "SuccessfulAttachVolume", "SuccessfulMountVolume",
     "ScalingReplicaSet", "LeaderElection"}
)  # fmt: skip
_BAD_JOB = frozenset({"Failed", "FailureTarget", "Suspended", "Restarting"})


@dataclass(slots=True)
class Dump:
    """What the items of one member were, before anything is said about it."""

    events: list[k8s.Event] = field(default_factory=list)
    pods: list[tuple[Mapping[str, Any], int, int, int]] = field(default_factory=list)
    nodes: list[tuple[Mapping[str, Any], int, int]] = field(default_factory=list)
    jobs: list[tuple[str, Mapping[str, Any], int, int]] = field(default_factory=list)
    other: int = 0

    def take(self, obj: Mapping[str, Any], list_kind: str, offset: int, line: int, length: int) -> None:
        if text_type := k8s.text(obj, "type"):
            inner = k8s.mapping(obj, "object")
            if text_type in ("ADDED", "MODIFIED", "DELETED") and inner:  # a watch stream
                obj = inner
        kind = k8s.kind_of(obj, list_kind)
        if kind == "Event":
            event = k8s.event(obj, offset, line)
            if event is not None:
                self.events.append(event)
        elif kind == "Pod":
            self.pods.append((obj, offset, line, length))
        elif kind == "Node":
            self.nodes.append((obj, offset, line))
        elif kind in k8s.JOB_KINDS:
            self.jobs.append((kind, obj, offset, line))
        else:
            self.other += 1


class KubernetesJson:
    """Objects of the Kubernetes API."""

    name = "k8s.json"
    family = "cluster"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if start not in (b"{", b"["):
            return 0.0
        kinds, shapes = _KIND.search(head) is not None, _SHAPE.search(head) is not None
        if not kinds and not shapes:
            return 0.0
        if shapes or (b'"apiVersion"' in head and b'"items"' in head):
            return 0.95
        return 0.6 if b'"apiVersion"' in head else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        dump = Dump()
        for item in iter_items(data, _KEYS):
            if isinstance(item, Broken):
                out.quarantine(item.offset, item.length, item.reason)
            elif isinstance(item.value, dict):
                dump.take(item.value, k8s.text(item.head, "kind"), item.offset, item.line, item.length)
            else:
                out.quarantine(item.offset, item.length, "not an object where a Kubernetes object was expected")
        dump.events = k8s.with_namespaces(dump.events, {k8s.pod_key(p) for p, *_ in dump.pods})
        Reader(out, match).read(dump, info.source_id)
        if dump.other:
            out.note = f"{dump.other} objects of kinds that tell nothing here"
        return out.result()


class Reader:
    """Turns a dump into sentences and fragments."""

    def __init__(self, out: Collector, match: LineMatcher) -> None:
        self.out, self.match = out, match
        self.nodes: dict[tuple[str, str], str] = {}
        self.jobs: dict[tuple[str, str], str] = {}

    def about(self, kind: str, key: tuple[str, str]) -> str:
        """`kind=Pod name=fit-0 job=fit`: the object of a sentence, with its job where that is known."""
        job = self.jobs.get(key, "") if kind == "Pod" else key[1] if kind in k8s.JOB_KINDS else ""
        return f"kind={kind} name={key[1]}" + (f" job={job}" if job else "")

    def say(self, sentence: str, offset: int, line: int, at: Stamp, host: str) -> None:
        self.out.matched(self.match(sentence, offset=offset, line=line, stamp=at, host=host), at)

    def read(self, dump: Dump, source_id: str) -> None:
        self.nodes = runs.place_evicted(dump.events)
        words = [w for e in dump.events if (w := runs.job_event_word(e))]
        words += [w for _, obj, at, line in dump.jobs if (w := runs.job_object_word(obj, at, line)).job]
        known = {w.job for w in words} | {e.name for e in dump.events if e.kind in k8s.JOB_KINDS}
        from_objects: list[Attempt] = []
        for pod, offset, line, length in dump.pods:
            node = k8s.text(pod, "spec", "nodeName")
            if node:
                self.nodes[k8s.pod_key(pod)] = short_host(node)
            from_objects += pod_attempts(pod, offset, line, length)
        known |= {a.job for a in from_objects}
        seen = {k8s.pod_key(p) for p, *_ in dump.pods}
        trained = {(a.namespace, a.pod) for a in from_objects}
        attempts = [
            a if a.node else replace(a, node=self.nodes.get((a.namespace, a.pod), ""))
            for a in event_attempts(dump.events, known)
            # A pod whose object is here and is no training pod is not made one by its events.
            if (a.namespace, a.pod) not in seen or (a.namespace, a.pod) in trained
        ]
        merged = runs.merge_attempts(from_objects, attempts)
        self.jobs = {(a.namespace, a.pod): a.job for a in merged}
        for fragment in runs.fragments(source_id, merged, words):
            self.out.fragment(fragment)
        for event in dump.events:
            self.event(event)
        for pod, offset, line, _ in dump.pods:
            self.pod(pod, offset, line)
        for node_object, offset, line in dump.nodes:
            self.node(node_object, offset, line)
        for kind, obj, offset, line in dump.jobs:
            self.conditions(obj, kind, offset, line, "")

    def event(self, e: k8s.Event) -> None:
        if e.type == "Normal" and e.reason in _ROUTINE:
            self.out.stamps += [e.first, e.last]
            return
        host = e.host or self.nodes.get(e.pod, "")
        sentence = f"k8s event reason={e.reason} {self.about(e.kind, e.pod)} type={e.type}: {k8s.one_line(e.message)}"
        self.say(sentence, e.offset, e.line, e.first, host)
        if e.last.us - e.first.us >= 60_000_000:
            # Folded by the API server: it went on, or came back, until then.
            self.say(sentence, e.offset, e.line, e.last, host)

    def conditions(self, obj: Mapping[str, Any], kind: str, offset: int, line: int, host: str) -> None:
        about = self.about(kind, k8s.pod_key(obj))
        for c in k8s.items(obj, "status", "conditions"):
            what, status = k8s.text(c, "type"), k8s.text(c, "status")
            if kind == "Node":
                bad = status != "True" if what in _GOOD_TRUE else status == "True"
            elif kind == "Pod":
                bad = what == "DisruptionTarget" and status == "True"
            else:
                bad = what in _BAD_JOB and status == "True"
            if bad:
                self.say(
                    f"k8s condition type={what} status={status} {about} "
                    f"reason={k8s.text(c, 'reason')}: {k8s.one_line(k8s.text(c, 'message'))}",
                    offset, line, k8s.stamp(c, "lastTransitionTime"), host,
                )  # fmt: skip

    def pod(self, pod: Mapping[str, Any], offset: int, line: int) -> None:
        about, node = self.about("Pod", k8s.pod_key(pod)), k8s.text(pod, "spec", "nodeName")
        host = short_host(node) if node else ""
        if reason := k8s.text(pod, "status", "reason"):
            moves = [k8s.stamp(c, "lastTransitionTime") for c in k8s.items(pod, "status", "conditions")]
            at = max((m for m in moves if m != NO_STAMP), default=k8s.stamp(pod, "status", "startTime"))
            self.say(
                f"k8s pod reason={reason} {about} phase={k8s.text(pod, 'status', 'phase')}: "
                f"{k8s.one_line(k8s.text(pod, 'status', 'message'))}",
                offset, line, at, host,
            )  # fmt: skip
        for group in ("initContainerStatuses", "containerStatuses"):
            for status in k8s.items(pod, "status", group):
                self.container(about, host, status, offset, line)
        self.conditions(pod, "Pod", offset, line, host)

    def container(self, about: str, host: str, status: Mapping[str, Any], offset: int, line: int) -> None:
        container = k8s.text(status, "name")
        for which in ("lastState", "state"):
            ended, waiting = k8s.mapping(status, which, "terminated"), k8s.mapping(status, which, "waiting")
            state = ended or waiting
            reason = k8s.text(state, "reason")
            if not reason or reason in ("Completed", "ContainerCreating", "PodInitializing"):
                continue
            self.say(
                f"k8s container reason={reason} {about} container={container} "
                f"exit={k8s.text(state, 'exitCode')}: {k8s.one_line(k8s.text(state, 'message'))}",
                offset, line, k8s.stamp(ended, "finishedAt"), host,
            )  # fmt: skip

    def node(self, node: Mapping[str, Any], offset: int, line: int) -> None:
        name = k8s.text(node, "metadata", "name")
        host = short_host(name) if name else ""
        self.conditions(node, "Node", offset, line, host)
        for taint in k8s.items(node, "spec", "taints"):
            self.say(
                f"k8s taint key={k8s.text(taint, 'key')} effect={k8s.text(taint, 'effect')} kind=Node name={name}: "
                f"{k8s.text(taint, 'value')}",
                offset, line, k8s.stamp(taint, "timeAdded"), host,
            )  # fmt: skip
        labels = k8s.mapping(node, "metadata", "labels")
        hostnames = {
            k8s.text(a, "address") for a in k8s.items(node, "status", "addresses") if k8s.text(a, "type") == "Hostname"
        }
        for hostname in {short_host(h) for h in (*hostnames, str(labels.get("kubernetes.io/hostname", ""))) if h}:
            if host and hostname != host:
                self.out.facts.add(f"alias:{hostname}={host}")
        driver = labels.get("nvidia.com/cuda.driver-version.full")
        if driver and host:
            self.out.facts.add(f"driver_version:{host}={driver}")


FORMATS = (KubernetesJson(),)
