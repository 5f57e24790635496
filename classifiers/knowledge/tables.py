"""Typed access to the code tables: Xid, SXid, NVLink5, RDMA status, exit codes, Slurm and Kubernetes words.

The tables are tab separated, one header line, no quoting. Sources stand in their last column. Unknown codes give
None; a broken table raises `TableError`.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from classifiers.errors import TableError
from classifiers.knowledge.files import TABLES


def read_table(name: str, columns: tuple[str, ...], folder: Path = TABLES) -> list[dict[str, str]]:
    """Rows of one table as dicts; `TableError` where a column is missing."""
    path = folder / name
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as err:
        raise TableError(f"table {name} cannot be read: {err}; reinstall faultbeam") from err
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
    for column in columns:
        if rows and column not in rows[0]:
            raise TableError(f"table {name} has no column {column!r}; it has {', '.join(rows[0])}")
    return [{key: value or "" for key, value in row.items() if key} for row in rows]


@dataclass(frozen=True, slots=True)
class XidRow:
    """One NVIDIA Xid. fatal: y | maybe | n for the application; action: an action kind of `schemas.diagnosis`."""

    code: int
    mnemonic: str
    meaning: str
    component: str
    alt: str | None
    role: str
    fatal: str
    severity: str
    first_action: str
    bucket: str
    verified: bool
    notes: str
    source: str


@cache
def xids() -> dict[int, XidRow]:
    """All Xids of the catalogue by number."""
    need = ("xid", "component_class", "alt_class", "role", "app_fatal", "severity", "first_action")
    return {
        int(r["xid"]): XidRow(
            int(r["xid"]),
            r["mnemonic"],
            r["meaning"],
            r["component_class"],
            r["alt_class"] or None,
            r["role"],
            r["app_fatal"],
            r["severity"],
            r["first_action"],
            r["nvidia_immediate_bucket"],
            r["verified"].startswith("verified"),
            r["notes"],
            r["source"],
        )
        for r in read_table("xid.tsv", need)
    }


@dataclass(frozen=True, slots=True)
class SxidRow:
    """One NVSwitch SXid. category: always-fatal | fatal | non-fatal | other | driver-code-only."""

    code: int
    enum: str
    name: str
    category: str
    meaning: str
    component: str
    role: str
    fatal: str
    severity: str
    first_action: str
    source: str


@cache
def sxids() -> dict[int, SxidRow]:
    """All SXids by number."""
    need = (
        "sxid",
        "driver_enum",
        "name",
        "category",
        "component_class",
        "role",
        "app_fatal",
        "severity",
        "first_action",
    )
    return {
        int(r["sxid"]): SxidRow(
            int(r["sxid"]),
            r["driver_enum"],
            r["name"],
            r["category"],
            r["meaning"],
            r["component_class"],
            r["role"],
            r["app_fatal"],
            r["severity"],
            r["first_action"],
            r["source"],
        )
        for r in read_table("sxid.tsv", need)
    }


@dataclass(frozen=True, slots=True)
class Nvlink5Row:
    """Action for one unit, severity and set of error statuses of Xid 144-150."""

    xid: int
    units: frozenset[str]
    severity: str  # `fatal`, `nonfatal`, `linkfatal`
    bucket: str
    statuses: frozenset[int]
    hw_sw: str
    crash_expected: bool
    investigate: str


def _severity_word(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


@cache
def nvlink5() -> tuple[Nvlink5Row, ...]:
    """All rows of the NVLink5 decode table."""
    need = ("xid", "unit", "severity", "nvidia_resolution", "error_status_values", "hw_sw", "local_app_crash_expected")
    return tuple(
        Nvlink5Row(
            int(r["xid"]),
            frozenset(r["unit"].split("/")),
            _severity_word(r["severity"]),
            r["nvidia_resolution"],
            frozenset(int(v, 16) for v in r["error_status_values"].split(",") if v),
            r["hw_sw"],
            r["local_app_crash_expected"] == "yes",
            r["investigatory"],
        )
        for r in read_table("nvlink5.tsv", need)
    )


@dataclass(frozen=True, slots=True)
class LinkReason:
    """Why an NVLink5 link went down (bits 25:20 of the first word of Xid 149)."""

    code: int
    blame: str  # secondary | local_link | software_or_operator | software_or_link | peer | link_or_cable
    component: str
    meaning: str
    bucket: str
    investigate: str


@cache
def link_reasons() -> dict[int, LinkReason]:
    """Reasons of Xid 149 by code."""
    need = ("reason_code_hex", "blame", "component_class", "meaning", "immediate", "investigatory")
    return {
        int(r["reason_code_hex"], 16): LinkReason(
            int(r["reason_code_hex"], 16),
            r["blame"],
            r["component_class"],
            r["meaning"],
            r["immediate"],
            r["investigatory"],
        )
        for r in read_table("xid149_reasons.tsv", need)
        if r["reason_code_hex"].startswith("0x")
    }


@dataclass(frozen=True, slots=True)
class LinkBits:
    """What some bits of one word of Xid 74 say. word counts from 1."""

    word: int
    bits: frozenset[int]
    kind: str
    component: str
    meaning: str


@cache
def link_bits() -> tuple[LinkBits, ...]:
    """All rows of the Xid 74 bit table."""
    need = ("hex_word_index_1based", "bits", "kind", "component_class", "meaning")
    return tuple(
        LinkBits(
            int(r["hex_word_index_1based"]),
            frozenset(int(b) for b in r["bits"].split(",")),
            r["kind"],
            r["component_class"],
            r["meaning"],
        )
        for r in read_table("xid74_bits.tsv", need)
        if r["hex_word_index_1based"].isdigit()
    )


@cache
def xid_units() -> dict[str, str]:
    """Component by unit word of Xid 94/95, the words in lower case."""
    rows = read_table("xid_units.tsv", ("unit_text", "component_class"))
    return {r["unit_text"].lower(): r["component_class"] for r in rows}


@dataclass(frozen=True, slots=True)
class WcRow:
    """One RDMA work completion status."""

    status: int
    name: str
    meaning: str
    component: str
    alt: str | None


@cache
def ib_statuses() -> dict[int, WcRow]:
    """RDMA completion statuses by number."""
    need = ("status", "name", "meaning", "component_class", "alt_class")
    return {
        int(r["status"]): WcRow(int(r["status"]), r["name"], r["meaning"], r["component_class"], r["alt_class"] or None)
        for r in read_table("ib_wc.tsv", need)
    }


@dataclass(frozen=True, slots=True)
class ExitRow:
    """One process exit code. code: as a shell sees it (0..255); signal: 0 where none."""

    code: int
    signal: int
    meaning: str
    role: str
    component: str
    notes: str
    verified: bool


@cache
def exit_codes() -> dict[int, ExitRow]:
    """Exit codes of processes by shell code; `sacct ret:sig` rows are left to `slurm_exit`."""
    out = {}
    for r in read_table("exit_codes.tsv", ("code", "meaning", "role", "component_class", "notes", "verified")):
        if r["code"].startswith("sacct"):
            continue
        signed, _, plain = r["code"].partition(" / ")
        code = int(plain or signed)
        signal = -int(signed) if plain else 0
        out[code] = ExitRow(
            code,
            signal,
            r["meaning"],
            r["role"],
            r["component_class"],
            r["notes"],
            r["verified"].startswith("verified"),
        )
    return out


@cache
def slurm_exits() -> dict[str, ExitRow]:
    """Meaning of sacct's ExitCode pairs that stand for something of their own, by `return:signal`."""
    out = {}
    for r in read_table("exit_codes.tsv", ("code", "meaning", "role", "component_class", "notes", "verified")):
        match = re.fullmatch(r"sacct (\d+):(\d+)", r["code"])
        if match:
            pair = f"{match[1]}:{match[2]}"
            out[pair] = ExitRow(
                int(match[1]),
                int(match[2]),
                r["meaning"],
                r["role"],
                r["component_class"],
                r["notes"],
                r["verified"].startswith("verified"),
            )
    return out


@dataclass(frozen=True, slots=True)
class SchedulerRow:
    """One word of Slurm or Kubernetes. planned: planned | unplanned | either | na."""

    system: str
    kind: str
    name: str
    abbrev: str
    meaning: str
    planned: str
    terminal: bool
    component: str
    role: str
    pattern: str
    notes: str
    verified: bool


@cache
def scheduler_rows() -> tuple[SchedulerRow, ...]:
    """All rows of scheduler.tsv."""
    need = ("system", "kind", "name", "abbrev", "meaning", "planned", "terminal", "component_class", "role", "pattern")
    return tuple(
        SchedulerRow(
            r["system"],
            r["kind"],
            r["name"],
            r["abbrev"],
            r["meaning"],
            r["planned"],
            r["terminal"] == "y",
            r["component_class"],
            r["role"],
            r["pattern"],
            r["notes"],
            r["verified"].startswith("verified"),
        )
        for r in read_table("scheduler.tsv", need)
    )


@cache
def _scheduler_index(system: str, kind: str) -> dict[str, SchedulerRow]:
    out: dict[str, SchedulerRow] = {}
    for row in scheduler_rows():
        if row.system == system and row.kind == kind:
            for name in row.name.split(" / "):
                out.setdefault(re.sub(r" \(.*\)$", "", name.strip()).removeprefix("flag ").lower(), row)
            if row.abbrev:
                out.setdefault(row.abbrev.lower(), row)
    return out


def slurm_state(word: str) -> SchedulerRow | None:
    """A job state (`NODE_FAIL`, `NF`, `CANCELLED by 1002`, cut `OUT_OF_ME+`)."""
    states = _scheduler_index("slurm", "job_state")
    base = word.strip().split(" ")[0].lower()
    if base.endswith("+"):
        cut = base[:-1]
        return next((row for name, row in states.items() if len(cut) >= 4 and name.startswith(cut)), None)
    return states.get(base)


def slurm_reason(word: str) -> SchedulerRow | None:
    """A job reason (`NodeDown`, `TimeLimit`)."""
    return _scheduler_index("slurm", "job_reason").get(word.strip().lower())


def node_state(word: str) -> SchedulerRow | None:
    """A node state or flag without its suffix (`DOWN`, `drain`, `NOT_RESPONDING`)."""
    plain = word.strip().rstrip("*~#!%$@^-+").lower()
    if plain == "not_responding":
        plain = "no_respond"
    return _scheduler_index("slurm", "node_state").get(plain) or _scheduler_index("slurm", "node_flag").get(plain)


@cache
def _drain_patterns() -> tuple[tuple[re.Pattern[str], SchedulerRow], ...]:
    rows = [row for row in scheduler_rows() if row.system == "slurm" and row.kind == "drain_reason" and row.pattern]
    return tuple((re.compile(row.pattern), row) for row in rows)


def drain_reason(text: str) -> tuple[SchedulerRow, dict[str, str]] | None:
    """What a node's Reason text says, with the named groups of the pattern that matched."""
    for pattern, row in _drain_patterns():
        match = pattern.search(text)
        if match:
            return row, {k: v for k, v in match.groupdict().items() if v}
    return None


def k8s_word(kind: str, word: str) -> SchedulerRow | None:
    """A Kubernetes word. kind: event_reason | node_condition | container_reason | pod_reason."""
    index = _scheduler_index("k8s", kind)
    plain = word.strip().lower()
    return index.get(plain) or index.get(plain.split(" ")[0]) or index.get(f"disruptiontarget reason {plain}")
