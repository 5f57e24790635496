"""Kubernetes objects as plain records: what an event, a pod, a node or a job object says, whatever API group it is of.

Nothing here raises on odd shapes: absent and mistyped members read as empty. All times are UTC (RFC 3339).
Sources: Kubernetes API reference (core/v1 and events.k8s.io/v1 Event, Pod, Node; batch/v1 Job), kubeflow training
operator and JobSet label names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.stamps import parse_field
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

#: Labels that name the job of a pod, the outermost controller first.
JOB_LABELS = (
    "training.kubeflow.org/job-name",
    "trainer.kubeflow.org/trainjob-name",
    "jobset.sigs.k8s.io/jobset-name",
    "volcano.sh/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/cluster",
    "pytorch-job-name",
    "tf-job-name",
    "mpi-job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
#: Kinds that run to an end. A pod of one of these is a training pod unless its namespace says otherwise.
JOB_KINDS = frozenset(
    {"Job", "PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob", "TrainJob", "JobSet",
     "RayJob", "RayCluster", "LeaderWorkerSet", "AppWrapper", "Workflow", "SparkApplication"}
)  # fmt: skip
_SERVICE_OWNERS = frozenset({"DaemonSet", "ReplicaSet", "Deployment", "Node", "ReplicationController"})
_SYSTEM_SPACE = re.compile(
    r"kube-.*|.*-system|gpu-operator.*|nvidia.*|network-operator.*|node-feature-discovery|openshift-.*|calico.*|cilium.*"
    r"|istio.*|monitoring|prometheus.*|observability|logging|cert-manager|ingress.*|rook-.*|gke-.*|gmp-.*|amazon-.*"
    r"|azure-.*|argocd|velero|keda|knative-.*|nvsentinel|skyhook|local-path-storage"
)
_SYSTEM_POD = re.compile(
    r"nvidia-.*|.*-(?:daemonset|device-plugin|exporter|validator|operator|csi|cni|controller-manager|toolkit|mofed)-.*"
    r"|(?:kube-proxy|coredns|calico|cilium|etcd|dcgm|node-exporter|fluent)\b.*"
)
#: The alphabet of names that the API server makes up: no vowels, no 0, 1 and 3.
_R = "[bcdfghjklmnpqrstvwxz2456789]"
_REPLICA_SET = re.compile(rf".+-{_R}{{8,10}}-{_R}{{5}}")
_ROLE = re.compile(
    r"-(?:worker|master|launcher|ps|chief|evaluator|scheduler|server|head|trainer|node|replica|task|pod|rank)"
    rf"(?:-?\d+)*(?:-{_R}{{5}})?$"
)
_RANDOM = re.compile(rf"(?:-\d+)?-{_R}{{5}}$")
_ORDINAL = re.compile(r"-\d+$")
_GPU = re.compile(r"(?:nvidia|amd)\.com/(?:gpu|mig-.*)|habana\.ai/gaudi|aws\.amazon\.com/neuron|google\.com/tpu")


def text(obj: object, *path: str) -> str:
    """The scalar below a path of members as text, "" where it is not there."""
    for name in path:
        if not isinstance(obj, Mapping):
            return ""
        obj = obj.get(name)
    if isinstance(obj, bool) or obj is None or isinstance(obj, Mapping | list):
        return ""
    return str(obj)


def items(obj: object, *path: str) -> list[Mapping[str, Any]]:
    """The objects of the list below a path of members, [] where there is none."""
    for name in path:
        if not isinstance(obj, Mapping):
            return []
        obj = obj.get(name)
    return [x for x in obj if isinstance(x, Mapping)] if isinstance(obj, list) else []


def mapping(obj: object, *path: str) -> Mapping[str, Any]:
    """The object below a path of members, {} where there is none."""
    for name in path:
        if not isinstance(obj, Mapping):
            return {}
        obj = obj.get(name)
    return obj if isinstance(obj, Mapping) else {}


def stamp(obj: object, *path: str) -> Stamp:
    """The time below a path of members; a time without offset is UTC all the same, as the API prints no other."""
    found = parse_field(text(obj, *path))
    return Stamp("utc", found.us) if found.kind in ("utc", "local") else NO_STAMP


def number(obj: object, *path: str) -> int | None:
    """The whole number below a path of members."""
    value = text(obj, *path)
    return int(value) if re.fullmatch(r"-?\d{1,18}", value) else None


def one_line(value: str) -> str:
    """Text without line breaks and doubled blanks."""
    return " ".join(value.split())


def kind_of(obj: Mapping[str, Any], list_kind: str = "") -> str:
    """The kind of an object: as it says, as its list says (`PodList`), else by its shape; "" if it is none."""
    kind = text(obj, "kind")
    if kind:
        return kind
    if list_kind.endswith("List") and list_kind != "List":
        return list_kind.removesuffix("List")
    if "involvedObject" in obj or "regarding" in obj:
        return "Event"
    if items(obj, "spec", "containers") and "status" in obj:
        return "Pod"
    return "Node" if mapping(obj, "status", "nodeInfo") else ""


@dataclass(frozen=True, slots=True)
class Event:
    """An event. `host`: node that it names or was sent from, "" if neither. count: how often it was seen."""

    reason: str
    type: str
    message: str
    kind: str
    name: str
    namespace: str
    first: Stamp
    last: Stamp
    count: int
    host: str
    offset: int
    line: int

    @property
    def pod(self) -> tuple[str, str]:
        return (self.namespace, self.name)


_ASSIGNED = re.compile(r"Successfully assigned \S+ to (\S+)")
_ASSIGNED_POD = re.compile(r"Successfully assigned (?:([^/\s]+)/)?\S+ to ")


def event(obj: Mapping[str, Any], offset: int, line: int) -> Event | None:
    """An Event object of either API group; None where it has no reason."""
    about = mapping(obj, "involvedObject") or mapping(obj, "regarding")
    reason = "".join(text(obj, "reason").split())
    if not reason:
        return None
    message = text(obj, "message") or text(obj, "note")
    kind, name = text(about, "kind"), text(about, "name")
    series = mapping(obj, "series") or mapping(obj, "deprecatedSeries")
    firsts = [
        stamp(obj, "firstTimestamp"), stamp(obj, "deprecatedFirstTimestamp"), stamp(obj, "eventTime"),
        stamp(obj, "lastTimestamp"), stamp(obj, "metadata", "creationTimestamp"),
    ]  # fmt: skip
    first = next((s for s in firsts if s != NO_STAMP), NO_STAMP)
    lasts = [stamp(series, "lastObservedTime"), stamp(obj, "lastTimestamp"), stamp(obj, "deprecatedLastTimestamp")]
    last = next((s for s in lasts if s != NO_STAMP), first)
    host = text(obj, "source", "host") or text(obj, "deprecatedSource", "host")
    if not host and text(obj, "reportingComponent") == "kubelet":
        host = text(obj, "reportingInstance")
    if kind == "Node":
        host = name
    elif not host and (m := _ASSIGNED.match(message)):
        host = m[1]
    namespace = text(about, "namespace") or text(obj, "metadata", "namespace")
    if not namespace and (m := _ASSIGNED_POD.match(message)):
        namespace = m[1] or ""
    count = number(series, "count") or number(obj, "count") or number(obj, "deprecatedCount") or 1
    return Event(
        reason, text(obj, "type") or "Normal", message, kind, name, namespace, min(first, last), max(first, last),
        max(1, count), short_host(host) if host else "", offset, line,
    )  # fmt: skip


def pod_key(pod: Mapping[str, Any]) -> tuple[str, str]:
    """(namespace, name) of an object."""
    return text(pod, "metadata", "namespace"), text(pod, "metadata", "name")


def with_namespaces(events: Iterable[Event], known: Iterable[tuple[str, str]] = ()) -> list[Event]:
    """The events, those without a namespace given the only one in which the same name was seen (shortened dumps)."""
    events = list(events)
    spaces: dict[str, set[str]] = {}
    for namespace, name in (*known, *(e.pod for e in events if e.kind != "Node")):
        if namespace:
            spaces.setdefault(name, set()).add(namespace)
    return [
        replace(e, namespace=next(iter(spaces[e.name])))
        if not e.namespace and e.kind != "Node" and len(spaces.get(e.name, ())) == 1
        else e
        for e in events
    ]


def is_system(namespace: str, name: str) -> bool:
    """Whether a pod belongs to the cluster itself: operators, agents, plug-ins, exporters."""
    return bool(_SYSTEM_SPACE.fullmatch(namespace) or _SYSTEM_POD.fullmatch(name))


def is_service_name(name: str) -> bool:
    """Whether a pod's name is one that a Deployment gives."""
    return _REPLICA_SET.fullmatch(name) is not None


def job_stem(pod: str, jobs: Iterable[str] = ()) -> str:
    """The job that a pod's name points to: the longest known job whose name begins it, else the name without role,
    index and made-up ending: `asr-worker-2` -> `asr`, `fit-0-x7p2k` -> `fit`."""
    known = [j for j in jobs if pod == j or pod.startswith(f"{j}-")]
    if known:
        return max(known, key=len)
    for pattern in (_ROLE, _RANDOM, _ORDINAL):
        if m := pattern.search(pod):
            return pod[: m.start()] or pod
    return pod


def gpus_of(pod: Mapping[str, Any]) -> int:
    """GPUs that a pod's containers ask for."""
    total = 0
    for container in items(pod, "spec", "containers"):
        limits = {**mapping(container, "resources", "requests"), **mapping(container, "resources", "limits")}
        total += sum(int(v) for k, v in limits.items() if _GPU.fullmatch(k) and str(v).isdigit())
    return total


def job_of(pod: Mapping[str, Any]) -> tuple[str, str] | None:
    """(job id, kind of owner) of a training pod; None for services, agents and static pods."""
    namespace, name = text(pod, "metadata", "namespace"), text(pod, "metadata", "name")
    labels = mapping(pod, "metadata", "labels")
    owners = items(pod, "metadata", "ownerReferences")
    owner = next((o for o in owners if o.get("controller")), owners[0] if owners else {})
    kind = text(owner, "kind")
    if kind in _SERVICE_OWNERS or is_system(namespace, name):
        return None
    for label in JOB_LABELS:
        if labels.get(label):
            return str(labels[label]), kind
    if kind:
        return (text(owner, "name"), kind) if kind in JOB_KINDS or gpus_of(pod) else None
    ends = text(pod, "spec", "restartPolicy") in ("Never", "OnFailure")
    return (job_stem(name), "") if gpus_of(pod) or ends else None
