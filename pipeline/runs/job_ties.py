"""Which job of a scheduler a group of job logs belongs to, and how that is known. Pure.

`Jobs` indexes all records once; `Jobs.tie` asks, in order of trust: a job id in the path, one in the text, the name of
a pod or of the job in the path, hosts together with times, and last whether nothing else is there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from pipeline.runs.job_logs import SLACK_US, LogGroup
from pipeline.runs.job_records import JobRecord

Key = tuple[str, str, str]  # (scheduler, cluster, job id)
_ENDINGS = re.compile(r"(?:\.(?:log|txt|out|err|gz|zst|\d{1,4}))+$")
_REPLICA = re.compile(r"(?:-[a-z]+)?-\d{1,5}$")


class Jobs:
    """Records of all jobs, found by id, pod, host and root."""

    def __init__(self, records: Sequence[JobRecord]) -> None:
        self.by_job: dict[Key, list[JobRecord]] = defaultdict(list)
        self._ids: dict[str, set[Key]] = defaultdict(set)
        self._pods: dict[str, set[Key]] = defaultdict(set)
        self._roots: dict[str, set[Key]] = defaultdict(set)
        for r in records:
            key = (r.scheduler, r.cluster, r.job_id)
            self.by_job[key].append(r)
            self._ids[r.job_id].add(key)
            for item in r.extra:
                if item.startswith("job_id_raw="):
                    self._ids[item.partition("=")[2]].add(key)
            for index, names in ((self._pods, r.members), (self._roots, r.roots)):
                for name in names:
                    index[name].add(key)

    @cached_property
    def _hosts(self) -> dict[str, set[Key]]:
        """Jobs by host: only where no id ties a log, since wide jobs have thousands of hosts."""
        index: dict[str, set[Key]] = defaultdict(set)
        for key, records in self.by_job.items():
            for name in {name for r in records for name in r.nodes}:
                index[name].add(key)
        return index

    def tie(self, group: LogGroup, groups_in_root: int) -> tuple[list[JobRecord], str]:
        """The attempts of the one job that a group belongs to, and by what; ([], "") where none can be told."""
        path = {group.path_job} - {""}
        task = {f"{group.path_job}_{group.task}"} if path and group.task >= 0 else path
        for ids, words in ((task, "path"), (group.ids, "text"), (path, "path")):
            found = self._among(self._ids, ids)
            best = self._by_time(group, found) if len(found) > 1 else found
            if len(best) == 1:
                return self.by_job[best[0]], f"job id in its {words}"
        names = _tokens(group)
        pods = self._among(self._pods, names)
        if len(pods) == 1:
            return self.by_job[pods[0]], "pod name in its path"
        jobs = self._among(self._ids, names | {_REPLICA.sub("", t) for t in names})
        if len(jobs) == 1:
            return self.by_job[jobs[0]], "job name in its path"
        if group.span is not None:
            at = [k for k in self._among(self._hosts, group.hosts) if self._ran(k, group)]
            if len(at) == 1:
                return self.by_job[at[0]], "hosts and time"
        return self._only(group, groups_in_root)

    @staticmethod
    def _among(index: dict[str, set[Key]], names: Iterable[str]) -> list[Key]:
        return sorted({key for name in names for key in index.get(name, ())})

    def _ran(self, key: Key, group: LogGroup) -> bool:
        """Whether the job had one of the group's hosts at the group's time."""
        span = group.span
        return span is not None and any(group.hosts & set(r.nodes) and _covers(r, span) for r in self.by_job[key])

    def _by_time(self, group: LogGroup, keys: Sequence[Key]) -> list[Key]:
        span = group.span
        return [k for k in keys if span is None or any(_covers(r, span) for r in self.by_job[k])]

    def _only(self, group: LogGroup, groups_in_root: int) -> tuple[list[JobRecord], str]:
        """The only job of the group's root, or the only one that its times allow if it is the root's only log."""
        here = sorted(self._roots.get(group.root, ()))
        known = {k[2] for k in here}
        foreign = (group.ids | ({group.path_job} - {""})) - known
        if len(here) == 1:
            rs = self.by_job[here[0]]
            nodes = {n for r in rs for n in r.nodes}
            apart = bool(group.hosts and nodes and not group.hosts & nodes and len(group.hosts) > 1)
            late = group.span is not None and not any(_covers(r, group.span) for r in rs)
            if (foreign and groups_in_root > 1) or (apart and late):
                return [], ""
            return rs, "it is the only job here"
        if groups_in_root == 1 and group.span is not None and not foreign:
            fit = self._by_time(group, here)
            if len(fit) == 1:
                return self.by_job[fit[0]], "it is the only job log here and its times fit"
        return [], ""


def _tokens(group: LogGroup) -> set[str]:
    """Names in a group's paths: folders, file names without endings, and their parts between underscores."""
    found: set[str] = set()
    for s in group.sources:
        for path in s.inner_paths:
            for part in re.split(r"[/!]", path):
                name = _ENDINGS.sub("", part)
                found.update((name, *name.split("_")))
    return {t for t in found if len(t) > 2 and not t.isdigit()}


def _covers(record: JobRecord, span: tuple[int, int]) -> bool:
    low = record.start_us if record.start_us is not None else span[0]
    high = record.end_us if record.end_us is not None else max(span[1], low)
    return span[0] <= high + SLACK_US and span[1] >= low - SLACK_US
