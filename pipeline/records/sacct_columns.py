"""Columns of a `sacct` table whose heading is missing (`-n`), told by what stands in them; only where that is certain.

The job id must stand first, then one state and at least one exit code or two times that are in order. Two times are
start and end, three are submit, start and end; a host list is one that holds brackets. What could be several things (a
name, an account, a partition) is no column at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.records import slurm_fields as sf

#: Rows that must agree.
LEAST_ROWS = 3
_EXIT = re.compile(r"\d{1,3}:\d{1,3}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
_HOSTS = re.compile(r"(?:[A-Za-z][\w-]*(?:\[[\d,-]+\][\w-]*)*,?)+")
_NO_TIME = ("", "Unknown", "None")


def told_by_content(rows: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """A name for each column, "" for those that are not known; None where it is not sure that these are sacct's rows.

    rows: cells of lines with one number of cells. The names are sacct's, in lower case.
    """
    if len(rows) < LEAST_ROWS or len({len(row) for row in rows}) != 1:
        return None
    columns = list(zip(*rows, strict=True))
    if not all(sf.job_id(cell) is not None for cell in columns[0]):
        return None
    names = [""] * len(columns)
    names[0] = "jobid"
    states = [i for i, column in enumerate(columns) if i and all(cell.strip() and _is_state(cell) for cell in column)]
    exits = [i for i, column in enumerate(columns) if i and all(_EXIT.fullmatch(cell) for cell in column)]
    times = [i for i, column in enumerate(columns) if i and _are_times(column)]
    if len(states) != 1 or len(exits) > 2:
        return None
    names[states[0]] = "state"
    if exits:
        names[exits[0]] = "exitcode"
    order = {2: ("start", "end"), 3: ("submit", "start", "end")}.get(len(times))
    ordered = order is not None and all(_in_order([row[i] for i in times]) for row in rows)
    if ordered and order is not None:
        for i, name in zip(times, order, strict=True):
            names[i] = name
    if not exits and not ordered:
        return None
    lists = [i for i, column in enumerate(columns) if not names[i] and _are_hosts(column)]
    if len(lists) == 1:
        names[lists[0]] = "nodelist"
    return tuple(names)


def _is_state(cell: str) -> bool:
    """A word as Slurm prints it, in capitals: a job may be called `failed`."""
    word = cell.strip().partition(" by ")[0]
    return word.isupper() and len(word) > 2 and sf.is_state(cell)


def _are_times(column: Sequence[str]) -> bool:
    return all(cell in _NO_TIME or _TIME.fullmatch(cell) for cell in column) and any(map(_TIME.fullmatch, column))


def _in_order(cells: Sequence[str]) -> bool:
    """Whether times of one form stand in rising order; what is not known yet stands last."""
    known = [cell for cell in cells if cell not in _NO_TIME]
    return known == sorted(known) and list(cells[: len(known)]) == known


def _are_hosts(column: Sequence[str]) -> bool:
    said = [cell for cell in column if cell not in ("", "None assigned")]
    return any("[" in cell for cell in said) and all(_HOSTS.fullmatch(cell) and sf.nodes(cell)[0] for cell in said)
