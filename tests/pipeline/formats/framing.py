"""Frames every line of a file with one format and gives what came out, short enough to keep beside the sample."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pipeline.formats import Frame, LineFormat, RecordFormat, SourceInfo, registry
from schemas.facts import NO_STAMP, Facts, SignalFact, Stamp, bucket


class Before:
    """Earlier lines of a list, nearest first: the look back of a scanner."""

    def __init__(self, lines: list[str], at: int) -> None:
        self._lines = lines[:at]

    def lines(self) -> Iterator[str]:
        return reversed(self._lines)


def lines_of(data: bytes) -> list[str]:
    return [line.removesuffix("\r") for line in data.decode("utf-8", "replace").split("\n")]


def frames(fmt: LineFormat, data: bytes) -> list[tuple[int, str, Frame]]:
    """(number, line, frame) of every line that is not blank."""
    lines = lines_of(data)
    return [(n + 1, line, fmt.frame(line, Before(lines, n))) for n, line in enumerate(lines) if line.strip()]


def as_json(fmt: LineFormat, line: str, number: int, frame: Frame) -> dict[str, Any]:
    out: dict[str, Any] = {"line": number, "text": frame.text}
    if frame.stamp != NO_STAMP:
        out["stamp"] = [frame.stamp.kind, frame.stamp.us]
    if frame.clock is not None:
        out["clock"] = list(frame.clock)
    out.update({k: v for k, v in (("host", frame.host), ("extra", frame.extra)) if v})
    if not frame.ok:
        out["ok"] = False
    if any(mark in line.encode() for mark in fmt.marks) and (facts := fmt.mark(line, frame)):
        out["facts"] = facts
    return out


def match_xid(
    text: str, *, offset: int, line: int | None, stamp: Stamp, host: str = "", rank: int | None = None
) -> Facts:
    """A matcher of one rule, enough to see what a record format hands over."""
    if "Xid" not in text:
        return Facts()
    number = (re.findall(r"\): (\d+)", text) or ["?"])[0]
    return Facts(
        signals=(
            SignalFact(f"{offset}", "s", f"xid.{number}", "", host, text, bucket(stamp, offset), stamp, offset, line,
                       stamp, offset, text, (), counts=((0, 1),)),
        )
    )  # fmt: skip


def facts_as_json(fmt: RecordFormat, data: bytes) -> dict[str, Any]:
    facts = fmt.parse(data, SourceInfo("s", "a.in", "r", len(data), None), match_xid)
    (source,) = facts.sources
    signals = [
        {"rule": s.rule, "stamp": [s.first.kind, s.first.us], "offset": s.first_offset, "line": s.first_line,
         "host": s.host, "text": s.text}
        for s in sorted(facts.signals, key=lambda s: s.first_offset)
    ]  # fmt: skip
    return {
        "signals": signals,
        "spans": [list(span) for span in source.spans],
        "clocks": [list(clock) for clock in source.clocks],
        "names": [list(name) for name in source.names],
        "facts": list(source.facts),
        "quarantine": [[q.offset, q.length, q.reason.split(":")[0]] for q in facts.quarantine],
    }


def read_sample(name: str, data: bytes) -> list[dict[str, Any]] | dict[str, Any]:
    fmt = registry()[name]
    if isinstance(fmt, RecordFormat):
        return facts_as_json(fmt, data)
    return [as_json(fmt, line, number, frame) for number, line, frame in frames(fmt, data)]
