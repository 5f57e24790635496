"""What deciding again writes besides decisions: placements, coverage, hosts, and decisions in portions.

Functions of the store; nothing here concludes anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from pipeline.joining.events import ClockLike, Placed
from pipeline.warehouse.affected import Span, source_span
from schemas.facts import ProgressFact, SourceFact
from schemas.subject import Decision, JobRun
from sql import models

if TYPE_CHECKING:
    from sql.decide import Change
    from sql.read import Placement, ProgressPlacement
    from sql.store import Store

#: (source_id, host, what, from_us, to_us): what a log of a host covers; times in UTC.
CoverageRow = tuple[str, str, str, int | None, int | None]
#: Decisions replaced in one transaction, and keys of one query.
WRITE = 2_000
#: What a log of a family covers.
COVERS = {
    "kernel": "kernel log",
    "syslog": "kernel log",
    "journal": "kernel log",
    "job": "job log",
    "scheduler": "scheduler record",
    "bmc": "bmc log",
}


def _portions(items: Sequence[str], size: int = WRITE) -> Iterator[Sequence[str]]:
    for i in range(0, len(items), size):
        yield items[i : i + size]


def placed_span(store: Store, cluster: str, source_ids: Sequence[str]) -> Span | None:
    """First and last time, UTC, at which signals of these sources are placed in the store."""
    table = models.signals.c
    lows, highs = [], []
    with store.reading() as connection:
        for ids in _portions(source_ids):
            query = select(func.min(table.first_at), func.max(table.last_at)).where(
                table.cluster == cluster, table.source_id.in_(ids)
            )
            low, high = connection.execute(query).one()
            lows.extend([] if low is None else [low])
            highs.extend([] if high is None else [high])
    return (min(lows), max(highs)) if lows and highs else None


def placement_rows(placed: Iterable[Placed], renew: Collection[str]) -> Iterator[Placement]:
    """What placing derived of the signals of the sources in `renew`."""
    return (
        (
            p.fact.signal_id,
            p.hosts[0] if p.hosts else None,
            p.t,
            p.t_last,
            p.meaning.signal,
            p.meaning.component,
            p.meaning.device or None,
        )
        for p in placed
        if p.fact.source_id in renew
    )


def finished_ingests(store: Store, cluster: str) -> frozenset[int]:
    """Numbers of the loads that are complete."""
    table = models.ingests.c
    query = select(table.ingest_id).where(table.cluster == cluster, table.finished_at.is_not(None))
    with store.reading() as connection:
        return frozenset(connection.execute(query).scalars())


def sources_of_ingests(store: Store, cluster: str, ingest_ids: Collection[int]) -> frozenset[str]:
    """Sources whose facts these loads were the last to change."""
    found: set[str] = set()
    tables = (models.sources, models.signals, models.training_progress, models.run_fragments)
    with store.reading() as connection:
        for table in tables:
            query = select(table.c.source_id).where(
                table.c.cluster == cluster, table.c.ingest_id.in_(sorted(ingest_ids))
            )
            found.update(connection.execute(query.distinct()).scalars())
    return frozenset(found)


def progress_rows(
    progress: Iterable[ProgressFact],
    renew: Collection[str],
    before: Sequence[JobRun],
    runs: Sequence[JobRun],
    clocks: Mapping[str, ClockLike],
) -> list[ProgressPlacement]:
    """Training progress tied to runs and to UTC, of the sources in `renew` and of those of runs that changed."""
    old = {run.run_key: run for run in before}
    wanted = set(renew)
    for run in before:
        wanted.update(run.source_ids)
    owners: dict[str, list[tuple[int, int, str]]] = {}
    for run in runs:
        if old.get(run.run_key) == run:
            wanted.difference_update(set(run.source_ids) - set(renew))
        else:
            wanted.update(run.source_ids)
        for sid, low, high in run.spans:
            owners.setdefault(sid, []).append((low, high, run.run_key))
    rows: list[ProgressPlacement] = []
    for fact in progress:
        if fact.source_id not in wanted:
            continue
        clock = clocks.get(fact.source_id)
        first, last = (clock.utc(fact.first)[0], clock.utc(fact.last)[0]) if clock is not None else (None, None)
        held = [
            key
            for low, high, key in owners.get(fact.source_id, ())
            if low <= fact.first_offset and (high < 0 or fact.first_offset < high)
        ]
        rows.append((fact.source_id, fact.cell, first, last, min(held, default=None)))
    return rows


def coverage_rows(sources: Iterable[SourceFact], clocks: Mapping[str, ClockLike]) -> list[CoverageRow]:
    """Which host's logs reach from when to when."""
    coverage: list[CoverageRow] = []
    for source in sorted(sources, key=lambda s: s.source_id):
        clock = clocks.get(source.source_id)
        low, high = source_span(source, clock) or (None, None)
        what = COVERS.get(source.family)
        if what:
            coverage.append((source.source_id, clock.host if clock is not None else "", what, low, high))
    return coverage


def host_rows(sources: Iterable[SourceFact], clocks: Mapping[str, ClockLike]) -> list[dict[str, Any]]:
    """What the logs say of the hosts themselves, from all sources, so that the order of loads cannot show.

    The driver is the one of the log that reaches furthest; of equally late ones the greatest. A host that no log is
    tied to any more keeps only what logs did not say of it.
    """
    rows: dict[str, dict[str, Any]] = {}
    drivers: dict[str, tuple[int, str]] = {}
    for source in sources:
        clock = clocks.get(source.source_id)
        if clock is None or not clock.host:
            continue
        low, high = source_span(source, clock) or (None, None)
        row = rows.setdefault(clock.host, _no_host(clock.host))
        row["first_seen_at"] = min((t for t in (row["first_seen_at"], low) if t is not None), default=None)
        row["last_seen_at"] = max((t for t in (row["last_seen_at"], high) if t is not None), default=None)
        for told in source.facts:
            name, _, version = told.partition("=")
            if name == "driver_version" and version:
                when = (-(1 << 62) if high is None else high, version)
                drivers[clock.host] = max(when, drivers.get(clock.host, when))
    for host, (_, version) in drivers.items():
        rows[host]["driver_version"] = version
    return [rows[host] for host in sorted(rows)]


def _no_host(host: str) -> dict[str, Any]:
    return {"host": host, "driver_version": None, "first_seen_at": None, "last_seen_at": None}


def replace_all(
    store: Store,
    cluster: str,
    decisions: Sequence[Decision],
    retract: Collection[str],
    aliases: Mapping[str, str] | None = None,
) -> tuple[int, int, tuple[Change, ...]]:
    """Replace decisions in portions; returns (written, retracted, changes).

    A retracted subject goes in the same transaction as the decision that took its root evidence over, so that its
    labels follow and no reader sees the fault twice or not at all. aliases: old incident id -> new one, where known.
    """
    heirs = _heirs(store, cluster, decisions, sorted(retract))
    written = retracted = 0
    changes: list[Change] = []
    for start in range(0, max(len(decisions), 1), WRITE):
        portion = decisions[start : start + WRITE]
        gone = [key for key in sorted(retract) if heirs.get(key, 0) == start // WRITE]
        if not portion and not gone:
            continue
        named = {d.incident_id for d in portion if d.incident}
        mine = {old: new for old, new in (aliases or {}).items() if new in named}
        done = store.replace_decisions(cluster, portion, gone, aliases=mine, latest=True)
        written += done.written
        retracted += done.retracted
        changes.extend(done.changes)
    return written, retracted, tuple(changes)


def _heirs(store: Store, cluster: str, decisions: Sequence[Decision], retract: Sequence[str]) -> dict[str, int]:
    """Retracted subject -> number of the portion whose decisions hold its root evidence."""
    if len(decisions) <= WRITE or not retract:
        return {}
    portion: dict[str, int] = {}
    for i, decision in enumerate(decisions):
        for item in decision.evidence if decision.incident else ():
            portion.setdefault(item.event.id, i // WRITE)
    found: dict[str, int] = {}
    table = models.evidence.c
    with store.reading() as connection:
        for keys in _portions(retract):
            query = select(table.subject_key, table.evidence_id).where(
                table.cluster == cluster, table.subject_key.in_(keys), table.role == "root"
            )
            for key, evidence_id in connection.execute(query).tuples():
                if evidence_id in portion:
                    found[key] = min(portion[evidence_id], found.get(key, portion[evidence_id]))
    return found
