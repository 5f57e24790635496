"""Dumps of PyTorch's NCCL flight recorder, one a rank: pickle and JSON, versions 2.x.

Names in use: `<host>_rank_<n>`, `nccl_trace_rank_<n>`, `_dump_<n>`, each with or without `.json`, `.pkl`. What a dump
says of its rank becomes facts of the source; what is wrong with a set of dumps is found late, over all of them
(`pipeline.joining.recorder`), so that a set may be loaded in parts.

Facts (`|` parts the fields, sizes as `4096x1x5120`, several with `+`):

    fr.rank=12   fr.host=gpu-17   fr.version=2.9   fr.entries=27   fr.p2p_pending=4
    fr.group=<group>|<description>|<member ranks as 0-3,8>
    fr.desc=<group>|<description as its collectives print it>
    fr.last=<group>|<last collective entered>|<first one not completed, or ->|<last completed, or ->
    fr.op=<group>|<sequence>|<operation>|<sizes in>|<sizes out>|<dtypes>|<state>|<time entered, microseconds>
    fr.took=<group>|<sequence>:<milliseconds>,...

Collectives are numbered per group by `collective_seq_id`; sends and receives have numbers of their own, which differ
between healthy ranks, so they are only counted. A pickle may hold containers and scalars only: the reader knows no
instruction that names a class or calls anything, and stops at one. Source of the keys:
torch/csrc/distributed/c10d/FlightRecorder.hpp; of what is compared: torch/distributed/flight_recorder.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline.formats.base import LineMatcher, SourceInfo
from pipeline.formats.records import Collector
from schemas.facts import Facts, Stamp

#: Collectives of one group that are kept in full: those not completed (the first ones) and the last ones.
KEPT = 48
#: Durations of one group that are kept.
_TIMED = 16
_RANK_NAME = re.compile(
    r"(?:^|/)(?P<host>[A-Za-z0-9][\w.-]*?)??_?(?:rank[_-]?|_dump_|dump[_-])(?P<rank>\d{1,7})(?:\.(?:json|pkl|pickle|pt|bin))?$"
)
_PLAIN_NAME = re.compile(r"(?:^|/)(?:nccl_trace|fr_trace|trace|flight_?recorder)\w*$")
_KEYS = (b"pg_config", b"entries", b"pg_status", b"nccl_version", b"process_group", b"collective_seq_id")
_NOT_A_HOST = frozenset(
    {"nccl_trace", "nccl", "trace", "fr_trace", "fr", "comm_lib_trace", "flight_recorder", "global"}
)


class RefusedError(pickle.UnpicklingError):
    """A pickle that holds more than containers and scalars."""


#: Instructions of pickles that build None, bool, int, float, str, bytes, list, tuple, dict and set.
_PLAIN: Final = frozenset(
    b"\x80\x95.(0120FIJKLMN\x8a\x8bGSTUVX\x8c\x8dBC\x8e\x88\x89])}aedlstu\x85\x86\x87\x8f\x90\x91\x94pqrghj"
)


class PlainUnpickler(pickle._Unpickler):
    """Loads plain data, nothing else.

    The reader that is written in Python is used, because its table of instructions can be cut down to what is allowed.
    """

    dispatch = dict(filter(lambda item: item[0] in _PLAIN, pickle._Unpickler.dispatch.items()))  # noqa: RUF012

    def load(self) -> Any:  # noqa: ANN401
        try:
            return super().load()
        except KeyError as err:
            code = err.args[0] if err.args else None
            if isinstance(code, int) and code not in self.dispatch:
                raise RefusedError(f"instruction {code:#04x} is not one of plain data") from None
            raise pickle.UnpicklingError(f"torn pickle: {err!r}") from None

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        raise RefusedError(f"names {module}.{name}")

    def persistent_load(self, pid: object) -> Any:  # noqa: ANN401
        raise RefusedError(f"persistent id {pid!r}")


def rank_of(path: str) -> tuple[int, str] | None:
    """(rank, host or "") as the name of a dump gives them; None where the name gives no rank."""
    name = path.replace("!", "/").rsplit("/", 1)[-1]
    m = _RANK_NAME.search(name)
    if m is None:
        return None
    host = (m["host"] or "").strip("_-")
    return int(m["rank"]), "" if host.lower() in _NOT_A_HOST else host


def _read(data: bytes) -> Any:  # noqa: ANN401
    if data[:1] == b"\x80":
        return PlainUnpickler(io.BytesIO(data), encoding="utf-8", errors="replace").load()
    return json.loads(data.decode("utf-8", "replace"))


def _number(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) else None


def _word(value: object) -> str:
    return re.sub(r"[|\s=]+", "_", str(value))[:200] if isinstance(value, (str, int, float)) else ""


def members(value: object) -> list[int]:
    """Ranks of a group, printed as a list or as its text."""
    if isinstance(value, str):
        return [int(n) for n in re.findall(r"\d{1,7}", value)]
    return [n for n in value if isinstance(n, int)] if isinstance(value, (list, tuple)) else []


def folded(ranks: list[int]) -> str:
    """`0-3,8`: ranks in order, runs of them as one."""
    out: list[str] = []
    ordered = sorted(set(ranks))
    i = 0
    while i < len(ordered):
        j = i
        while j + 1 < len(ordered) and ordered[j + 1] == ordered[j] + 1:
            j += 1
        out.append(str(ordered[i]) if i == j else f"{ordered[i]}-{ordered[j]}")
        i = j + 1
    return ",".join(out)


def _sizes(value: object) -> str:
    if not isinstance(value, (list, tuple)):
        return ""
    shapes = [v for v in value[:8] if isinstance(v, (list, tuple))]
    return "+".join("x".join(str(n) for n in shape[:8] if isinstance(n, int)) or "scalar" for shape in shapes)


def _dtypes(value: object) -> str:
    return "+".join(_word(v) for v in value[:8]) if isinstance(value, (list, tuple)) else _word(value)


class _Entry:
    """One collective of a dump."""

    __slots__ = ("desc", "done", "fields", "group", "ms", "op", "p2p", "seq", "us")

    def __init__(self, e: Mapping[str, Any]) -> None:
        group = e.get("process_group")
        named = group if isinstance(group, (list, tuple)) and group else (e.get("pg_name", e.get("pg_id", "")),)
        self.group = _word(named[0])
        self.desc = _word(named[1]) if len(named) > 1 else ""
        self.seq = _number(e.get("collective_seq_id", e.get("seq_id")))
        self.op = re.sub(r"^(?:nccl|gloo|ucc|xccl|mpi):", "", _word(e.get("profiling_name")))
        self.p2p = bool(e.get("is_p2p")) or self.op.startswith(("send", "recv"))
        state = _word(e.get("state"))
        # gloo leaves the state at `scheduled` and writes 0 for a time that it does not know
        self.done = state == "completed" or bool(e.get("time_discovered_completed_ns")) or e.get("retired") is True
        ns = _number(e.get("time_created_ns"))
        self.us = ns // 1000 if ns and ns > 10**17 else 0
        took = e.get("duration_ms")
        self.ms = float(took) if isinstance(took, (int, float)) and not isinstance(took, bool) else None
        self.fields = (
            _sizes(e.get("input_sizes")), _sizes(e.get("output_sizes")), _dtypes(e.get("input_dtypes")),
            "completed" if self.done else state,
        )  # fmt: skip


def _groups(doc: Mapping[str, Any]) -> Iterator[str]:
    config = doc.get("pg_config")
    for name, group in sorted(config.items()) if isinstance(config, dict) else ():
        if isinstance(group, dict) and _word(group.get("name", name)):  # gloo's have no name
            ranks = folded(members(group.get("ranks")))
            yield f"fr.group={_word(group.get('name', name))}|{_word(group.get('desc', ''))}|{ranks}"


def _entries(entries: list[_Entry]) -> Iterator[str]:
    by_group: dict[str, list[_Entry]] = defaultdict(list)
    for e in entries:
        if not e.p2p and e.seq is not None:
            by_group[e.group].append(e)
    for group, own in sorted(by_group.items()):
        own.sort(key=lambda e: e.seq or 0)
        waiting = [e for e in own if not e.done]
        done = [e for e in own if e.done]
        last = "|".join(str(e[i].seq) if e else "-" for e, i in ((own, -1), (waiting, 0), (done, -1)))
        yield f"fr.last={group}|{last}"
        if own[-1].desc:
            yield f"fr.desc={group}|{own[-1].desc}"
        for e in {id(e): e for e in (*waiting[: KEPT // 2], *own[-KEPT // 2 :])}.values():
            yield f"fr.op={group}|{e.seq}|{e.op}|{'|'.join(e.fields)}|{e.us}"
        timed = [f"{e.seq}:{e.ms:g}" for e in done if e.ms is not None and e.ms > 0][-_TIMED:]
        if timed:
            yield f"fr.took={group}|{','.join(timed)}"


class FlightRecorder:
    """One rank's dump."""

    name = "nccl.flight_recorder"
    family = "job"
    written_once = True

    def sniff(self, head: bytes, inner_path: str) -> float:
        is_pickle = len(head) > 2 and head[0] == 0x80 and head[1] in (2, 3, 4, 5)
        if not is_pickle and head.lstrip()[:1] != b"{":
            return 0.0
        found = sum(key in head for key in _KEYS)
        if found >= 3 and (b"entries" in head or b"pg_config" in head):
            return 0.97
        named = rank_of(inner_path) is not None or _PLAIN_NAME.search(inner_path) is not None
        if is_pickle and (named or found):
            return 0.9 if named else 0.5  # an unknown pickle is looked at, and refused with a reason
        return 0.8 if found >= 2 and named else 0.0

    def parse(self, data: bytes, info: SourceInfo, match: LineMatcher) -> Facts:  # noqa: ARG002
        out = Collector(info, self.name, self.family, data)
        named = rank_of(info.inner_path)
        try:
            doc = _read(data)
        except RefusedError as err:
            out.quarantine(0, len(data), f"flight recorder dump refused: {err}")
            doc = None
        except (pickle.UnpicklingError, struct.error, EOFError, ValueError, IndexError, TypeError, OverflowError,
                AttributeError, AssertionError, KeyError, MemoryError, RecursionError) as err:  # fmt: skip
            out.quarantine(0, len(data), f"flight recorder dump torn: {type(err).__name__}: {err}"[:200])
            doc = None
        if doc is not None and not isinstance(doc, dict):
            out.quarantine(0, len(data), f"flight recorder dump holds a {type(doc).__name__}, not a mapping")
            doc = None
        rank = named[0] if named else _number(doc.get("rank")) if doc else None
        host = (named[1] if named else "") or (_word(doc.get("host_name", doc.get("hostname", ""))) if doc else "")
        out.facts.update(f"{k}={v}" for k, v in (("fr.rank", rank), ("fr.host", host)) if v not in (None, ""))
        if doc is None:
            out.facts.add("fr.unreadable=1")
            return out.result()
        raw = doc.get("entries")
        entries = [_Entry(e) for e in raw if isinstance(e, dict)] if isinstance(raw, (list, tuple)) else []
        pending = sum(e.p2p and not e.done for e in entries)
        out.facts.update(_groups(doc))
        out.facts.update(_entries(entries))
        out.facts.update((f"fr.entries={len(entries)}", f"fr.version={_word(doc.get('version'))}"))
        if pending:
            out.facts.add(f"fr.p2p_pending={pending}")
        if version := _word(doc.get("nccl_version")):
            out.facts.add(f"nccl_version={version}")
        out.stamps += [Stamp("utc", e.us) for e in entries if e.us]
        return out.result()


FORMATS = (FlightRecorder(),)
