"""Job output of any training framework: stdout and stderr of one rank, one node or a whole job.

Lines have no common frame, so every line has one: `frame` takes off what launchers and collectors put in front
(`pipeline.records.rank_prefix`), separates a message that is glued to a progress bar, unwraps box drawings, and
borrows the
nearest earlier stamp where the line has none (marked `borrowed`). Text of glog style (`[E303 ...file.cpp:629] ...`) and
NCCL's `host:pid:tid [gpu]` stay part of the message, because rules know them by it.

The claim on a text is weak (0.35 for printable text, up to 0.7 with the words of training frameworks), so that a
format that knows its records better always wins. Records (JSON, XML) and binary files are never claimed.

`mark` yields: `job_id`, `world_size`, `nranks`, `rank_host`, `rank_on:<rank>`, `nodelist`, `n_nodes`, `n_gpus`,
`nproc_per_node`, `master_addr`, `rdzv_id`, `nccl_rank:<size>:<host>:<device>`, `nccl_gpu:<host>:<device>`,
`nccl_version`, `driver_version`, `cuda_version`, `torch_version`.
"""

from __future__ import annotations

import re

from pipeline.formats import mlperf
from pipeline.formats.base import Frame, LookBack
from pipeline.records.rank_prefix import clean, strip
from pipeline.stamps import find_stamp, printed_offset
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

#: How many earlier lines are searched for a stamp that a line without one can borrow.
BORROW_LINES = 40
_BAR = re.compile(r"\d{1,3}%\|[^|\r\n]{0,300}\| *[\d.]{1,20}[kMGT]?/[\d.?]{1,20}[kMGT]? \[[^\]\r\n]{1,200}\]")
_BOX_LINE = re.compile(r"^[\s╭╰├─╮╯┤━┏┓┗┛┃│]{3,}$")
_BOX_TITLE = re.compile(r"^[╭┏][─━]{2,}\s*(.*?)\s*[─━]{2,}[╮┓]$")
_RIGHT_COLUMN = re.compile(r"\s{3,}[\w.-]{1,60}\.py:\d{1,6}$")
_DATEISH = re.compile(r"\d\d:\d\d:\d\d|\b1[5-9]\d{8}\b|time_ms")

_STRONG = (
    re.compile(rb"NCCL (?:INFO|WARN|version)|ProcessGroupNCCL|torch[./]distributed|torchrun|torch\.distributed"),
    re.compile(rb"Traceback \(most recent call last\)"),
    re.compile(rb"(?m)^(?:srun|slurmstepd|submitit): |slurmstepd: error|Submitted batch job"),
    re.compile(rb"(?i)\biteration +\d+ */ *\d+ *\||\bepoch:? ?\[?\d+\]?|\bstep[ :=]{1,3}\d+|\d+%\|"),
    re.compile(rb"(?i)\b(?:loss|checkpoint|learning[ _]rate|grad[ _]norm|samples per second)\b"),
    re.compile(rb":::MLLOG|:::DLPAL|:::SYSJSON"),
    re.compile(rb"\[rank\d+\]|\[default\d+\]:|\[[\d,]+\]<std(?:out|err)>|local_rank"),
    re.compile(rb"RuntimeError|CUDA|cuda|DeepSpeed|deepspeed|megatron|tensorflow|\bray\b|(?i:horovod)|MPI_"),
)
_RECORD = re.compile(rb"\s*(?:[{\[]\s*[\"{\[\]}]|<\?xml|<[a-zA-Z_]\w*[ >])")
_TABLE = re.compile(rb"[^\n]{0,400}\|[^\n]{0,400}\|[^\n]{0,400}\n")

_JOB_ID = re.compile(
    r"\bSLURM_JOB_?ID\b['\"]?\s{0,3}[=:]\s{0,3}['\"]?(\d{1,12})|\b(?:JobId|StepId|job_id|JobID)=(\d{1,12})\b"
    r"|slurmstepd[\w-]{0,60}: error: \*\*\* (?:JOB|STEP) (\d{1,12})|srun: Force Terminated (?:StepId|job)[= ](\d{1,12})"
    r"|\bPBS_JOBID\b\s{0,3}[=:]\s{0,3}(\d{1,12})|\bLSB_JOBID\b\s{0,3}[=:]\s{0,3}(\d{1,12})"
)
_DLPAL = re.compile(r"(?:^|[^'\"]):::DLPAL (\S{1,400}) (\d{1,12}) (\d{1,6}) ([\w.,\[\]-]{1,4000})")
_WORLD = re.compile(r"\b(?:world[_ ]size|WORLD_SIZE)['\"]?\s{0,3}(?:[=:]|of|is)?\s{0,3}(\d{1,7})\b", re.IGNORECASE)
_MEMBER = re.compile(r"GLOBAL_RANK: ?\d{1,7}, MEMBER: ?\d{1,7}/(\d{1,7})")
_NCCL_INIT = re.compile(
    r"(?:^|[\s\]>])([A-Za-z0-9][\w.-]{0,120}):\d{1,9}:\d{1,9} \[\d{1,3}\] NCCL INFO "
    r"\S{0,40} ?comm \S{1,40} rank (\d{1,7}) n?[Rr]anks (\d{1,7})"
)
#: The line in which a rank says that its communicator stands; the ring that its rank 0 prints; a peer that it reaches.
_NCCL_HEAD = r"(?:^|[\s\]>])([A-Za-z0-9][\w.-]{0,120}):\d{1,9}:\d{1,9} \[(\d{1,3})\] NCCL INFO "
_NCCL_RANK = re.compile(
    _NCCL_HEAD + r"\S{0,40} ?comm \S{1,40} rank (\d{1,7}) n?[Rr]anks (\d{1,7}) cudaDev \d{1,4}"
    r"(?: nvmlDev (\d{1,4}))?(?: busId ([0-9a-f]{1,12}))?"
)
_NCCL_RING = re.compile(_NCCL_HEAD + r"Channel 00/\d{1,3} :((?: {1,8}\d{1,7}){1,4096})$")
_NCCL_SEND = re.compile(
    _NCCL_HEAD + r"Channel 00(?:/\d{1,3})? : (\d{1,7})\[[0-9a-f]{1,8}\] -> \d{1,7}\[[0-9a-f]{1,8}\] (?:\[send\] )?via "
)
#: Ranks of a communicator up to which each is noted.
_NOTED = 2_048
_PROC = re.compile(r"\bSLURM_PROCID\b['\"]?\s{0,3}[=:]\s{0,3}['\"]?(\d{1,7})\b")
_ON_NODE = re.compile(r"\b(?:SLURMD_NODENAME|HOSTNAME)\b['\"]?\s{0,3}[=:]\s{0,3}['\"]?([A-Za-z][\w.-]{0,200})")
_NODELIST = re.compile(r"\bSLURM_(?:JOB_)?NODELIST\b['\"]?\s{0,3}[=:]\s{0,3}['\"]?([\w.,\[\]-]{1,4000})")
_NODES = re.compile(
    r"\b(?:SLURM_(?:JOB_)?NUM_NODES|SLURM_NNODES|min_nodes|max_nodes|nnodes)['\"]?\s{0,8}[=:]\s{0,3}['\"]?(\d{1,6})\b"
)
_NPROC = re.compile(r"\bnproc_per_node\s{0,8}[=:]\s{0,3}(\d{1,4})\b")
_MASTER = re.compile(r"\b(?:master_addr|MASTER_ADDR)['\"]?\s{0,3}[=:]\s{0,3}['\"]?([A-Za-z0-9][\w.-]{0,200})")
_RDZV = re.compile(r"\brun_id\s{1,20}: (\S{1,120})")
_DEVICES = re.compile(r"\bon (\d{1,7}) (?:devices|GPUs|gpus)\b|\b(\d{1,7}) devices \(GPUs")
_NCCL_VERSION = re.compile(r"NCCL version (\d[\w.+-]{1,40})")
_DRIVER = re.compile(
    r"Driver Version\s{0,3}[:=] {0,6}(\d{3}\.\d{1,4}(?:\.\d{1,4})?)"
    r"|NVRM version: [^\d]{0,60}(\d{3}\.\d{1,4}(?:\.\d{1,4})?)"
)
_CUDA = re.compile(r"CUDA Version\s{0,3}[:=] {0,6}(\d{1,3}\.\d{1,3})")
_TORCH = re.compile(r"(?:PyTorch|torch)(?: version|\.__version__)\s{0,3}[:=]?\s{0,3}(\d\.\d[\w.+]{0,30})")


def _is_record(head: bytes) -> bool:
    """Whether the head is a document or lines of records; one record among lines of text is not enough."""
    if not _RECORD.match(head[:512]):
        return False
    lines = [line.strip() for line in head[:16384].splitlines()[1:40] if line.strip()]
    return sum(line[:1] in (b"{", b"[", b"}", b"]", b'"', b"<") for line in lines) * 2 >= len(lines)


def _is_tabbed(head: bytes) -> bool:
    """Whether the head is a table of tab-separated values: no line has more or fewer than its heading."""
    lines = [line for line in head[:16384].split(b"\n")[:20] if line.strip()]
    tabs = {line.count(b"\t") for line in lines[: -1 if len(lines) == 20 else None]}
    return len(lines) >= 4 and len(tabs) == 1 and tabs.pop() >= 2


def _unbox(text: str) -> str:
    """A line of a drawn box as its text: frames off, the title of a top border kept."""
    if not text or text[0] not in "│┃╭╰├┏┗":
        return text
    if title := _BOX_TITLE.match(text):
        return title[1]
    if _BOX_LINE.match(text):
        return ""
    return text.strip("│┃ ").strip() if text[0] in "│┃" else text


def _unglue(text: str) -> str:
    """What was printed behind the last progress bar of a line, where that is a message; else the line."""
    if "%|" not in text:
        return text
    end = -1
    for m in _BAR.finditer(text):
        end = m.end()
    tail = text[end:].strip() if end > 0 else ""
    return tail if len(tail) > 3 else text


def _own_stamp(line: str) -> Stamp:
    """The stamp of a line on its own (its collectors' or its own), `NO_STAMP` where it has none."""
    if ":::MLLOG" in line and (found := mlperf.stamp(line)).kind != "none":
        return found
    if not _DATEISH.search(line[:260]):
        return NO_STAMP
    return strip(line)[0].stamp


def borrowed(back: LookBack) -> Stamp:
    """The nearest earlier stamp of the source, marked as borrowed; `NO_STAMP` where none is near."""
    for count, line in enumerate(back.lines()):
        if count >= BORROW_LINES:
            break
        found = _own_stamp(line)
        if found.kind not in ("none", "mono"):
            return found._replace(borrowed=True)
    return NO_STAMP


def _device(text: str) -> dict[str, str]:
    """`nccl_rank:<size>:<host>:<device>` = rank, as NCCL's own lines tell it; size 0: the line does not say.

    `nccl_gpu:<host>:<device>` = index on the host `@` PCI address. device: as the process counts it.
    """
    gpu: dict[str, str] = {}
    if m := _NCCL_RANK.search(text):
        size, rank = int(m[4]), m[3]
        if m[6]:
            address = int(m[6], 16)  # domain, bus, device and function, four bits and up
            bdf = f"{address >> 20 & 0xFFFF:04x}:{address >> 12 & 0xFF:02x}:{address >> 4 & 0xFF:02x}"
            gpu = {f"nccl_gpu:{short_host(m[1])}:{m[2]}": f"{m[5] or ''}@{bdf}"}
    elif m := _NCCL_RING.search(text):
        size, rank = len(m[3].split()), "0"  # rank 0 alone prints the rings
    elif m := _NCCL_SEND.search(text):
        size, rank = 0, m[3]
    else:
        return {}
    return {**gpu, f"nccl_rank:{size}:{short_host(m[1])}:{m[2]}": rank} if size <= _NOTED else {}


class JobLog:
    """Output of a training job (see the module's docstring)."""

    name = "joblog"
    family = "job"
    progress = True
    marks: tuple[bytes, ...] = (
        b"SLURM_JOB_ID", b"SLURM_JOBID", b"StepId=", b"JobId=", b"slurmstepd: error: *** ", b"PBS_JOBID", b"LSB_JOBID",
        b":::DLPAL ", b"WORLD_SIZE", b"world size", b"world_size", b"GLOBAL_RANK: 0,", b"Init COMPLETE",
        b"SLURM_JOB_NODELIST", b"SLURM_NODELIST", b"SLURM_NNODES", b"min_nodes  ", b"nproc_per_node   ", b"run_id    ",
        b"master_addr", b"MASTER_ADDR", b"training on ", b"NCCL version", b"Driver Version", b"CUDA Version",
        b"PyTorch version", b"srun: Force Terminated", b"NCCL INFO Channel 00", b"SLURM_PROCID",
    )  # fmt: skip

    def sniff(self, head: bytes, inner_path: str) -> float:  # noqa: ARG002 - the name decides nothing here
        if not head.strip() or b"\0" in head[:4096] or _is_record(head):
            return 0.0
        sample = head[:16384]
        printable = sum(1 for b in sample if b >= 32 or b in (9, 10, 13, 27, 8))
        if printable < 0.97 * len(sample):
            return 0.0
        found = sum(1 for pattern in _STRONG if pattern.search(head))
        if found == 0:
            if _is_tabbed(head):
                return 0.3
            return 0.32 if _TABLE.match(head) else 0.35
        return min(0.7, 0.4 + 0.1 * found)

    def frame(self, line: str, back: LookBack) -> Frame:
        out, extra = strip(line)
        stamp = mlperf.stamp(out.text) if ":::MLLOG" in out.text else NO_STAMP
        if stamp.kind == "none":
            stamp = out.stamp
        text = _unbox(_unglue(out.text).rstrip())
        text = _RIGHT_COLUMN.sub("", text) if ".py:" in text else text
        if stamp.kind == "none" and "%|" in out.text and (inner := find_stamp(text)) is not None:
            stamp = inner[0]  # the message behind a progress bar has a stamp of its own
        if stamp.kind == "none":
            stamp = borrowed(back)
        if stamp.kind == "utc" and not stamp.borrowed and (offset := printed_offset(line)):
            extra["utc_offset"] = offset
        return Frame(text, stamp, out.host, out.rank, None, extra)

    def mark(self, line: str, frame: Frame) -> dict[str, str]:
        text = clean(line)
        found: dict[str, str] = {}
        if m := _JOB_ID.search(text):
            found["job_id"] = next(g for g in m.groups() if g)
        if m := _DLPAL.search(text):
            found["job_id"], found["n_nodes"], found["nodelist"] = m[2], m[3], m[4]
        if m := _MEMBER.search(text) or _WORLD.search(text):
            found["world_size"] = m[1]
        if "COMPLETE" in text and (m := _NCCL_INIT.search(text)):
            found["nranks"] = m[3]
            if m[2] in (str(frame.rank), frame.extra.get("task")):
                # The launcher's rank is also the communicator's: that is the world, not a group of it.
                found["rank_host"] = f"{m[2]}={short_host(m[1])}"
        if "SLURM_PROCID" in text and (proc := _PROC.search(text)) and (node := _ON_NODE.search(text)):
            found["rank_host"] = f"{proc[1]}={short_host(node[1])}"
            if int(proc[1]) < _NOTED:
                found[f"rank_on:{proc[1]}"] = short_host(node[1])
        if "NCCL INFO" in text:
            found.update(_device(text))
        for name, pattern in (
            ("nodelist", _NODELIST), ("n_nodes", _NODES), ("nproc_per_node", _NPROC), ("rdzv_id", _RDZV),
            ("n_gpus", _DEVICES), ("nccl_version", _NCCL_VERSION), ("driver_version", _DRIVER),
            ("cuda_version", _CUDA), ("torch_version", _TORCH),
        ):  # fmt: skip
            if m := pattern.search(text):
                found.setdefault(name, next(g for g in m.groups() if g))
        if m := _MASTER.search(text):
            found["master_addr"] = short_host(m[1])
        return found


FORMATS = (JobLog(),)
