"""What schedulers know of jobs: fragments of any number of records as one `JobRecord` an attempt. Pure.

Fragments of one job (sacct rows with their steps, scontrol, controller log, Kubernetes objects) are sorted into
attempts by their start: a requeued job has several. Each field takes the best value: an ended state before a running
one, accounting before the controller's log before a snapshot; times and hosts likewise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from pipeline.joining.events import ClockLike
from pipeline.runs.memo import Memo
from schemas.facts import NO_STAMP, RunFragment, SourceFact, Stamp

#: Two records speak of one attempt if their starts differ by no more than this.
SAME_START_US = 120 * 1_000_000
OPEN_STATES = frozenset(
    {
        "",
        "RUNNING",
        "PENDING",
        "CONFIGURING",
        "COMPLETING",
        "SUSPENDED",
        "STAGE_OUT",
        "RESIZING",
        "STOPPED",
        "SIGNALING",
    }
)
#: Schedulers that give out nodes. Records of launchers (`torchelastic`, `mpi`) only add to what these or a log know.
REAL = frozenset({"slurm", "k8s", "ray", "pbs", "lsf"})
_AUTHORITY = ("sacct", "slurmctld", "slurm_daemon", "k8s", "scontrol", "squeue")


@dataclass(slots=True)
class JobRecord:
    """One attempt of a job as the schedulers saw it. Times are UTC microseconds or None."""

    scheduler: str
    cluster: str
    job_id: str
    printed_start: str
    start_us: int | None
    end_us: int | None
    unc: float
    state: str
    exit_code: int | None
    exit_signal: int | None
    nodes: tuple[str, ...]
    n_nodes: int | None
    n_gpus: int | None
    user: str
    account: str
    name: str
    reason: str
    roots: tuple[str, ...]
    extra: tuple[str, ...]
    source_ids: tuple[str, ...]
    assumed: tuple[str, ...] = ()
    index: int = 0  # order among the job's attempts
    members: frozenset[str] = frozenset()  # names of its pods

    @property
    def open(self) -> bool:
        return self.state in OPEN_STATES and self.end_us is None


@dataclass(slots=True)
class _Placed:
    fragment: RunFragment
    start: int | None
    end: int | None
    unc: float
    authority: int


@dataclass(slots=True)
class _Attempt:
    start: int | None
    end: int | None
    items: list[_Placed] = field(default_factory=list)


def _authority(source: SourceFact | None, fragment: RunFragment) -> int:
    name = source.format if source else ""
    for rank, word in enumerate(_AUTHORITY):
        if name.startswith(word):
            return rank
    return len(_AUTHORITY) if fragment.state not in OPEN_STATES else len(_AUTHORITY) + 1


def _place(fragment: RunFragment, source: SourceFact | None, clock: ClockLike | None) -> _Placed:
    start, unc = _utc(fragment.start, clock)
    end, unc_end = _utc(fragment.end, clock)
    return _Placed(fragment, start, end, max(unc, unc_end), _authority(source, fragment))


def _utc(stamp: Stamp, clock: ClockLike | None) -> tuple[int | None, float]:
    if stamp.kind == "none":
        return None, 0.0
    if clock is None:
        return (stamp.us, 1.0) if stamp.kind == "utc" else (None, 0.0)
    t, unc = clock.utc(stamp)
    return t, unc if t is not None else 0.0


def _cluster_groups(fragments: Iterable[RunFragment]) -> dict[tuple[str, str, str], list[RunFragment]]:
    """Fragments by (scheduler, cluster, job id); those without a cluster join the only cluster that has the job."""
    by_job: dict[tuple[str, str], list[RunFragment]] = defaultdict(list)
    for f in fragments:
        if f.job_id and f.scheduler in REAL:
            by_job[f.scheduler, f.job_id].append(f)
    out: dict[tuple[str, str, str], list[RunFragment]] = defaultdict(list)
    for (scheduler, job), items in by_job.items():
        clusters = sorted({f.cluster for f in items if f.cluster})
        default = clusters[0] if len(clusters) == 1 else ""
        for f in items:
            out[scheduler, f.cluster or default, job].append(f)
    return out


def records(
    fragments: Sequence[RunFragment],
    sources: Mapping[str, SourceFact],
    clocks: Mapping[str, ClockLike],
    memo: Memo | None = None,
) -> list[JobRecord]:
    """All attempts of all jobs, sorted by (scheduler, cluster, job id, order of attempts)."""
    memo = memo or Memo()
    out: list[JobRecord] = []
    for key, items in sorted(_cluster_groups(fragments).items()):
        used = dict.fromkeys(f.source_id for f in items)
        told = [(s.root, s.format) if (s := sources.get(sid)) is not None else None for sid in used]
        inputs = (items, told, [clocks.get(sid) for sid in used])
        out += memo.get(("records", key), inputs, partial(_of_job, key, items, sources, clocks))
    return out


def _of_job(
    key: tuple[str, str, str],
    items: Sequence[RunFragment],
    sources: Mapping[str, SourceFact],
    clocks: Mapping[str, ClockLike],
) -> list[JobRecord]:
    """The attempts of one job in order."""
    scheduler, cluster, job = key
    placed = [_place(f, sources.get(f.source_id), clocks.get(f.source_id)) for f in items]
    placed = _in_order(placed)
    attempts = _attempts([p for p in placed if not p.fragment.step])
    for p in (p for p in placed if p.fragment.step):
        _attach_step(p, attempts)
    return [_record(scheduler, cluster, job, attempt, index, sources, clocks) for index, attempt in enumerate(attempts)]


def _in_order(placed: Iterable[_Placed]) -> list[_Placed]:
    """By authority and place, those of one place by all that they say; node lists are long: only where it matters."""
    out: list[_Placed] = []

    def where(p: _Placed) -> tuple[int, tuple[str, int, str, str]]:
        return (p.authority, p.fragment.key)

    for _, alike in groupby(sorted(placed, key=where), key=where):
        same = list(alike)
        out += same if len(same) == 1 else sorted(same, key=lambda p: repr(p.fragment))
    return out


def _attempts(jobs: list[_Placed]) -> list[_Attempt]:
    """Job-level records sorted into attempts by start; those without a start go where their end fits, else last."""
    attempts: list[_Attempt] = []
    for p in sorted((p for p in jobs if p.start is not None), key=lambda p: (p.start or 0, p.authority)):
        near = attempts[-1] if attempts else None
        if near is not None and _one_attempt(near, p):
            near.items.append(p)
        else:
            attempts.append(_Attempt(p.start, None, [p]))
    for attempt in attempts:
        attempt.end = max((p.end for p in attempt.items if p.end is not None), default=None)
    for p in (p for p in jobs if p.start is None):
        if not attempts:
            attempts.append(_Attempt(None, p.end, []))
        _fitting(attempts, p).items.append(p)
    return attempts


def _one_attempt(near: _Attempt, p: _Placed) -> bool:
    """Whether a record speaks of an attempt: starts agree, and one source never prints two starts of one attempt."""
    apart = (p.start or 0) - (near.start or 0)
    if apart < 1_000_000:
        return True
    return apart <= SAME_START_US and all(
        p.fragment.source_id != q.fragment.source_id or abs((p.start or 0) - (q.start or 0)) < 1_000_000
        for q in near.items
    )


def _fitting(attempts: list[_Attempt], p: _Placed) -> _Attempt:
    at = p.start if p.start is not None else p.end
    if at is not None:
        begun = [a for a in attempts if a.start is not None and a.start <= at + SAME_START_US]
        if begun:
            return begun[-1]
    return attempts[-1]


def _attach_step(p: _Placed, attempts: list[_Attempt]) -> None:
    if not attempts:
        attempts.append(_Attempt(p.start, p.end, []))
    _fitting(attempts, p).items.append(p)


def _record(
    scheduler: str,
    cluster: str,
    job: str,
    attempt: _Attempt,
    index: int,
    sources: Mapping[str, SourceFact],
    clocks: Mapping[str, ClockLike],
) -> JobRecord:
    items = _in_order(attempt.items)
    jobs = [p for p in items if not p.fragment.step] or items
    steps = [p for p in items if p.fragment.step]
    ended = [p for p in jobs if p.fragment.state not in OPEN_STATES]
    lead = min(
        ended or jobs,
        key=lambda p: (p.authority, -(p.end or 0), p.fragment.state in OPEN_STATES, p.fragment.key),
    ).fragment
    order = [lead, *(p.fragment for p in (*jobs, *steps) if p.fragment is not lead)]
    started = [p for p in jobs if p.fragment.start != NO_STAMP] or [p for p in steps if p.fragment.start != NO_STAMP]
    ends = [p for p in (ended or jobs) if p.end is not None] or [p for p in steps if p.end is not None and not jobs]
    whole = [f for f in order if f.nodes and "nodes_cut=1" not in f.extra]
    nodes = next((f.nodes for f in whole if not f.step), ()) or tuple(
        dict.fromkeys(n for f in (whole or order) for n in f.nodes)
    )
    extra: dict[str, str] = {}
    for f in order:
        for item in f.extra:
            name, _, value = item.partition("=")
            extra.setdefault(name if not f.step else f"step.{f.step}.{name}", value)
        if f.step and f.state:
            extra.setdefault(f"step.{f.step}", f"{f.state}:{f.exit_code or 0}:{f.exit_signal or 0}")
    used = sorted({f.source_id for f in order})
    start = min(started, key=lambda p: (p.authority, p.start or 0)) if started else None
    end = max(ends, key=lambda p: (-p.authority, p.end or 0)) if ends else None
    return JobRecord(
        scheduler=scheduler,
        cluster=cluster,
        job_id=job,
        printed_start=_second(start.fragment.start) if start else "",
        start_us=start.start if start else None,
        end_us=end.end if end else None,
        unc=max((p.unc for p in items), default=1.0) or 1.0,
        state=lead.state,
        exit_code=_first(order, "exit_code", lead),
        exit_signal=_first(order, "exit_signal", lead),
        nodes=nodes,
        n_nodes=next((f.n_nodes for f in order if f.n_nodes), None) or len(nodes) or None,
        n_gpus=next((f.n_gpus for f in order if f.n_gpus), None),
        user=next((f.user for f in order if f.user), ""),
        account=next((f.account for f in order if f.account), ""),
        name=next((f.name for f in order if f.name and not f.step), ""),
        reason=next((f.reason for f in order if f.reason and f.reason != "None"), ""),
        roots=tuple(sorted({sources[s].root for s in used if s in sources})),
        extra=tuple(sorted(f"{k}={v}" for k, v in extra.items())),
        source_ids=tuple(used),
        assumed=tuple(sorted({a for s in used if s in clocks for a in clocks[s].assumed})),
        index=index,
        members=frozenset(f.step for f in order if f.step and scheduler == "k8s"),
    )


def _first(order: Sequence[RunFragment], name: str, lead: RunFragment) -> int | None:
    """A number of the leading record, else of the first job-level record that ended and has it."""
    own: int | None = getattr(lead, name)
    if own is not None:
        return own
    values = [getattr(f, name) for f in order if not f.step and f.state not in OPEN_STATES]
    return next((v for v in values if v is not None), None)


def _second(stamp: Stamp) -> str:
    """A stamp as the key of a run: to the second, because records of one start differ in their fractions."""
    return f"{stamp.kind}:{stamp.us // 1_000_000}"
