"""`scontrol show job`, `show node` and `show reservation`, in blocks of lines or one line a record (`-o`).

Records are `Key=value` pairs whose values hold blanks (OS, Reason, Comment, SubmitLine), so a value ends where the
next known key begins. Jobs become fragments (the end of a job that still runs is a forecast and not taken); nodes
become sentences for the rules (`pipeline.records.slurm_nodes`) and boot times: `boot_local:<host>` in the zone of the
host that
printed, or `boot:<host>` (UTC) where an offset is printed. A record that is cut in its first line is quarantined.
Source: SchedMD/slurm src/api/node_info.c, job_info.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector, RawLine, raw_lines
from pipeline.records import slurm_fields as sf
from pipeline.records.slurm_nodes import node_word, split_reason
from pipeline.scanning.mask import secrets
from schemas.facts import NO_STAMP, Facts, RunFragment
from schemas.identity import short_host

_BEGIN = re.compile(r"(JobId|NodeName|ReservationName|PartitionName|StepId)=")
_JOB_KEYS = """
    ArrayJobId ArrayTaskId ArrayTaskThrottle HetJobId HetJobOffset HetJobIdSet JobName UserId GroupId MCS_label Priority
    Nice Account QOS WCKey JobState Reason FailedNode Dependency Requeue Restarts BatchFlag Reboot ExitCode
    DerivedExitCode RunTime TimeLimit TimeMin SubmitTime EligibleTime AccrueTime StartTime EndTime Deadline
    SuspendTime SecsPreSuspend LastSchedEval Scheduler Partition AllocNode:Sid ReqNodeList ExcNodeList NodeList
    BatchHost SchedNodeList NumNodes NumCPUs NumTasks CPUs/Task ReqB:S:C:T TRES ReqTRES AllocTRES Socks/Node
    NtasksPerN:B:S:C CoreSpec MinCPUsNode MinMemoryNode MinMemoryCPU MinTmpDiskNode Features DelayBoot OverSubscribe
    Contiguous Licenses Network Command WorkDir StdErr StdIn StdOut Power TresPerJob TresPerNode TresPerTask TresBind
    MailUser MailType Comment AdminComment SystemComment SubmitLine PreemptTime PreemptEligibleTime Reservation
    KillOInInvalidDependent Extra Container Switches Gres NtasksPerTRES JOB_GRES Nodes CPU_IDs Mem Cluster
    StepMgrEnabled ResizeTime SegmentSize LicensesAlloc
""".split()  # noqa: SIM905
_NODE_KEYS = """
    Arch CoresPerSocket CPUAlloc CPUEfctv CPUTot CPULoad CPUErr AvailableFeatures ActiveFeatures Gres GresDrain GresUsed
    NodeAddr NodeHostName Port Version OS RealMemory AllocMem FreeMem Sockets Boards CoreSpecCount CPUSpecList
    MemSpecLimit State ThreadsPerCore TmpDisk Weight Owner MCS_label NextState Partitions BootTime SlurmdStartTime
    LastBusyTime ResumeAfterTime CfgTRES AllocTRES CapWatts CurrentWatts LowestJoules ConsumedJoules AveWatts
    ExtSensorsJoules ExtSensorsWatts ExtSensorsTemp ExtraSensors Reason Comment Extra InstanceId InstanceType
    ReservationName PowerSaveState BcastAddr GpuSpec Parameters Topology DynamicNode CertFlags RestrictedCoresPerGPU
""".split()  # noqa: SIM905
_RESERVATION_KEYS = """
    StartTime EndTime Duration Nodes NodeCnt CoreCnt Features PartitionName Flags TRES Users Groups Accounts Licenses
    State BurstBuffer MaxStartDelay Comment Watts AllowedPartitions QOS
""".split()  # noqa: SIM905


def _splitter(keys: list[str]) -> re.Pattern[str]:
    names = "|".join(re.escape(k) for k in sorted(keys, key=len, reverse=True))
    return re.compile(rf"(?:^|\s)({names})=")


_SPLIT = {
    "JobId": _splitter(_JOB_KEYS),
    "NodeName": _splitter(_NODE_KEYS),
    "ReservationName": _splitter(_RESERVATION_KEYS),
}


@dataclass(frozen=True, slots=True)
class Record:
    """One record: what kind, its pairs, where it stands (bytes)."""

    kind: str
    name: str
    pairs: dict[str, str]
    offset: int
    length: int
    line: int

    def get(self, key: str) -> str:
        return sf.clean(self.pairs.get(key, ""))


def _blocks(lines: Iterator[RawLine]) -> Iterator[list[RawLine]]:
    block: list[RawLine] = []
    for line in lines:
        if _BEGIN.match(line.text):
            if block:
                yield block
            block = [line]
        elif block and line.text.strip():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def records(data: bytes) -> Iterator[Record]:
    """All records of the member, in order. Text that belongs to none (a shell prompt, a heading) is passed over."""
    for block in _blocks(raw_lines(data)):
        first = block[0]
        begin = _BEGIN.match(first.text)
        if begin is None:
            continue
        kind = begin[1]
        text = "\n".join(line.text for line in block)
        split = _SPLIT.get(kind)
        pairs: dict[str, str] = {}
        name = text[begin.end() :].split(None, 1)[0] if text[begin.end() :].split() else ""
        if split is not None:
            found = list(split.finditer(text, begin.end()))
            for i, m in enumerate(found):
                after = found[i + 1].start() if i + 1 < len(found) else len(text)
                pairs.setdefault(m[1], text[m.end() : after].strip())
        yield Record(kind, name, pairs, first.offset, sum(line.length for line in block), first.number)


def _job(record: Record, source_id: str) -> RunFragment | None:
    state, extra = sf.state(record.get("JobState"))
    found = sf.job_id(record.name)
    if found is None or not record.pairs:
        return None
    job, raw = found[0], ""
    if record.get("ArrayJobId") and sf.number(record.get("ArrayTaskId")) is not None:
        job, raw = f"{record.get('ArrayJobId')}_{record.get('ArrayTaskId')}", found[0]
    elif record.get("HetJobId") and record.get("HetJobOffset"):
        job, raw = f"{record.get('HetJobId')}+{record.get('HetJobOffset')}", found[0]
    ended = state not in sf.OPEN_STATES
    code, signal = sf.exit_pair(record.get("ExitCode"))
    names, whole = sf.nodes(record.pairs.get("NodeList", ""))
    user = re.match(r"([^(\s]*)(?:\((\d+)\))?", record.get("UserId"))
    allocated = record.get("AllocTRES") or record.get("TRES")
    limit = sf.seconds(record.get("TimeLimit"))
    extra |= {
        "job_id_raw": raw, "partition": record.get("Partition"), "qos": record.get("QOS"),
        "uid": (user[2] or "") if user else "", "failed_node": record.get("FailedNode"),
        "restarts": record.get("Restarts") if record.get("Restarts") != "0" else "",
        "batch_host": short_host(record.get("BatchHost")), "alloc_tres": allocated,
        "req_tres": record.get("ReqTRES"), "reservation": record.get("Reservation"),
        "comment": secrets(record.get("Comment")), "admin_comment": secrets(record.get("AdminComment")),
        "system_comment": secrets(record.get("SystemComment")), "submit_line": secrets(record.get("SubmitLine")),
        "work_dir": record.get("WorkDir"), "stdout": record.get("StdOut"), "stderr": record.get("StdErr"),
        "timelimit_s": "" if limit is None else str(limit), "nodes_cut": "" if whole else "1",
    }  # fmt: skip
    n_nodes = re.match(r"\d+", record.get("NumNodes"))
    return RunFragment(
        source_id=source_id,
        offset=record.offset,
        line=record.line,
        scheduler="slurm",
        cluster=record.get("Cluster"),
        job_id=job,
        state=state,
        submit=sf.stamp(record.get("SubmitTime")),
        start=NO_STAMP if state == "PENDING" else sf.stamp(record.get("StartTime")),
        end=sf.stamp(record.get("EndTime")) if ended else NO_STAMP,
        exit_code=code if ended else None,
        exit_signal=signal if ended else None,
        nodes=names,
        n_nodes=int(n_nodes[0]) if n_nodes and state != "PENDING" else None,
        n_gpus=sf.tres_gpus(allocated) if allocated else sf.tres_gpus(record.get("ReqTRES")),
        user=user[1] if user else "",
        account=record.get("Account"),
        name=secrets(record.get("JobName")),
        reason=record.get("Reason"),
        extra=sf.tidy(extra),
    )


class Scontrol:
    """What the controller knows now of jobs, nodes and reservations."""

    name = "scontrol"
    family = "scheduler"

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002
        text = head.decode("utf-8", "replace")
        found = re.search(r"(?m)^(JobId|NodeName|ReservationName)=\S+", text)
        if found is None:
            return 0.0
        rest = text[found.end() : found.end() + 4000]
        keys = set(re.findall(r"(?:^|\s)([A-Z][A-Za-z:/_]+)=", rest))
        known = {"JobId": _JOB_KEYS, "NodeName": _NODE_KEYS, "ReservationName": _RESERVATION_KEYS}[found[1]]
        return 0.95 if len(keys & set(known)) >= 4 else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:
        out = Collector(info, self.name, self.family, data)
        for record in records(data):
            if record.kind == "JobId":
                fragment = _job(record, info.source_id)
                if fragment is None:
                    out.quarantine(record.offset, record.length, f"not a job record: {record.name[:40]!r}")
                else:
                    out.fragment(fragment)
            elif record.kind == "NodeName":
                self._node(record, out, match)
            elif record.kind == "ReservationName":
                self._reservation(record, out, match)
        return out.result()

    def _node(self, record: Record, out: Collector, match: LineMatcher) -> None:
        reason, who, when = split_reason(record.pairs.get("Reason", ""))
        at = sf.stamp(when)
        said = node_word(record.name, record.get("State"), reason, who, at)
        if said is None or not record.pairs:
            out.quarantine(record.offset, record.length, "not a node record")
            return
        booted = sf.stamp(record.get("BootTime"))
        out.stamps += [booted, sf.stamp(record.get("SlurmdStartTime"))]
        if booted != NO_STAMP:
            name = "boot" if booted.kind == "utc" else "boot_local"
            out.facts.add(f"{name}:{said.node}={booted.us}")
        hostname = short_host(record.get("NodeHostName"))
        if hostname and hostname != said.node:
            out.facts.add(f"alias:{hostname}={said.node}")
        for sentence in said.sentences:
            out.matched(match(sentence, offset=record.offset, line=record.line, stamp=at, host=said.node), at)

    def _reservation(self, record: Record, out: Collector, match: LineMatcher) -> None:
        """An announced window: said once, at its start, with its nodes."""
        at = sf.stamp(record.get("StartTime"))
        nodes = record.get("Nodes")
        sentence = (
            f"slurm reservation name={record.name} nodes={nodes or '-'} flags={record.get('Flags') or '-'} "
            f"end={record.get('EndTime') or '-'}: {' '.join(record.get('Comment').split())}"
        ).rstrip()
        out.matched(match(sentence, offset=record.offset, line=record.line, stamp=at), at)


FORMATS = (Scontrol(),)
