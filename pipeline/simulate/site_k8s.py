"""A Kubernetes site on disk: journald JSON of nodes, CRI container logs, events and pods as kubectl prints them, and the
same container output as Fluent Bit ships it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pipeline.simulate.hostlogs import Said, logging_hosts, merged, noise, spoken, stories
from pipeline.simulate.joblogs import NODE_DOWN, ending, training
from pipeline.simulate.plan import Attempt, Plan
from pipeline.simulate.site_slurm import allocations
from pipeline.simulate.stamps import Calendar

_PRIORITY = {"emerg": 0, "crit": 2, "err": 3, "warning": 4, "notice": 5, "info": 6}
#: CRI splits lines longer than this into partial ones.
_CRI_LIMIT = 400
NAMESPACE = "train"


def pod_name(a: Attempt, index: int) -> str:
    return f"{job_name(a)}-worker-{index}"


def job_name(a: Attempt) -> str:
    return f"{'probe' if a.job_id >= 61_000 else 'pretrain'}-{a.job_id}"


def _z(cal: Calendar, t: float) -> str:
    return cal.utc(t).strftime("%Y-%m-%dT%H:%M:%SZ")


def _journal(host: int, said: Iterator[Said], plan: Plan, cal: Calendar, name: Callable[[int], str]) -> Iterator[str]:
    skew = float(plan.skew[host])
    boot = f"{host:032x}"
    for t, line in said:
        us = round((cal.utc(t, skew)).timestamp() * 1e6)
        yield json.dumps(
            {
                "__REALTIME_TIMESTAMP": str(us),
                "_SOURCE_MONOTONIC_TIMESTAMP": str(round((t + 86_400) * 1e6)),
                "_BOOT_ID": boot,
                "_HOSTNAME": name(host),
                "_TRANSPORT": "kernel",
                "SYSLOG_IDENTIFIER": "kernel",
                "PRIORITY": str(_PRIORITY.get(line.level, 6)),
                "MESSAGE": line.text,
            },
            separators=(",", ":"),
        )


def _cri(cal: Calendar, t: float, text: str) -> Iterator[str]:
    stamp = cal.utc(t).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"
    while len(text) > _CRI_LIMIT:
        yield f"{stamp} stdout P {text[:_CRI_LIMIT]}"
        text = text[_CRI_LIMIT:]
    yield f"{stamp} stdout F {text}"


def _fluent(cal: Calendar, t: float, text: str, pod: str, host: str) -> str:
    return json.dumps(
        {
            "date": round(cal.utc(t).timestamp(), 6),
            "log": text,
            "stream": "stdout",
            "kubernetes": {"pod_name": pod, "namespace_name": NAMESPACE, "host": host, "container_name": "trainer"},
        },
        separators=(",", ":"),
    )


def _event(
    t: float, cal: Calendar, kind: str, obj: str, reason: str, message: str, host: str, warn: bool
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "type": "Warning" if warn else "Normal",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": kind, "name": obj, "namespace": NAMESPACE if kind != "Node" else ""},
        "source": {"component": "kubelet", "host": host},
        "firstTimestamp": _z(cal, t),
        "lastTimestamp": _z(cal, t),
        "count": 1,
        "metadata": {"name": f"{obj}.{abs(hash_of(obj, reason, t)):x}", "namespace": NAMESPACE},
    }


def hash_of(*parts: object) -> int:
    """A small stable number for object names (Python's own hash is salted)."""
    from schemas.identity import digest

    return int(digest(*(str(p) for p in parts))[:12], 16)


def _events(plan: Plan, cal: Calendar, name: Callable[[int], str]) -> Iterator[dict[str, Any]]:
    for attempts in allocations(plan):
        a, last = attempts[0], attempts[-1]
        for i, h in enumerate(a.hosts[:8]):
            pod = pod_name(a, i)
            yield _event(
                a.start,
                cal,
                "Pod",
                pod,
                "Scheduled",
                f"Successfully assigned {NAMESPACE}/{pod} to {name(h)}",
                name(h),
                False,
            )
        if last.kind == "completed":
            yield _event(last.end, cal, "Job", job_name(a), "Completed", "Job completed", "", False)
            continue
        first = name(last.host if last.host is not None else a.hosts[0])
        index = a.hosts.index(last.host) if last.host in a.hosts else 0
        pod = pod_name(a, index)
        if last.component == "maintenance.unplanned":
            said = f"Node {first} status is now: NodeNotSchedulable"
            at = last.end - 45 if last.onset is None else last.onset
            yield _event(at, cal, "Node", first, "NodeNotSchedulable", said, first, False)
        if last.component in NODE_DOWN:
            yield _event(
                last.end - 40,
                cal,
                "Node",
                first,
                "NodeNotReady",
                f"Node {first} status is now: NodeNotReady",
                first,
                False,
            )
            yield _event(
                last.end,
                cal,
                "Pod",
                pod,
                "TaintManagerEviction",
                f"Marking for deletion Pod {NAMESPACE}/{pod}",
                first,
                False,
            )
        elif last.kind == "preempted":
            yield _event(last.end, cal, "Pod", pod, "Preempted", "Preempted by a pod on node " + first, first, False)
        elif last.kind == "planned":
            yield _event(
                last.end - 5,
                cal,
                "Node",
                first,
                "NodeNotSchedulable",
                f"Node {first} status is now: NodeNotSchedulable",
                first,
                False,
            )
            yield _event(
                last.end,
                cal,
                "Pod",
                pod,
                "Killing",
                "Stopping container trainer for the planned maintenance window",
                first,
                False,
            )
        elif last.kind in ("cancelled", "timed_out"):
            reason = "DeadlineExceeded" if last.kind == "timed_out" else "Killing"
            said = (
                "Job was active longer than specified deadline"
                if last.kind == "timed_out"
                else "Stopping container trainer"
            )
            yield _event(
                last.end,
                cal,
                "Job" if last.kind == "timed_out" else "Pod",
                job_name(a) if last.kind == "timed_out" else pod,
                reason,
                said,
                first,
                True,
            )
        else:
            yield _event(last.end, cal, "Pod", pod, "Failed", "Error: container exited with code 1", first, True)


def _pods(plan: Plan, cal: Calendar, name: Callable[[int], str]) -> Iterator[dict[str, Any]]:
    for attempts in allocations(plan):
        a, last = attempts[0], attempts[-1]
        for i, h in enumerate(a.hosts):
            ok = last.kind == "completed"
            ended = {"exitCode": 0 if ok else 1, "reason": "Completed" if ok else "Error",
                     "startedAt": _z(cal, a.start), "finishedAt": _z(cal, last.end)}  # fmt: skip
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": pod_name(a, i),
                    "namespace": NAMESPACE,
                    "labels": {
                        "training.kubeflow.org/job-name": job_name(a),
                        "training.kubeflow.org/replica-index": str(i),
                    },
                    "ownerReferences": [{"kind": "PyTorchJob", "name": job_name(a)}],
                },
                "spec": {
                    "nodeName": name(h),
                    "containers": [
                        {
                            "name": "trainer",
                            "resources": {"limits": {"nvidia.com/gpu": str(plan.settings.gpus_per_host)}},
                        }
                    ],
                },
                "status": {
                    "phase": "Succeeded" if ok else "Failed",
                    "startTime": _z(cal, a.start),
                    "containerStatuses": [{"name": "trainer", "restartCount": 0, "state": {"terminated": ended}}],
                },
            }


def _write_list(path: Path, items: Iterator[dict[str, Any]]) -> int:
    """A `kubectl get -o json` list, item by item, so that memory stays flat."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        n = out.write('{"apiVersion": "v1", "kind": "List", "items": [\n')
        for i, item in enumerate(items):
            n += out.write((",\n" if i else "") + json.dumps(item))
        n += out.write("\n]}\n")
    return n


def write_k8s(root: Path, plan: Plan, cal: Calendar, name: Callable[[int], str]) -> int:
    """Everything of the site below `root`; bytes written."""
    s = plan.settings
    told = stories(plan, name)
    said = spoken(plan, told, name)
    size = _write_list(root / "cluster" / "events.json", _events(plan, cal, name))
    size += _write_list(root / "cluster" / "pods.json", _pods(plan, cal, name))
    kern = said["kern"]
    for channel in ("sel",):  # a site without BMC logs still sees what reaches the kernel
        kern.update({h: kern.get(h, []) for h in said[channel]})
    for host in logging_hosts(plan, kern):
        size += _lines(root / "nodes" / name(host) / "journal.json",
                       _journal(host, merged(kern.get(host, []), noise(plan, host)), plan, cal, name))  # fmt: skip
    for number, attempts in enumerate(allocations(plan)):
        a = attempts[0]
        skew = float(plan.skew[a.hosts[0]])

        def spoken_by_job(parts: list[Attempt] = attempts, skew: float = skew) -> Iterator[tuple[float, str]]:
            for k, part in enumerate(parts):
                if k:
                    yield (
                        part.start,
                        f"[default] Worker group FAILED. {3 - k}/3 attempts left; will restart worker group",
                    )
                yield from training(part, s, cal, skew)
                for t, text in ending(part, s, cal, skew, told.get((part.job_id, part.attempt), []), name):
                    if not text.startswith(("slurmstepd:", "srun:")):
                        yield t, text

        pod, node = pod_name(a, 0), name(a.hosts[0])
        if number % 3 == 2:
            size += _lines(root / "shipped" / f"{pod}.fluent.jsonl",
                           (_fluent(cal, t, text, pod, node) for t, text in spoken_by_job()))  # fmt: skip
        else:
            size += _lines(root / "pods" / f"{NAMESPACE}_{pod}_{hash_of(pod):012x}" / "trainer" / "0.log",
                           (row for t, text in spoken_by_job() for row in _cri(cal, t, text)))  # fmt: skip
    return size


def _lines(path: Path, lines: Iterator[str]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    n = 0
    with path.open("w", encoding="utf-8", buffering=1 << 20) as out:
        for line in lines:
            n += out.write(line + "\n")
    return n
