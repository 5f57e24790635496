"""Which host, GPU and rank failed first: by the root event, else by who exited first, else by who said nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from classifiers.engine.ranks import (
    blamed,
    device_rank,
    global_rank,
    gpu_name,
    host_by_lines,
    lost_replica,
    nccl_device,
    nvml_index,
    only_named_host,
    rank_of_address,
)
from classifiers.engine.resolve import cleared
from schemas.subject import Event, JobRun, Subject

_RANK = re.compile(r"\b[Rr]ank[ =:]{0,2}(\d{1,6})\b")
_LOCAL = re.compile(r"\blocal_rank[ =:]{1,3}(\d{1,4})\b")
_REPLICA = re.compile(r"-(?:worker|master|replica|launcher)-(\d{1,6})$")
_RANK_FIELDS = ("rank", "grank", "task", "proc", "tasks")
#: What a launcher says of the process that died, and of how processes ended.
_DIED = frozenset({"crash", "exited"})
_EXITS = frozenset({"exit_code", "exited"})


def first_failing(subject: Subject, root: Event | None, name: str) -> tuple[str | None, int | None, int | None]:
    """(host, GPU index, global rank), None where not known."""
    host = _host(subject, root)
    if name == "facility":
        return host, None, None
    gpu = None
    if root is not None and (match := re.fullmatch(r"gpu:(\d+)", root.device)):
        gpu = int(match[1])
    elif root is not None and root.device.startswith("pci:"):
        index = gpu_name(subject.facts, "index", root.host, root.device[4:])
        gpu = int(index) if index.isdigit() else None
    elif root is not None and "timeout" not in root.tags and (device := nccl_device(root)) is not None:
        gpu = nvml_index(subject.facts, root.host, device)
    return host, gpu, _rank(subject, root)


def _host(subject: Subject, root: Event | None) -> str | None:
    run = subject.run
    if root is not None and root.host:
        return root.host
    if run is None:
        return subject.host or None
    if len(run.nodes) == 1:
        return run.nodes[0]
    # what a launcher says of the rank that crashed
    crashed = {e.host for e in subject.events if _DIED & e.tags and e.family == "job" and e.host and not cleared(e)}
    if len(crashed) == 1:
        return crashed.pop()
    if root is None or "timeout" in root.tags:
        return None
    first = blamed(subject.events)
    if first is not None and first[0]:
        return first[0]
    if root.family != "job":
        return None
    rank = _own_rank(root)
    by_lines = host_by_lines(subject.facts, rank) if rank is not None and not root.host else None
    return by_lines or place_of(root, run) or only_named_host(subject)


def host_of_rank(run: JobRun, rank: int) -> str | None:
    """The host of a rank as Slurm lays ranks out unless told otherwise: in blocks, in the order of its node list
    (`man srun`, --distribution=block). Only where the record names all hosts and each has as many GPUs."""
    n = len(run.nodes)
    if run.scheduler != "slurm" or not n or run.n_nodes != n or not run.n_gpus or run.n_gpus % n or rank >= run.n_gpus:
        return None
    return run.nodes[rank // (run.n_gpus // n)]


def _rank(subject: Subject, root: Event | None) -> int | None:
    if root is not None and "timeout" not in root.tags:
        found = _own_rank(root)
        if found is None and root.host and (device := nccl_device(root)) is not None:
            found = device_rank(subject.facts, root.host, device)
        if found is None and root.host and root.family != "job" and root.device.startswith("pci:"):
            found = rank_of_address(subject.facts, root.host, root.device[4:])
        if found is not None:
            return found
    accused = [e.rank for e in subject.events if "recorder" in e.tags and e.role != "context" and e.rank is not None]
    if accused:
        return min(accused)  # the flight recorder's dumps show who kept the others waiting
    silent = silent_rank(subject.events)
    if silent is not None:
        return silent
    first = blamed(subject.events)
    if first is not None and first[1] is not None:
        return first[1]
    exits = [e for e in subject.events if e.tags & _EXITS and ("teardown" not in e.tags or _DIED & e.tags)]
    for event in exits:
        if cleared(event):
            continue
        found = _own_rank(event)
        if found is not None:
            return found
        local = event.field("local_rank") or event.field("lr") or next(iter(_LOCAL.findall(event.text)), "")
        if local.isdigit() and (found := global_rank(subject.run, event.host, int(local))) is not None:
            return found
    if root is None:
        return None
    return root.rank if root.family != "cluster" else lost_replica(subject.events, root.host)


def _own_rank(event: Event) -> int | None:
    if event.rank is not None:
        return event.rank
    for name in _RANK_FIELDS:
        value = event.field(name)
        if value.isdigit():
            return int(value)
    for name in ("pod", "name"):
        if match := _REPLICA.search(event.field(name)):
            return int(match[1])
    match = _RANK.search(event.text)
    return int(match[1]) if match and event.family == "job" else None


def place_of(event: Event, run: JobRun | None) -> str | None:
    """The host that a job's line speaks of: the one that it names, else the one that its rank runs on."""
    if event.host or run is None:
        return event.host or None
    rank = _own_rank(event)
    return host_of_rank(run, rank) if rank is not None else None


def silent_rank(events: Sequence[Event]) -> int | None:
    """The one rank that did not time out while all others of 0..n did: the others waited for it."""
    timed = [e for e in events if "timeout" in e.tags and "recorder" not in e.tags and not cleared(e)]
    ranks = {r for e in timed for r in e.ranks}
    if len(ranks) < 3:
        return None
    missing = set(range(max(ranks) + 1)) - ranks
    return missing.pop() if len(missing) == 1 else None
