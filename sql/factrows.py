"""Facts as table rows and back. Pure functions; a row is a dict by column name, and comes back as an equal fact."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sqlalchemy import RowMapping, Table

from schemas.facts import (
    Facts,
    ProgressFact,
    Quarantine,
    RunFragment,
    SignalFact,
    SourceFact,
    Stamp,
    merge_fragments,
    merge_progress,
    merge_signals,
    merge_sources,
)
from schemas.identity import digest
from sql import models
from sql.types import storable, storable_deep

Row = Mapping[str, Any] | RowMapping
F = TypeVar("F")

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def _stamp_row(name: str, stamp: Stamp) -> dict[str, Any]:
    return {f"{name}_kind": stamp.kind, f"{name}_us": stamp.us, f"{name}_borrowed": stamp.borrowed}


def _stamp(row: Row, name: str) -> Stamp:
    return Stamp(row[f"{name}_kind"], row[f"{name}_us"], bool(row[f"{name}_borrowed"]))


def _tuples(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - lists of lists from JSON
    return tuple([tuple(item) for item in value])


def source_row(fact: SourceFact) -> dict[str, Any]:
    return {
        "source_id": fact.source_id,
        "path": fact.inner_paths[0] if fact.inner_paths else "",
        "inner_paths": fact.inner_paths,
        "root": fact.root,
        "format": fact.format,
        "family": fact.family,
        "size": fact.size,
        "mtime_us": fact.mtime_us,
        "host": fact.host,
        "spans": fact.spans,
        "clocks": fact.clocks,
        "names": fact.names,
        "job_ids": fact.job_ids,
        "rank_hosts": fact.rank_hosts,
        "facts": fact.facts,
        "lines": fact.lines,
        "signal_lines": fact.signal_lines,
        "unparsed_lines": fact.unparsed_lines,
        "ranges": fact.ranges,
        "reach": fact.reach,
        "base": fact.base,
        "trail": fact.trail,
        "note": fact.note,
    }


def source_fact(row: Row) -> SourceFact:
    return SourceFact(
        source_id=row["source_id"],
        inner_paths=tuple(row["inner_paths"]),
        root=row["root"],
        format=row["format"],
        family=row["family"],
        size=row["size"],
        mtime_us=row["mtime_us"],
        host=row["host"],
        spans=_tuples(row["spans"]),
        clocks=_tuples(row["clocks"]),
        names=_tuples(row["names"]),
        job_ids=tuple(row["job_ids"]),
        rank_hosts=_tuples(row["rank_hosts"]),
        facts=tuple(row["facts"]),
        lines=row["lines"],
        signal_lines=row["signal_lines"],
        unparsed_lines=row["unparsed_lines"],
        ranges=_tuples(row["ranges"]),
        reach=row["reach"],
        base=row["base"],
        trail=row["trail"],
        note=row["note"],
    )


def signal_row(fact: SignalFact) -> dict[str, Any]:
    first, last = fact.first, fact.last
    return {
        "signal_id": fact.signal_id,
        "source_id": fact.source_id,
        "rule": fact.rule,
        "fact_key": fact.key,
        "printed_host": fact.host,
        "template": fact.template,
        "bucket": fact.bucket,
        "first_kind": first.kind,
        "first_us": first.us,
        "first_borrowed": first.borrowed,
        "first_offset": fact.first_offset,
        "first_line": fact.first_line,
        "last_kind": last.kind,
        "last_us": last.us,
        "last_borrowed": last.borrowed,
        "last_offset": fact.last_offset,
        "text": fact.text,
        "fields": fact.fields,
        "ranks": fact.ranks,
        "counts": fact.counts,
        "count": fact.count,
        "torn": fact.torn,
    }


def signal_fact(row: Row) -> SignalFact:
    return SignalFact(
        signal_id=row["signal_id"],
        source_id=row["source_id"],
        rule=row["rule"],
        key=row["fact_key"],
        host=row["printed_host"],
        template=row["template"],
        bucket=row["bucket"],
        first=_stamp(row, "first"),
        first_offset=row["first_offset"],
        first_line=row["first_line"],
        last=_stamp(row, "last"),
        last_offset=row["last_offset"],
        text=row["text"],
        fields=_tuples(row["fields"]),
        ranks=_tuples(row["ranks"]),
        counts=_tuples(row["counts"]),
        torn=row["torn"],
    )


def progress_row(fact: ProgressFact) -> dict[str, Any]:
    return {
        "source_id": fact.source_id,
        "cell": fact.cell,
        "first_step": fact.first_step,
        **_stamp_row("first", fact.first),
        "first_offset": fact.first_offset,
        "last_step": fact.last_step,
        **_stamp_row("last", fact.last),
        "last_offset": fact.last_offset,
        "n": fact.n,
        "step_s": fact.step_s,
        "series": fact.series,
        "points": fact.points,
        "upto": fact.upto,
    }


def progress_fact(row: Row) -> ProgressFact:
    return ProgressFact(
        source_id=row["source_id"],
        cell=row["cell"],
        first_step=row["first_step"],
        first=_stamp(row, "first"),
        first_offset=row["first_offset"],
        last_step=row["last_step"],
        last=_stamp(row, "last"),
        last_offset=row["last_offset"],
        n=row["n"],
        step_s=row["step_s"],
        series=row["series"],
        points=_tuples(row["points"]),
        upto=row["upto"],
    )


_FRAGMENT_AS_IS = (
    "source_id",
    "offset",
    "line",
    "scheduler",
    "job_id",
    "step",
    "state",
    "exit_code",
    "exit_signal",
    "n_nodes",
    "n_gpus",
    "user",
    "account",
    "name",
    "reason",
)


def fragment_row(fact: RunFragment) -> dict[str, Any]:
    return {
        **{name: getattr(fact, name) for name in _FRAGMENT_AS_IS},
        "scheduler_cluster": fact.cluster,
        **_stamp_row("submit", fact.submit),
        **_stamp_row("start", fact.start),
        **_stamp_row("end", fact.end),
        "nodes": fact.nodes,
        "extra": fact.extra,
    }


def fragment_fact(row: Row) -> RunFragment:
    return RunFragment(
        **{name: row[name] for name in _FRAGMENT_AS_IS},
        cluster=row["scheduler_cluster"],
        submit=_stamp(row, "submit"),
        start=_stamp(row, "start"),
        end=_stamp(row, "end"),
        nodes=tuple(row["nodes"]),
        extra=tuple(row["extra"]),
    )


def quarantine_id(fact: Quarantine) -> str:
    return digest("quarantine", fact.path, fact.source_id, fact.offset, fact.length, fact.reason)


def quarantine_row(fact: Quarantine) -> dict[str, Any]:
    return {
        "quarantine_id": quarantine_id(fact),
        "path": fact.path,
        "source_id": fact.source_id,
        "offset": fact.offset,
        "length": fact.length,
        "reason": fact.reason,
    }


def quarantine_fact(row: Row) -> Quarantine:
    return Quarantine(row["path"], row["source_id"], row["offset"], row["length"], row["reason"])


def _same(known: Quarantine, _new: Quarantine) -> Quarantine:
    """The key of a quarantined part is all of it."""
    return known


@dataclass(frozen=True, slots=True)
class Kind(Generic[F]):
    """How facts of one kind are stored: table, key, rows and the merge of two views of one key.

    by: the key column that existing rows are looked up by. derived: columns that loading never touches.
    then: the integer key column after `by`, whose range narrows the look-up.
    """

    table: Table
    by: str
    key: Callable[[F], tuple[Any, ...]]
    row: Callable[[F], dict[str, Any]]
    fact: Callable[[Row], F]
    merge: Callable[[F, F], F]
    derived: tuple[str, ...] = ()
    then: str | None = None


SOURCES = Kind(
    models.sources, "source_id", lambda f: (f.source_id,), source_row, source_fact, merge_sources, ("clock",)
)
SIGNALS = Kind(
    models.signals,
    "signal_id",
    lambda f: (f.signal_id,),
    signal_row,
    signal_fact,
    merge_signals,
    ("host", "first_at", "last_at", "signal", "component", "device"),
)
PROGRESS = Kind(
    models.training_progress,
    "source_id",
    lambda f: (f.source_id, f.cell),
    progress_row,
    progress_fact,
    merge_progress,
    ("run_key", "first_at", "last_at"),
    "cell",
)
FRAGMENTS: Kind[RunFragment] = Kind(
    models.run_fragments, "source_id", lambda f: f.key, fragment_row, fragment_fact, merge_fragments, then="offset"
)
QUARANTINE: Kind[Quarantine] = Kind(
    models.quarantine, "quarantine_id", lambda f: (quarantine_id(f),), quarantine_row, quarantine_fact, _same
)


def _clean_signal(fact: SignalFact) -> SignalFact:
    joined = "\x01".join((fact.text, fact.template, fact.key, fact.host, *[v for _, v in fact.fields]))
    if _UNSTORABLE.search(joined) is None:
        return fact
    return replace(
        fact,
        text=storable(fact.text),
        template=storable(fact.template),
        key=storable(fact.key),
        host=storable(fact.host),
        fields=storable_deep(fact.fields),
    )


def _clean(fact: F) -> F:
    changes = {}
    for name in fact.__slots__:  # type: ignore[attr-defined]  # facts are slotted dataclasses
        value = getattr(fact, name)
        if isinstance(value, (str, tuple)) and not isinstance(value, Stamp):
            clean = storable_deep(value)
            if clean != value:
                changes[name] = clean
    return replace(fact, **changes) if changes else fact  # type: ignore[type-var]


def storable_facts(facts: Facts) -> Facts:
    """The facts with texts that both databases take, so that keys and merges see what the rows hold."""
    return Facts(
        sources=tuple([_clean(f) for f in facts.sources]),
        signals=tuple([_clean_signal(f) for f in facts.signals]),
        progress=facts.progress,
        fragments=tuple([_clean(f) for f in facts.fragments]),
        quarantine=tuple([_clean(f) for f in facts.quarantine]),
    )
