"""What launchers and collectors put before a line of job output, taken off piece by piece.

`strip(line)` removes colours, then any sequence of: stamps of collectors, rank and task tags, actor tags, host tags,
container tags. It returns the message, the best stamp that was printed, the global rank, the host, and what else the
wrapping said (`task`, `local_rank`, `pid`, `pod`, `gpu`). A local rank is never taken for a global one. Nothing here
raises, and every pattern is linear.

| tag | writer | read as |
|---|---|---|
| `[rank3]:` | torch (C++ and Python logging) | rank 3 |
| `[default7]:` | torchrun `--tee` | local rank 7 |
| `3: ` | srun `--label` | task 3, and rank 3 where nothing better is printed |
| `[1,17]<stderr>:` | mpirun `--tag-output` | rank 17 |
| `[15]<stdout>:`, `[15]host:...` | horovodrun | rank 15 |
| `(Name pid=1, ip=10.0.0.1)` | Ray | pid, host |
| `[node-1]:[rank11]:` | wrappers | host node-1, rank 11 |
| `node-1: text` | pdsh, DeepSpeed launcher | host node-1 |
| `[pod/a/b] `, `stdout F `, `a-1  | ` | kubectl, CRI, compose | pod or container |
| `[177/train/578 (pid 31001)]` | step/task tags | pid |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.stamps import find_stamp
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

ANSI = re.compile(
    r"\x1b\[[0-9;?]{0,40}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)?"
    r"|#033\[[0-9;]{0,20}m|\x1b[()][A-Z0-9]"
)
#: Ray's colours when the ESC byte itself was lost on the way (copied from a browser): only whole colour codes.
_BARE_ANSI = re.compile(r"(?:(?<=^)|(?<=[\s)\]]))\[(?:0|1|3[0-7]|9[0-7])m|(?<=\S)\[(?:0|3[0-7])m")

_RANK = re.compile(r"\[rank(\d{1,7})\]:?\s?")
_LOCAL = re.compile(r"\[(default|worker|trainer|[A-Za-z]{1,20}_?role)(\d{1,4})\]:\s?", re.IGNORECASE)
_MPI = re.compile(r"\[\d{1,6},(\d{1,7})\]<(?:stdout|stderr|stddiag)>:\s?")
_HOROVOD = re.compile(r"\[(\d{1,7})\](?:<(?:stdout|stderr)>:\s?|(?=[A-Za-z0-9][\w.-]{0,80}:\d+:\d+ \[))")
_LABEL = re.compile(r" {0,6}(\d{1,6}):(?: |$)")
_NODE_RANK = re.compile(r"\[([A-Za-z][\w.-]{0,80})\]:(?=\[rank\d)")
_ACTOR = re.compile(r"\(([\w.:-]{1,80}(?:\([^()]{0,80}\))?)(?:,? [\w-]{1,20}=[^\s,()]{1,80},?){1,5}\)\s?")
_ACTOR_PAIR = re.compile(r"([\w-]{1,20})=([^\s,()]{1,80})")
_POD = re.compile(r"\[pod/([^\s/\]]{1,120})(?:/([^\s\]]{1,120}))?\]\s")
_CRI = re.compile(r"(?:stdout|stderr) [FP] ")
_COMPOSE = re.compile(r"([a-z][a-z0-9_.-]{0,60}[-_]\d{1,4})\s{1,20}\| ")
_TASK = re.compile(r"\[[\w-]{1,40}/[\w-]{1,60}/\d{1,10} \(pid (\d{1,10})\)\]\s?")
_UUID = re.compile(r"\[[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\]\s?")
_PDSH = re.compile(
    r"((?:node|host|nid|cn|gn|nd|dgx|hgx|compute|instance|vm|n|r)-?\d[a-z0-9.-]{0,60}"
    r"|[a-z][a-z0-9]{0,30}[.-][a-z0-9.-]{0,60}\d[a-z0-9.-]{0,30}|\d{1,3}(?:\.\d{1,3}){3}): {1,2}(?=\S)"
)
_PDSH_NOT = re.compile(r"(?:gpu|cuda|rank|step|epoch|iter|error|device|layer|line|level|local|stage|block)[.-]?\d")
_GLOG_HEAD = re.compile(r"\[?[IWEFCD]\d{3,8} \d\d:\d\d:\d\d")

_SELF_RANK = re.compile(
    r"\[(?:PG[^\]]{0,60}? )?[Rr]ank[ :=]?\s?(\d{1,7})\]|[\s,\[(]rank=(\d{1,7})[\],)]|\bGLOBAL_RANK: ?(\d{1,7})"
    r"|\bRANK: ?(\d{1,7})\b|\[HCTR\]\[[^\]]{1,40}\]\[\w{1,10}\]\[RK(\d{1,7})\]"
)
_LOCAL_RANK = re.compile(r"\blocal[_ ]?rank[:= ]{1,3}(\d{1,4})\b", re.IGNORECASE)
_NCCL = re.compile(r"(?:^|[\s\]>])([\w.-]{0,60}[A-Za-z][\w.-]{0,60}):(\d{1,9}):(\d{1,9}) \[(\d{1,3})\] ")
_SRUN_TASK = re.compile(r"srun: error: ([A-Za-z][\w.-]{0,80}): tasks? ([\d,-]{1,200}):")
_HALF_DAY = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d):(\d\d):(\d\d) ([AP])M\b")
#: What every stamp of job output holds: looking for this first spares most lines the search for stamps.
_MAYBE_STAMP = re.compile(r"(?<![\d:])\d\d[:.]\d\d(?!\d)|\d{9}|\[ {0,9}\d{1,10}\.\d{6}\]")
_NEAR = 200
_QUALITY = {"utc": 5, "local": 4, "noyear": 3, "time": 2, "mono": 1, "none": 0}
_HALF_DAY_US = 12 * 3600 * 1_000_000


@dataclass(slots=True)
class Stripped:
    """A line without its wrapping; `rank_said` tells whether the rank was printed as such (not a task label)."""

    text: str
    stamp: Stamp = NO_STAMP
    rank: int | None = None
    host: str = ""
    rank_said: bool = False


def clean(line: str) -> str:
    """The line without colours, cursor movements and byte order mark."""
    if "\x1b" in line or "#033[" in line:
        line = ANSI.sub("", line)
    elif "m(" in line or "[0m" in line:
        line = _BARE_ANSI.sub("", line)
    return line.lstrip("\ufeff") if line[:1] == "\ufeff" else line


def better(a: Stamp, b: Stamp) -> Stamp:
    """The stamp that says more; the first of two of one kind."""
    return b if _QUALITY[b.kind] > _QUALITY[a.kind] else a


def _half_day(text: str, stamp: Stamp) -> Stamp:
    """`2024-05-01 01:38:32 PM` is read as a 24-hour time by the readers of dates; put the half of the day right."""
    m = _HALF_DAY.search(text[:160])
    if m is None or stamp.kind != "local":
        return stamp
    hour = int(m[2])
    if m[5] == "P" and hour < 12:
        return Stamp("local", stamp.us + _HALF_DAY_US)
    if m[5] == "A" and hour == 12:
        return Stamp("local", stamp.us - _HALF_DAY_US)
    return stamp


def _tag(out: Stripped, extra: dict[str, str]) -> bool:
    """Take one tag off the front; False where none stands there."""
    text = out.text
    first = text[:1]
    if first == "[":
        if m := _RANK.match(text):
            out.rank, out.rank_said = int(m[1]), True
        elif m := _LOCAL.match(text):
            extra["local_rank"] = m[2]
        elif m := _MPI.match(text) or _HOROVOD.match(text):
            out.rank, out.rank_said = int(m[1]), True
        elif m := _NODE_RANK.match(text):
            out.host = short_host(m[1])
        elif m := _POD.match(text):
            extra["pod"] = m[1]
        elif m := _TASK.match(text):
            extra["pid"] = m[1]
        else:
            m = _UUID.match(text)
    elif first == "(":
        m = _ACTOR.match(text)
        if m:
            pairs = dict(_ACTOR_PAIR.findall(m[0]))
            if "pid" not in pairs and "rank" not in pairs:
                return False
            extra["actor"] = m[1]
            if "pid" in pairs:
                extra["pid"] = pairs["pid"]
            if pairs.get("ip"):
                out.host = short_host(pairs["ip"])
            if pairs.get("rank", "").isdigit():
                out.rank, out.rank_said = int(pairs["rank"]), True
    elif first.isdigit() or first == " ":
        m = _LABEL.match(text) if "task" not in extra else None
        if m:
            extra["task"] = m[1]
        elif m := _PDSH.match(text):
            out.host = short_host(m[1])
    elif m := _CRI.match(text):
        pass
    elif m := _COMPOSE.match(text):
        extra["container"] = m[1]
    elif (m := _PDSH.match(text)) and not _PDSH_NOT.match(text):
        out.host = short_host(m[1])
    else:
        m = None
    if m is None:
        return False
    out.text = text[m.end() :]
    return True


def strip(line: str, *, labelled: bool | None = None) -> tuple[Stripped, dict[str, str]]:
    """The message of a line and what stood before it.

    labelled: False where the source is known not to carry srun labels (`3: ` is then text, as in darknet's
    `8800: 1.9, ...`); None decides by the shape of the rest.
    """
    out = Stripped(clean(line).rstrip("\r\n"))
    extra: dict[str, str] = {}
    for _ in range(8):
        if labelled is not False or not out.text[:1].isdigit():
            before = out.text
            if _tag(out, extra):
                if "task" in extra and out.text is not before and _darknet(out.text):
                    out.text = before
                    del extra["task"]
                    break
                continue
        found = find_stamp(out.text) if _MAYBE_STAMP.search(out.text, 0, _NEAR) else None
        if found is None:
            break
        stamp, end = found
        out.stamp = better(out.stamp, _half_day(out.text, stamp))
        if end == 0 or _GLOG_HEAD.match(out.text):
            break
        rest = out.text[end:]
        out.text = rest[2:].lstrip() if rest[:2] in ("- ", "| ") else rest
    text = out.text
    if out.rank is None or not out.rank_said:
        said = _SELF_RANK.search(text[:200]) if "ank" in text or "RANK" in text or "[RK" in text else None
        if said:
            out.rank, out.rank_said = int(next(g for g in said.groups() if g)), True
    if ("ocal" in text or "OCAL" in text) and (local := _LOCAL_RANK.search(text[:200])):
        extra.setdefault("local_rank", local[1])
    nccl = _NCCL.search(text[:220]) if "NCCL" in text else None
    if nccl:
        out.host = out.host or short_host(nccl[1])
        extra["pid"], extra["gpu"] = nccl[2], nccl[4]
    elif srun := _SRUN_TASK.match(text):
        out.host = short_host(srun[1])
        extra["task"] = srun[2]
    if out.rank is None and nccl is None and extra.get("task", "").isdigit() and not text.startswith("srun: "):
        out.rank = int(extra["task"])
    return out, extra


def _darknet(rest: str) -> bool:
    """Whether what follows `N: ` shows that N is the program's own counter, not a task label."""
    return bool(re.match(r"-?\d+\.\d+(?:, |$)|loss\b|\d+\.\d+ avg", rest))
