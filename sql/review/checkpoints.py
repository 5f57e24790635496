"""Checkpoints of an attempt from the lines of its logs: when, at which step, for how long. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from sql.review.rows import Row, document, seconds


@dataclass(frozen=True, slots=True)
class Mark:
    """One line about a checkpoint."""

    kind: str  # begin | saved | seconds | load
    at: float | None  # seconds since 1970 UTC
    own_stamp: bool
    offset: int
    step: int | None
    took: float | None  # seconds


@dataclass(slots=True)
class Save:
    """One checkpoint. at: when it began, else when it was there."""

    at: float | None
    offset: int
    end_offset: int
    step: int | None
    took: float | None
    done: bool


def marks_by_source(rows: Iterable[Row]) -> dict[tuple[str, str], list[Mark]]:
    """Marks of each (cluster, source), by offset."""
    out: dict[tuple[str, str], list[Mark]] = defaultdict(list)
    for row in rows:
        fields = dict(document(row["fields"]) or [])
        step = next((int(v) for k, v in fields.items() if k.startswith("step")), None)
        took = next((float(v) for k, v in fields.items() if k.startswith("seconds")), None)
        if "max_ms" in fields:
            took = float(fields["max_ms"]) / 1000
        out[(row["cluster"], row["source_id"])].append(
            Mark(
                row["mark"].removeprefix("mark_ckpt_"),
                seconds(row["at"]),
                not row["borrowed"],
                row["byte_offset"],
                step,
                took,
            )
        )
    for marks in out.values():
        marks.sort(key=lambda m: m.offset)
    return out


def saves(marks: Iterable[Mark]) -> list[Save]:
    """Checkpoints in order. How long one took: as printed, else from begin to end where both lines have a stamp."""
    out: list[Save] = []
    begun: Mark | None = None
    for mark in marks:
        if mark.kind == "begin":
            if begun is not None:
                out.append(Save(begun.at, begun.offset, begun.offset, begun.step, None, done=False))
            begun = mark
        elif mark.kind == "saved":
            took, at, offset, step = mark.took, mark.at, mark.offset, mark.step
            if begun is not None:
                if took is None and begun.own_stamp and mark.own_stamp and begun.at is not None and mark.at is not None:
                    took = max(mark.at - begun.at, 0.0)
                at, offset, step = begun.at, begun.offset, begun.step if begun.step is not None else mark.step
            out.append(Save(at, offset, mark.offset, step, took, done=True))
            begun = None
        elif mark.kind == "seconds" and out and begun is None and mark.took is not None:
            out[-1].took, out[-1].end_offset = mark.took, mark.offset
    if begun is not None:
        out.append(Save(begun.at, begun.offset, begun.offset, begun.step, None, done=False))
    return out
