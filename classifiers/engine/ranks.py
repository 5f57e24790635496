"""Which rank does a line speak of? NCCL's devices as ranks, and what launchers print of the process that failed first.

All of it is read from the events of one subject and from the facts of its logs. A rank of a sub-communicator is never
taken for a global one where a larger communicator is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from schemas.subject import Event, JobRun, Subject

#: `nccl_rank:<ranks of the communicator>:<host>:<device>=<rank>`, facts of job logs.
_FACT = re.compile(r"nccl_rank:(\d{1,7}):([^:=]{1,253}):(\d{1,3})=(\d{1,7})")
_SIZE = re.compile(r"(?:nranks|world_size)=(\d{1,7})")
_NCCL = re.compile(r"(?:^|[\s\]>])([\w.-]{0,60}[A-Za-z][\w.-]{0,60}):\d{1,9}:\d{1,9} \[(\d{1,3})\] ")
_REPLICA = re.compile(r"-(?:worker|master|replica|launcher)-(\d{1,6})$")
#: How far behind the heading of a torchelastic summary its first failure's fields stand, bytes.
_BLOCK = 1_200


def nccl_device(event: Event) -> int | None:
    """The device that NCCL prints in front of its messages: an index on the host, as the process sees it."""
    match = _NCCL.search(event.text[:240])
    return int(match[2]) if match is not None and "NCCL" in event.text else None


def device_rank(facts: Iterable[str], host: str, device: int) -> int | None:
    """The global rank of a host's device by NCCL's own lines; None where they name several, or parts of a job."""
    world = 0
    known: dict[int, set[int]] = {}
    for fact in facts:
        if size := _SIZE.fullmatch(fact):
            world = max(world, int(size[1]))
        elif match := _FACT.fullmatch(fact):
            size_of = int(match[1])
            world = max(world, size_of)
            if match[2] == host and int(match[3]) == device:
                known.setdefault(size_of, set()).add(int(match[4]))
    # 0: a line that does not tell how large its communicator is
    found = known.get(world) or (known.get(0) if known.keys() == {0} else None)
    return next(iter(found)) if found is not None and len(found) == 1 else None


def rank_of_address(facts: Iterable[str], host: str, bdf: str) -> int | None:
    """The global rank that ran on a GPU of a host, by NCCL's addresses (`nccl_gpu:<host>:<device>=...`)."""
    known = [fact for fact in facts if fact.startswith((f"nccl_gpu:{host}:", "nccl_rank:", "nranks=", "world_size="))]
    devices = {
        int(fact[len(f"nccl_gpu:{host}:") :].partition("=")[0])
        for fact in known
        if fact.startswith("nccl_gpu:") and fact.rpartition("@")[2] == bdf
    }
    ranks = {rank for device in devices if (rank := device_rank(known, host, device)) is not None}
    return ranks.pop() if len(ranks) == 1 else None


def host_by_lines(facts: Iterable[str], rank: int) -> str | None:
    """The host of a global rank: as the job printed it (`rank_on:<rank>=<host>`), else by NCCL's lines of the world."""
    world = 0
    hosts: dict[int, set[str]] = {}
    printed: set[str] = set()
    for fact in facts:
        if fact.startswith(f"rank_on:{rank}="):
            printed.add(fact.partition("=")[2])
        elif size := _SIZE.fullmatch(fact):
            world = max(world, int(size[1]))
        elif match := _FACT.fullmatch(fact):
            world = max(world, int(match[1]))
            if int(match[4]) == rank:
                hosts.setdefault(int(match[1]), set()).add(match[2])
    found = printed or hosts.get(world, set())
    return next(iter(found)) if len(found) == 1 else None


def nvml_index(facts: Iterable[str], host: str, device: int) -> int:
    """The index on the host of a device as its process counts it, where NCCL told it; else the same number."""
    prefix = f"nccl_gpu:{host}:{device}="
    told = {fact[len(prefix) :].partition("@")[0] for fact in facts if fact.startswith(prefix)}
    return int(told.pop()) if len(told) == 1 and all(number.isdigit() for number in told) else device


def gpu_name(facts: Iterable[str], kind: str, host: str, bdf: str) -> str:
    """`index`, `uuid` or `serial` of the GPU at an address of a host; "" where not known, or of several hosts."""
    exact, loose = f"gpu_{kind}_on:{host}:{bdf}=", f"gpu_{kind}:{bdf}="
    facts = tuple(facts)
    if not bdf:
        return ""
    for prefix in (exact, loose):
        values = {fact[len(prefix) :] for fact in facts if fact.startswith(prefix)}
        if values:
            return values.pop() if len(values) == 1 else ""
    return ""


def blamed(events: Sequence[Event]) -> tuple[str, int | None] | None:
    """(host, rank) of the failure that torchelastic's summary calls the first; None without a summary."""
    marks = sorted((e.source_id, e.offset) for e in events if "root_cause" in e.tags)
    fields = sorted((e for e in events if "block" in e.tags), key=lambda e: (e.source_id, e.offset))
    for source, at in marks:
        inside = [e for e in fields if e.source_id == source and at < e.offset <= at + _BLOCK]
        host = next((e.host for e in inside if e.field("host")), "")
        rank = next((e.field("rank") for e in inside if e.field("rank")), "")
        if host or rank.isdigit():
            return host, int(rank) if rank.isdigit() else None
    return None


def lost_replica(events: Sequence[Event], host: str | None) -> int | None:
    """The index of the only replica that the cluster's events speak of, on the host where one is named."""
    found = set()
    for event in events:
        if event.family != "cluster" or (host and event.host and event.host != host):
            continue
        for name in ("pod", "name"):
            if match := _REPLICA.search(event.field(name)):
                found.add(int(match[1]))
    return found.pop() if len(found) == 1 else None


def global_rank(run: JobRun | None, host: str, local: int) -> int | None:
    """The rank of a host's local rank, as Slurm lays ranks out unless told otherwise (`man srun`, block)."""
    if run is None or len(run.nodes) <= 1:
        return local if run is not None and (run.n_nodes or 1) <= 1 else None
    n = len(run.nodes)
    if run.scheduler != "slurm" or run.n_nodes != n or not run.n_gpus or run.n_gpus % n or host not in run.nodes:
        return None
    each = run.n_gpus // n
    return run.nodes.index(host) * each + local if local < each else None


def only_named_host(subject: Subject) -> str | None:
    """The one host that all lines of the job's own log name, where the record does not tell of more."""
    run = subject.run
    if run is None or (run.n_nodes or 1) > 1 or len(run.nodes) > 1:
        return None
    named = {host for e in subject.events if e.family == "job" for host in e.hosts or ((e.host,) if e.host else ())}
    return named.pop() if len(named) == 1 else None
