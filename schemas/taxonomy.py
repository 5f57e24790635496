"""Component classes: the closed list of answers that a decision may give (`taxonomy.tsv`).

Source of the rows and of the Table 5 names: arXiv 2407.21783, Table 5.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from schemas.errors import SchemaError

#: Words that stand in a component column of the knowledge and say how to decide instead of naming a component.
DECIDING_WORDS = frozenset(
    {
        "by_xid",
        "by_exitcode",
        "by_cuda_error",
        "by_event",
        "by_group",
        "by_log",
        "by_nested",
        "symptom_only",
        "informational",
        "host_unknown",
        "host_boot",
        "clock",
        "storage",
        "sdc_or_software",
    }
)

UNKNOWN = "unknown"
NCCL_TIMEOUT = "unknown.nccl_timeout"
#: Answer of a diagnosis for inputs in which nothing was interrupted. Not a component: only evaluations use it.
NONE = "none"


@dataclass(frozen=True, slots=True)
class Component:
    """One row of the taxonomy."""

    id: str
    meaning: str
    table5_row: str | None
    domain: str
    who_acts: str


@cache
def components() -> dict[str, Component]:
    """All component classes by id, in the order of the table."""
    text = files("schemas").joinpath("taxonomy.tsv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return {
        row["id"]: Component(row["id"], row["meaning"], row["table5_row"] or None, row["domain"], row["who_acts"])
        for row in rows
    }


def component(component_id: str) -> Component:
    """The component with this id; `SchemaError` names the nearest valid ids otherwise."""
    try:
        return components()[component_id]
    except KeyError:
        import difflib

        near = difflib.get_close_matches(component_id, components(), n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        msg = f"unknown component {component_id!r}: not a row of the taxonomy{hint}"
        raise SchemaError(msg) from None


def is_named(component_id: str) -> bool:
    """Whether the id names a cause (not `unknown*`, not `none`)."""
    return component_id != NONE and not component_id.startswith(UNKNOWN)


def llama3_row(component_id: str) -> str | None:
    """The row of Table 5 that the component rolls up to, or None."""
    return component(component_id).table5_row


def counts_as(component_id: str, kind: str = "job_interruption") -> str | None:
    """How an incident enters the counts: `planned`, `scheduler`, `unexpected`, or None for a host fault."""
    if kind == "host_fault":
        return None
    if component_id == "maintenance.planned":
        return "planned"
    if component_id.startswith("scheduler."):
        return "scheduler"
    return "unexpected"
