"""Single values as Slurm prints them: states, exit codes, times, node lists, TRES, job ids. Text in, plain data out.

Nothing here raises: what cannot be read comes back empty, and the caller decides whether that makes a row torn.
Sources: SchedMD/slurm doc/man/man1/sacct.1 (job state codes, fields), src/common/slurm_protocol_defs.c.
"""

from __future__ import annotations

import re
from functools import lru_cache

import hostlist

from pipeline.stamps import parse_field
from schemas.facts import NO_STAMP, Stamp
from schemas.identity import short_host

#: Base states by the two-letter code that squeue and `sacct -o state%2` print.
STATES = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING",
    "DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED",
    "R": "RUNNING", "RD": "RESV_DEL_HOLD", "RF": "REQUEUE_FED", "RH": "REQUEUE_HOLD", "RQ": "REQUEUED",
    "RS": "RESIZING", "RV": "REVOKED", "SI": "SIGNALING", "SE": "SPECIAL_EXIT", "SO": "STAGE_OUT", "ST": "STOPPED",
    "S": "SUSPENDED", "TO": "TIMEOUT", "EX": "EXPEDITING", "LF": "LAUNCH_FAILED", "UF": "UPDATE_DB",
    "PO": "POWER_UP_NODE", "RC": "RECONFIG_FAIL",
}  # fmt: skip
STATE_WORDS = frozenset(STATES.values())
#: States in which the job still holds nodes or waits: the end that scontrol and squeue print is a forecast.
OPEN_STATES = frozenset(
    {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING",
     "REQUEUE_HOLD", "RESV_DEL_HOLD"}
)  # fmt: skip
#: Words for "nothing here" in any column.
EMPTY = frozenset({"", "none", "unknown", "n/a", "(null)", "none assigned", "none assig", "null", "unlimited"})
#: No host list of a real job is longer; a longer one is an attack or a damaged row.
MAX_NODES = 200_000

_JOB_ID = re.compile(
    r"(?P<job>\d+)(?:_(?P<task>\d+|\[[\d,\-:%.]+\])|\+(?P<het>\d+))?"
    r"(?:\.(?P<step>batch|extern|interactive|TBD|\d+(?:\+\d+)?))?"
)
_EXIT = re.compile(r"(-?\d+)(?::(\d+))?")
_STATE = re.compile(r"(?P<word>[A-Z_]+)(?P<cut>\+)?(?: by (?P<uid>\S+))?")
_GPU = re.compile(r"(?:^|,)gres/gpu(?P<type>:[^=,]+)?=(?P<n>\d+)")
_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?")
_RANGE = re.compile(r"(\d+)-(\d+)")


def clean(value: str) -> str:
    """The value without blanks around it, "" for every word that means "not set"."""
    value = value.strip()
    return "" if value.lower() in EMPTY else value


@lru_cache(maxsize=16384)
def stamp(value: str) -> Stamp:
    """A time column: `local` where no offset is printed, `utc` with one, `NO_STAMP` for words and nonsense."""
    return parse_field(value) if clean(value) else NO_STAMP


@lru_cache(maxsize=16384)
def is_time(value: str) -> bool:
    """Whether the text can stand in a time column at all."""
    return not clean(value) or parse_field(value) != NO_STAMP


@lru_cache(maxsize=16384)
def seconds(value: str) -> int | None:
    """`1-00:15:56`, `09:48:37`, `00:23.779` as whole seconds; None for anything else."""
    m = _ELAPSED.fullmatch(value.strip())
    if m is None:
        return None
    days, hours, minutes, secs = (int(g or 0) for g in m.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + secs


@lru_cache(maxsize=16384)
def job_id(value: str) -> tuple[str, str] | None:
    """(`4242_7`, `batch`) of `4242_7.batch`; the job part keeps array task and component. None if it is no id."""
    m = _JOB_ID.fullmatch(value.strip())
    if m is None:
        return None
    return value.strip()[: m.end("het") if m["het"] else m.end("task") if m["task"] else m.end("job")], m["step"] or ""


def state(value: str) -> tuple[str, dict[str, str]]:
    """(base state, further facts): the word in full and upper case, `cancelled_by`, other flags.

    `CANCELLED by 41077`, `CA`, `OUT_OF_ME+` (cut by a column) and `FAILED,REQUEUED` are understood; an unknown word is
    kept as it is, so that a newer Slurm loses nothing.
    """
    word, extra = _state(value)
    return word, dict(extra)


@lru_cache(maxsize=4096)
def _state(value: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    words = [w for w in re.split(r"[,|&]", value.strip()) if w]
    if not words:
        return "", ()
    extra: dict[str, str] = {}
    if len(words) > 1:
        extra["state_flags"] = ",".join(words[1:])
    m = _STATE.match(words[0].strip().upper().replace(" BY ", " by "))
    if m is None:
        return words[0].strip().upper(), tuple(extra.items())
    if m["uid"]:
        extra["cancelled_by"] = m["uid"].rstrip("+").lower()
    word = STATES.get(m["word"], m["word"])
    if m["cut"]:
        whole = [s for s in STATE_WORDS if s.startswith(m["word"])]
        word = whole[0] if len(whole) == 1 else word
    return word, tuple(extra.items())


@lru_cache(maxsize=16384)
def is_state(value: str) -> bool:
    """Whether the text is a job state of Slurm (cut ones included)."""
    return not value.strip() or state(value)[0] in STATE_WORDS


@lru_cache(maxsize=16384)
def exit_pair(value: str) -> tuple[int | None, int | None]:
    """(code, signal) of `1:0`, `0:9`, `137`; the signal is None where it is zero or not printed."""
    m = _EXIT.fullmatch(value.strip())
    if m is None:
        return None, None
    return int(m[1]), int(m[2]) or None if m[2] else None


def _too_many(text: str) -> bool:
    total = 1
    for group in re.findall(r"\[([^\]]*)\]", text):
        here = sum(max(0, int(b) - int(a)) + 1 for a, b in _RANGE.findall(group) if len(a) < 10 and len(b) < 10)
        total *= max(1, here)
        if any(len(a) >= 10 or len(b) >= 10 for a, b in _RANGE.findall(group)):
            return True
    return total > MAX_NODES


@lru_cache(maxsize=4096)
def nodes(value: str) -> tuple[tuple[str, ...], bool]:
    """(host names in printed order, whether the list is whole) of a host list such as `node[001-003,7],gpu-a`.

    Padding of the left end holds for a range; suffixes behind brackets and several groups are expanded. A list cut by
    its column (`node[001-0+`) gives the names before the cut; one that cannot be read gives none. Both are not whole.
    """
    text = clean(value)
    if not text:
        return (), True
    whole = True
    if text.endswith("+") or text.count("[") > text.count("]"):
        whole = False
        depth = last = 0
        for i, c in enumerate(text):
            depth += (c == "[") - (c == "]")
            if c == "," and depth == 0:
                last = i
        text = text[:last]
        if not text:
            return (), False
    if _too_many(text) or re.search(r"[\s|=]", text):
        return (), False
    try:
        names = hostlist.expand_hostlist(text, allow_duplicates=True, sort=False)
    except hostlist.BadHostlist:
        return (), False
    return tuple(dict.fromkeys(short_host(n) for n in names if n)), whole


@lru_cache(maxsize=16384)
def tres_gpus(value: str) -> int | None:
    """GPUs in a TRES list (`cpu=96,gres/gpu=8,gres/gpu:h100=8`): the untyped count, else the sum of the types.

    None where the list names none: a cluster that does not account GPUs prints the same as a job without any.
    """
    typed, plain = 0, None
    for m in _GPU.finditer(value):
        if m["type"]:
            typed += int(m["n"])
        else:
            plain = int(m["n"])
    return plain if plain is not None else typed or None


def gres_gpus(value: str, n_nodes: int | None) -> int | None:
    """GPUs of an old ReqGRES column: `PER_NODE:gpu:8` times the nodes; None where that is not told."""
    m = re.fullmatch(r"PER_NODE:gpu(?::[A-Za-z][^:,]*)?:(\d+)", value.strip())
    return int(m[1]) * n_nodes if m and n_nodes else None


def number(value: str) -> int | None:
    """A whole number, None for anything else."""
    value = value.strip()
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None


def tidy(extra: dict[str, str]) -> tuple[str, ...]:
    """`name=value`, sorted, without the empty ones, line breaks as blanks, at most 500 characters a value."""
    return tuple(sorted(f"{k}={' '.join(v.split())[:500]}" for k, v in extra.items() if v.strip()))
