"""Job runs out of slurmctld's log: the folded signals of rules in, one `RunFragment` an attempt out. Pure.

The controller says when it gives nodes to a job, who asked to kill it and how it ended, in lines that rules find one by
one. Here the signals of one source and one job are put in order and cut into attempts: an allocation begins one, the
first end closes it, and what follows before the next allocation (the batch script's exit, `done`) belongs to it.

What is read is the line itself (`SignalFact.text`), not the rule's id, so that rules can be renamed or split. Rules
must have job and nodes in their `key`, else lines of two jobs would fold into one signal.
Source of the wordings: SchedMD/slurm src/slurmctld (job_mgr.c, proc_req.c, job_scheduler.c, node_mgr.c).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.records import slurm_fields as sf
from schemas.facts import NO_STAMP, RunFragment, SignalFact, Stamp
from schemas.identity import short_host

_JOB = r"JobId=(?P<job>\d+(?:_\d+|\+\d+)?)(?:\((?P<raw>\d+)\))?"
_LINES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("submit", rf"_slurm_rpc_submit_batch_job: {_JOB} InitPrio="),
        ("start", rf"(?:sched: Allocate|_slurm_rpc_allocate_resources:) {_JOB} NodeList=(?P<nodes>\S+)"),
        ("start", rf"Started {_JOB} in (?P<partition>\S+) on (?P<nodes>\S+)"),
        ("node_fail", rf"(?:[Rr]equeu(?:e job|ing) )(?:job )?{_JOB} due to failure of node (?P<node>\S+)"),
        ("node_fail", rf"Killing {_JOB} on (?:failed|DOWN) node (?P<node>\S+)"),
        ("node_fail", rf"Batch {_JOB} missing from batch node (?P<node>\S+)"),
        ("cancel", rf"REQUEST_KILL_JOB {_JOB} uid (?P<uid>\d+)"),
        ("time_limit", rf"Time limit exhausted for {_JOB}"),
        ("preempt", rf"[Pp]reempt(?:ed|ing)?(?: job)? {_JOB}"),
        ("requeue", rf"requeue {_JOB} (?:per user/system request|due to node failure)"),
        ("oom", rf"_?job_complete: {_JOB} OOM failure"),
        ("exit", rf"_?job_complete: {_JOB} WEXITSTATUS (?P<code>\d+)"),
        ("signal", rf"_?job_complete: {_JOB} WTERMSIG (?P<sig>\d+)"),
        ("done", rf"_?job_complete: {_JOB} done"),
    )
)
#: Reasons that decide the state over what the batch script's exit says: Slurm sets them first.
_STATE = {
    "node_fail": "NODE_FAIL",
    "cancel": "CANCELLED",
    "time_limit": "TIMEOUT",
    "preempt": "PREEMPTED",
    "oom": "OUT_OF_MEMORY",
    "requeue": "REQUEUED",
}


@dataclass(slots=True)
class _Attempt:
    """One attempt while its lines are read."""

    first: SignalFact
    job: str
    submit: Stamp = NO_STAMP
    start: Stamp = NO_STAMP
    end: Stamp = NO_STAMP
    state: str = ""
    code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)

    def fragment(self) -> RunFragment:
        nodes, failed = self.nodes, self.extra.get("failed_node", "")
        if not nodes and failed:
            # Without an allocation line the failed node is all that is known of where the job ran.
            nodes = (short_host(failed),)
            self.extra["nodes_cut"] = "1"
        return RunFragment(
            source_id=self.first.source_id,
            offset=self.first.first_offset,
            line=self.first.first_line,
            scheduler="slurm",
            cluster="",
            job_id=self.job,
            state=self.state or ("RUNNING" if self.start != NO_STAMP else "PENDING" if self.submit != NO_STAMP else ""),
            submit=self.submit,
            start=self.start,
            end=self.end,
            exit_code=self.code,
            exit_signal=self.signal,
            nodes=nodes,
            n_nodes=len(self.nodes) or None,
            extra=sf.tidy(self.extra),
        )


def _read(signal: SignalFact) -> tuple[str, dict[str, str]] | None:
    for kind, pattern in _LINES:
        if m := pattern.search(signal.text):
            got = {k: v for k, v in m.groupdict().items() if v}
            # A long node list is cut in the kept text, not in the rule's field.
            kept = dict(signal.fields).get("nodes", "")
            if "nodes" in got and len(kept) > len(got["nodes"]):
                got["nodes"] = kept
            return kind, got
    return None


def _apply(attempt: _Attempt, kind: str, got: dict[str, str], at: Stamp) -> None:
    if got.get("raw"):
        attempt.extra["job_id_raw"] = got["raw"]
    if kind == "node_fail":
        attempt.extra.setdefault("failed_node", got["node"])
    elif kind == "cancel":
        attempt.extra.setdefault("cancelled_by", got["uid"])
    if kind in _STATE:
        attempt.state = attempt.state or _STATE[kind]
    elif kind == "exit":
        attempt.code = int(got["code"])
        attempt.state = attempt.state or ("FAILED" if attempt.code else "COMPLETED")
    elif kind == "signal":
        attempt.signal = int(got["sig"])
        attempt.state = attempt.state or "FAILED"
    # The first line that ends the attempt is its end; `done` alone ends what nothing else did.
    if attempt.end == NO_STAMP and kind not in ("cancel", "time_limit", "preempt"):
        attempt.end = at
    elif attempt.end == NO_STAMP:
        attempt.extra.setdefault("stop_asked", f"{at.kind}:{at.us}")


def _attempts(lines: list[tuple[SignalFact, str, dict[str, str]]]) -> Iterable[_Attempt]:
    """The attempts of one job in one source, from its lines in order."""
    current: _Attempt | None = None
    for signal, kind, got in lines:
        at = signal.first
        if kind == "submit":
            if current is not None:
                yield current
            current = _Attempt(signal, got["job"], submit=at)
            continue
        if kind == "start":
            if current is not None and (current.start != NO_STAMP or current.end != NO_STAMP):
                yield current
                current = None
            if current is None:
                current = _Attempt(signal, got["job"])
            current.start = at
            current.nodes, whole = sf.nodes(got["nodes"])
            if not whole:
                current.extra["nodes_cut"] = "1"
            if got.get("raw"):
                current.extra["job_id_raw"] = got["raw"]
            if partition := got.get("partition") or _partition(signal.text):
                current.extra["partition"] = partition
            continue
        if current is None:
            current = _Attempt(signal, got["job"])
        _apply(current, kind, got, at)
    if current is not None:
        yield current


def _partition(text: str) -> str:
    m = re.search(r" Partition=(\S+)", text)
    return m[1] if m else ""


def _closed(attempt: _Attempt) -> _Attempt:
    """A kill that was asked for and never confirmed still ended the attempt, then."""
    asked = attempt.extra.pop("stop_asked", "")
    if asked and attempt.end == NO_STAMP:
        kind, us = asked.split(":")
        attempt.end = Stamp(kind, int(us))
    return attempt


def slurm_fragments(signals: Iterable[SignalFact]) -> list[RunFragment]:
    """Fragments of all jobs that these signals of controller logs speak of, sorted by their key.

    Signals of other kinds are passed over, so the caller may give all it has. Equal for any order of the input.
    """
    jobs: dict[tuple[str, str], list[tuple[SignalFact, str, dict[str, str]]]] = defaultdict(list)
    for signal in signals:
        if read := _read(signal):
            jobs[signal.source_id, read[1]["job"]].append((signal, *read))
    out = []
    for _, lines in sorted(jobs.items()):
        # A rotated log keeps its order by time; lines of one millisecond by where they stand.
        lines.sort(key=lambda x: (x[0].first.us, x[0].first_offset, x[1], x[0].signal_id))
        out += [_closed(a).fragment() for a in _attempts(lines)]
    return sorted(out, key=lambda f: f.key)
