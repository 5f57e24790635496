"""Source ids that change: a file that was taken for another one's copy gets an id of its own.

All that hangs on the old id moves in one transaction. Root evidence keeps its tie to the signal, so that deciding again
finds which incident took over, and labels follow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, or_, select, update

from schemas.facts import Facts, SourceFact
from schemas.identity import digest
from schemas.renaming import renamed, renamed_signal, with_streams
from sql.dialect import batches
from sql.factrows import FRAGMENTS, PROGRESS, SIGNALS, SOURCES, quarantine_fact
from sql.load import load_facts
from sql.models import (
    coverage,
    evidence,
    health_events,
    power_hourly,
    quarantine,
    run_fragments,
    signals,
    sources,
    telemetry_hourly,
    training_progress,
)
from sql.read import read


def source_trails(connection: Connection, cluster: str, bases: Collection[str]) -> dict[str, dict[str, str]]:
    """Base -> source id -> trail, of the stored sources of these bases."""
    found: dict[str, dict[str, str]] = {}
    for chunk in batches(sorted(set(bases) - {""}), 5_000):
        query = select(sources.c.base, sources.c.source_id, sources.c.trail).where(
            sources.c.cluster == cluster, sources.c.base.in_(chunk)
        )
        for base, source_id, trail in connection.execute(query):
            found.setdefault(base, {})[source_id] = trail
    return found


def rename_sources(connection: Connection, cluster: str, moves: Mapping[str, str], ingest_id: int) -> dict[str, str]:
    """Give stored sources other ids; returns all moves, those of streams as well."""
    held = read(connection, SOURCES, cluster, list(moves))
    held += _streams(connection, cluster, held)
    every = with_streams(held, moves)
    ids = sorted(every)
    facts = Facts(
        sources=tuple(s for s in held if s.source_id in every),
        signals=read(connection, SIGNALS, cluster, ids),
        progress=read(connection, PROGRESS, cluster, ids),
        fragments=read(connection, FRAGMENTS, cluster, ids),
        quarantine=tuple(
            quarantine_fact(row)
            for chunk in batches(ids, 5_000)
            for row in connection.execute(
                select(quarantine).where(quarantine.c.cluster == cluster, quarantine.c.source_id.in_(chunk))
            ).mappings()
        ),
    )
    for chunk in batches(ids, 5_000):
        for table in (sources, signals, training_progress, run_fragments, quarantine, coverage):
            connection.execute(delete(table).where(table.c.cluster == cluster, table.c.source_id.in_(chunk)))
    load_facts(connection, renamed(facts, every), ingest_id, cluster)
    _follow(connection, cluster, facts, every)
    return every


def _streams(connection: Connection, cluster: str, held: Collection[SourceFact]) -> tuple[SourceFact, ...]:
    """Sources whose path stands below one of these: candidates for their streams."""
    heads = sorted({f"{path}!" for s in held for path in s.inner_paths})
    found: dict[str, SourceFact] = {}
    for chunk in batches(heads, 100):
        query = select(sources).where(
            sources.c.cluster == cluster, or_(*(sources.c.path.startswith(head, autoescape=True) for head in chunk))
        )
        for row in connection.execute(query).mappings():
            fact = SOURCES.fact(row)
            found[fact.source_id] = fact
    mine = {s.source_id for s in held}
    return tuple(fact for source_id, fact in sorted(found.items()) if source_id not in mine)


def _follow(connection: Connection, cluster: str, facts: Facts, moves: Mapping[str, str]) -> None:
    """Evidence of decisions, and hours of telemetry, under the new ids."""
    rows: list[dict[str, Any]] = [
        {
            "b_old": digest("event", s.signal_id),
            "b_new": digest("event", renamed_signal(s, moves[s.source_id]).signal_id),
        }
        for s in facts.signals
    ]
    for table in (evidence, health_events):
        statement = (
            update(table)
            .where(table.c.cluster == cluster, table.c.evidence_id == bindparam("b_old"))
            .values(evidence_id=bindparam("b_new"))
        )
        for chunk in batches(rows):
            connection.execute(statement, chunk)
    for hours in (telemetry_hourly, power_hourly):
        for old, new in sorted(moves.items()):
            connection.execute(
                update(hours).where(hours.c.cluster == cluster, hours.c.source_id == old).values(source_id=new)
            )
