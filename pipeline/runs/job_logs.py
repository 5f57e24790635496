"""Which sources are job logs, which of them are one run, and which job they belong to. Pure.

A source of the job family is a run's log if it shows progress, a beginning, an end, a failure in the words of training
programs, or names of a job's world; else it is evidence (a listing, stack dumps, a service's log). Logs of several
ranks, nodes or streams of one job are one group: same folder once ranks are taken out of the names, and times that
overlap. Which job a group belongs to, `pipeline.runs.job_ties` tells.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.formats.base import registry
from pipeline.joining.events import ClockLike, expand_hosts
from pipeline.joining.recorder import dump_sets
from pipeline.runs.attempts import LogView
from schemas.facts import RunFragment, SourceFact, Stamp

_SLURM_FILE = re.compile(r"(?:^|/)slurm-(\d{1,12})(?:_(\d{1,7}))?(?:[.-][^/]{0,80})?$")
_JOB_FOLDER = re.compile(r"(?:^|/)jobs?[/_-](\d{2,12})(?:_(\d{1,7}))?(?=[/._-]|$)", re.IGNORECASE)
_JOB_FILE = re.compile(r"(?:^|/)[^/]{0,120}?[._-](\d{3,12})(?:_(\d{1,7}))?\.(?:out|err|log|txt|o|e)(?:\.\w{1,4})?$")
_NUMBER_FILE = re.compile(r"(?:^|/)(\d{2,12})(?:_(\d{1,7}))?\.(?:out|err|log|txt)$")
_PBS_FILE = re.compile(r"\.[oe](\d{2,12})(?:\.\w{1,4})?$")
_DATE = re.compile(r"(?:19|20)\d{6}(?:\d{4,6})?$")
_RANK_WORD = re.compile(
    r"(?i)(?:global|local|node|group)?[_-]?(?:rank|node|worker|replica|host|task|proc|process|gpu|device|pod|trainer)[_-]?\d+"
)
_STREAM = re.compile(
    r"(?i)(?:^|[._-])(?:stdout|stderr|std_out|std_err|out|err|error|output|log|txt|gz|zst|xz|bz2)(?=[._-]|$)"
)
_ATTEMPT_DIR = re.compile(r"(?i)(?:^|/)(?:attempt|restart|retry|run_attempt)[_-]?(\d{1,4})(?=/|_|\.|$)")
_POD_UID = re.compile(r"_[0-9a-f]{6,40}(?:-[0-9a-f]{4,12}){0,4}$")
#: Kubelet's own files: <namespace>_<pod>_<uid>/<container>/<restarts>.log
_KUBELET = re.compile(r"(?:^|/)[^/_]{1,63}_[^/_]{1,253}_[0-9a-f-]{6,40}/[^/]{1,63}/(\d{1,4})\.log(?:\.\w{1,20})?$")
#: Facts that only a training program or its launcher prints.
_WORLD = ("world_size=", "nranks=", "nproc_per_node=", "rdzv_id=", "n_gpus=", "nccl_version=")
#: How far a log's stamps may lie outside of its job's times, microseconds.
SLACK_US = 15 * 60 * 1_000_000


@dataclass(frozen=True, slots=True)
class PathId:
    """A job id in a path; task: index of the array task, -1 for none. sure: named as the scheduler names its files."""

    job: str
    task: int
    sure: bool


@dataclass(slots=True)
class LogGroup:
    """Logs of one run (or of one job's attempts).

    span: first and last stamp in UTC microseconds, None if unknown. task, attempt: numbers in their paths, -1 for none.
    """

    key: tuple[str, ...]
    root: str
    sources: list[SourceFact]
    ids: set[str]
    task: int
    attempt: int
    span: tuple[int, int] | None
    hosts: frozenset[str]
    tied: str = ""
    path_job: str = ""
    names: list[str] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, int, int, str]:
        """Where the group stands among others of its job."""
        return (self.attempt, self.task, self.span[0] if self.span else 0, self.sources[0].inner_paths[0])


def path_id(path: str) -> PathId | None:
    """The job id that a path names, if any: `slurm-123_4.out`, `jobs/123/x.log`, `train-123456.err`, `run.o4242`."""
    name = re.sub(r"\.(?:gz|zst|xz|bz2)$", "", path.replace("!", "/"))
    if m := _SLURM_FILE.search(name):
        return PathId(m[1], int(m[2]) if m[2] else -1, True)
    if m := _JOB_FOLDER.search(name):
        return PathId(m[1], int(m[2]) if m[2] else -1, True)
    if m := _NUMBER_FILE.search(name):
        # ranks are named by small numbers too
        return None if _DATE.match(m[1]) else PathId(m[1], int(m[2]) if m[2] else -1, len(m[1]) >= 5)
    if m := _PBS_FILE.search(name):
        return PathId(m[1], -1, False)
    if (m := _JOB_FILE.search(name)) and not _DATE.match(m[1]):
        return PathId(m[1], int(m[2]) if m[2] else -1, False)
    return None


def stem(path: str) -> str:
    """A path with ranks, nodes, streams and attempts taken out: equal for the logs of one run in one folder."""
    folder, _, name = path.replace("!", "/").rpartition("/")
    parts = [p for p in folder.split("/") if p]
    under_attempt = any(_ATTEMPT_DIR.search(p) for p in parts)
    parts = ["#" if under_attempt and p.isdigit() else _RANK_WORD.sub("#", p) for p in parts]
    parts = [_ATTEMPT_DIR.sub("@", _POD_UID.sub("", p)) for p in parts]
    name = _RANK_WORD.sub("#", name)
    for _ in range(3):
        name = _STREAM.sub("", name)
    name = re.sub(r"^\d{1,4}$", "#", name.strip("._-"))
    return "/".join([*parts, name])


def is_run(source: SourceFact, log: LogView, alone: bool) -> bool:
    """Whether a source is a run's log. alone: no other log and no job record is in its input root."""
    if source.family != "job":
        return False
    fmt = registry().get(source.format)
    if fmt is not None and not getattr(fmt, "progress", False):
        # Records (error files, recorder dumps) are evidence; shipped job output shows more than failures.
        return alone or any(m.kind not in ("failure", "stop", "teardown") for m in log.marks)
    if any(m.kind not in ("teardown", "ckpt_begin") for m in log.marks):
        return True
    return alone or bool(source.job_ids) or any(f.startswith(_WORLD) for f in source.facts)


def span(source: SourceFact, clock: ClockLike | None) -> tuple[int, int] | None:
    """First and last stamp of a source in UTC microseconds, from the frame that says most."""
    if clock is None:
        return None
    spans = {kind: (low, high) for kind, low, high in source.spans}
    for kind in ("utc", "local", "noyear", "time", "mono"):
        if kind in spans:
            low, _ = clock.utc(Stamp(kind, spans[kind][0]))
            high, _ = clock.utc(Stamp(kind, spans[kind][1]))
            if low is not None and high is not None and low <= high:
                return low, high
    return None


def hosts_of(source: SourceFact, clock: ClockLike | None) -> frozenset[str]:
    """Hosts that a job log names as its own: NCCL and srun lines, the node list, its path. Addresses are left out."""
    found = {name for name, _ in source.names} | {host for _, host in source.rank_hosts}
    for fact in source.facts:
        name, _, value = fact.partition("=")
        if name == "nodelist":
            found.update(expand_hosts(value))
    if source.host:
        found.add(source.host)
    elif clock is not None and clock.host:
        found.add(clock.host)
    return frozenset(h for h in found if h and not re.fullmatch(r"[\d.]+|[0-9a-f:]*:[0-9a-f:]+", h))


def groups(
    sources: Iterable[SourceFact],
    clocks: Mapping[str, ClockLike],
    views: Mapping[str, LogView],
    known: frozenset[str] = frozenset(),
) -> list[LogGroup]:
    """Job logs that are runs, grouped; sorted by key. known: job ids of records; other numbers in names need more."""
    everything = sorted(sources, key=lambda s: s.source_id)
    per_root: dict[str, int] = defaultdict(int)
    for s in everything:
        per_root[s.root] += 1
    members: dict[tuple[str, ...], list[SourceFact]] = defaultdict(list)
    for s in everything:
        log = views.get(s.source_id)
        if log is None or not is_run(s, log, per_root[s.root] == 1):
            continue
        members[_group_key(s, known)].append(s)
    out: list[LogGroup] = []
    for key, items in sorted(members.items()):
        out.extend(_split_by_time(key, items, clocks, known))
    return _without_evidence(out, views)


def name_by_pods(found: Iterable[LogGroup], fragments: Iterable[RunFragment]) -> None:
    """Gives containers' logs the job that their pods' objects name; the name of a pod alone only hints at it."""
    jobs: dict[str, set[str]] = defaultdict(set)
    for f in fragments:
        if f.scheduler == "k8s" and f.step:
            jobs[f.step].add(f.job_id)
    for group in found:
        pods = {fact.rsplit("/", 1)[-1].removeprefix("pod=") for s in group.sources for fact in s.facts
                if fact.startswith("pod=")}  # fmt: skip
        told = {job for pod in pods for job in jobs.get(pod, ())}
        if len(told) == 1:
            group.ids = told


def recorder_groups(
    sources: Iterable[SourceFact], clocks: Mapping[str, ClockLike], taken: Collection[str]
) -> list[LogGroup]:
    """Sets of flight recorder dumps as runs, in roots where nothing else tells of one; it does in those of `taken`."""
    return [
        _group((root, "", "", folder, "dumps"), dumps, _span_of(dumps, clocks), clocks, frozenset())
        for (root, folder), found in sorted(dump_sets(sources).items())
        if root not in taken and (dumps := [s for s in found if s.family == "job"])
    ]


def _span_of(sources: Iterable[SourceFact], clocks: Mapping[str, ClockLike]) -> tuple[int, int] | None:
    spans = [sp for s in sources if (sp := span(s, clocks.get(s.source_id)))]
    return (min(low for low, _ in spans), max(high for _, high in spans)) if spans else None


def _without_evidence(found: Sequence[LogGroup], views: Mapping[str, LogView]) -> list[LogGroup]:
    """Groups without those that only tell of failures beside the only training log of their root: stack dumps, a
    tool's output. They stay evidence of that log's run."""
    training: dict[str, int] = defaultdict(int)
    for group in found:
        training[group.root] += _trains(group, views)
    return [g for g in found if training[g.root] != 1 or _trains(g, views)]


def _trains(group: LogGroup, views: Mapping[str, LogView]) -> bool:
    """Whether a group shows a run's life, not only failures: steps, a beginning, an end, or a job id of its own."""
    kinds = {m.kind for s in group.sources for m in views[s.source_id].marks}
    return bool(kinds - {"failure", "stop", "teardown"} or group.ids or group.path_job)


def _path_job(path: str, known: frozenset[str]) -> PathId | None:
    """The job id of a path, if the path surely names one or a record has that id."""
    named = path_id(path)
    if named is None or named.sure or named.job in known or f"{named.job}_{named.task}" in known:
        return named
    return None


def _group_key(s: SourceFact, known: frozenset[str]) -> tuple[str, ...]:
    path = s.inner_paths[0] if s.inner_paths else s.source_id
    named = _path_job(path, known)
    attempt = _attempt(path)
    job = f"{named.job}_{named.task}" if named else ""
    text = s.job_ids[0] if len(s.job_ids) == 1 and named is None else ""
    return (s.root, job or text, attempt, "" if named else stem(path))


def _attempt(path: str) -> str:
    """The number that a launcher or kubelet gave to an attempt in a path, "" if none."""
    path = path.replace("!", "/")
    found = _ATTEMPT_DIR.search(path) or _KUBELET.search(path)
    return found[1] if found else ""


def _split_by_time(
    key: tuple[str, ...], items: Sequence[SourceFact], clocks: Mapping[str, ClockLike], known: frozenset[str]
) -> Iterable[LogGroup]:
    """One group a stretch of overlapping logs; logs without times join the first stretch."""
    timed = sorted(
        ((sp, s) for s in items if (sp := span(s, clocks.get(s.source_id)))), key=lambda x: (x[0], x[1].source_id)
    )
    loose = [s for s in items if span(s, clocks.get(s.source_id)) is None]
    chunks: list[tuple[list[SourceFact], tuple[int, int]]] = []
    for sp, s in timed:
        if chunks and sp[0] <= chunks[-1][1][1] + SLACK_US:
            low, high = chunks[-1][1]
            chunks[-1] = ([*chunks[-1][0], s], (low, max(high, sp[1])))
        else:
            chunks.append(([s], sp))
    if not chunks:
        yield _group(key, loose, None, clocks, known)
        return
    for index, (chunk, sp) in enumerate(chunks):
        yield _group(key, [*chunk, *loose] if index == 0 else chunk, sp, clocks, known)


def _group(
    key: tuple[str, ...],
    items: Sequence[SourceFact],
    sp: tuple[int, int] | None,
    clocks: Mapping[str, ClockLike],
    known: frozenset[str],
) -> LogGroup:
    ordered = sorted(items, key=lambda s: (s.inner_paths, s.source_id))
    named = [p for s in ordered for path in s.inner_paths if (p := _path_job(path, known))]
    attempt = _attempt(ordered[0].inner_paths[0]) if ordered[0].inner_paths else ""
    return LogGroup(
        key=key,
        root=ordered[0].root,
        sources=ordered,
        ids={i.split(".", 1)[0] if i[:1].isdigit() else i for s in ordered for i in s.job_ids},
        task=named[0].task if named else -1,
        attempt=int(attempt) if attempt else -1,
        span=sp,
        hosts=frozenset(h for s in ordered for h in hosts_of(s, clocks.get(s.source_id))),
        path_job=named[0].job if named else "",
    )
