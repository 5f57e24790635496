"""A tiny log language for tests of the graphs: importable in worker processes, as plain as can be.

A line `!host message` is a signal, all else is noise. A range is `path|start|end`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from pipeline.beam.elements import QUARANTINE, RECEIPT, Receipt, Row, fact_rows, row
from pipeline.beam.transforms import Splitter, Work, Worker
from schemas.facts import CELL, Facts, Quarantine, SignalFact, SourceFact, Stamp, merge_facts
from schemas.identity import digest


def inputs(paths: Iterable[Path]) -> list[Work]:
    return [(p.name, str(p).encode()) for p in sorted(paths)]


def split(name: str, data: bytes, *, size: int) -> list[Work]:
    path = Path(data.decode())
    total = path.stat().st_size
    return [(f"{name}@{a}", f"{path}|{a}|{min(a + size, total)}".encode()) for a in range(0, max(total, 1), size)]


def make_split(size: int) -> Splitter:
    return partial(split, size=size)


def lines_of(path: Path, start: int, end: int) -> Iterable[tuple[int, str]]:
    """Lines that begin in [start, end), with their offsets."""
    data = path.read_bytes()
    at = 0
    for raw in data.splitlines(keepends=True):
        if start <= at < end:
            yield at, raw.decode().rstrip("\n")
        at += len(raw)


def facts_of(path: Path, start: int, end: int) -> Facts:
    source = digest("source", path.name)
    parts = []
    for at, line in lines_of(path, start, end):
        if line.startswith("!"):
            host, _, text = line[1:].partition(" ")
            parts.append(
                Facts(
                    signals=(
                        SignalFact(
                            signal_id=digest(source, host, text),
                            source_id=source,
                            rule="made.up",
                            key="",
                            host=host,
                            template=text,
                            bucket="",
                            first=Stamp("none", 0),
                            first_offset=at,
                            first_line=None,
                            last=Stamp("none", 0),
                            last_offset=at,
                            text=text,
                            fields=(("text", text),),
                            counts=((at // CELL, 1),),
                        ),
                    )
                )
            )
    info = SourceFact(source, (path.name,), "root", "made.up", "other", path.stat().st_size, None, "")
    return merge_facts([*parts, Facts(sources=(info,))])


def scan(name: str, data: bytes) -> Iterable[Row]:
    path, start, end = data.decode().split("|")
    facts = facts_of(Path(path), int(start), int(end))
    found = list(fact_rows(facts))
    kinds = [value[0] for _, value in found]
    emitted = tuple((k, kinds.count(k)) for k in sorted(set(kinds)))
    receipt = Receipt(name, int(end) - int(start), 0.0, emitted)
    return [*found, row(RECEIPT, name, receipt)]


def make_scan() -> Worker:
    return scan


def scan_and_tell(name: str, data: bytes) -> Iterable[Row]:
    """Each range also says which process scanned it."""
    pid = Quarantine(name, "", os.getpid(), 0, "scanned")
    found = list(scan(name, data))
    receipt = Receipt(name, 0, 0.0, (("quarantine", 1), ("signal", sum(e[1][0] == "signal" for e in found))))
    return [
        *(e for e in found if e[1][0] == "signal"),
        row(QUARANTINE, name, pid),
        row(RECEIPT, name, receipt),
    ]


def make_tell() -> Worker:
    return scan_and_tell


def scan_and_lie(name: str, data: bytes) -> Iterable[Row]:
    """Says in its receipts that it emitted more than it did: what a lost bundle looks like from outside."""
    return [e for e in scan(name, data) if e[1][0] != "signal"]


def make_lie() -> Worker:
    return scan_and_lie


def scan_without_receipt(name: str, data: bytes) -> Iterable[Row]:
    return [e for e in scan(name, data) if e[1][0] != RECEIPT or not name.endswith("@0")]


def make_silent() -> Worker:
    return scan_without_receipt
