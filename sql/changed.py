"""Signals that a decider looks for: changed since it decided, without a time, of some rules, at some times."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlalchemy import Connection, Select, select

from schemas.facts import SignalFact
from sql.dialect import batches
from sql.factrows import SIGNALS
from sql.models import signals, sources, stream_touched

_KEYS = 2_000
_LONGEST_US = 3 * 3600 * 1_000_000
_COLUMNS = [c for c in signals.columns if c.name not in SIGNALS.derived and c.name not in ("cluster", "ingest_id")]
#: (rule, host, first_at, last_at): where a signal was placed last; times in microseconds UTC.
Place = tuple[str, str | None, int | None, int | None]


def _facts(connection: Connection, query: Select[tuple[object, ...]]) -> Iterator[SignalFact]:
    for row in connection.execute(query).mappings():
        yield SIGNALS.fact(row)


def undecided_signals(connection: Connection, cluster: str, source_ids: Collection[str]) -> list[SignalFact]:
    """Signals of these sources that streams have changed since they were decided."""
    found: list[SignalFact] = []
    for chunk in batches(sorted(source_ids), _KEYS):
        query = (
            select(*_COLUMNS)
            .join(
                stream_touched,
                (stream_touched.c.cluster == signals.c.cluster) & (stream_touched.c.source_id == signals.c.source_id),
            )
            .where(
                signals.c.cluster == cluster,
                signals.c.source_id.in_(chunk),
                signals.c.ingest_id < -stream_touched.c.decided_mark,
            )
        )
        found.extend(_facts(connection, query))
    return found


def untimed_signals(connection: Connection, cluster: str) -> list[SignalFact]:
    """Signals that were not placed in time, but for those of job logs."""
    others = select(sources.c.source_id).where(sources.c.cluster == cluster, sources.c.family != "job")
    query = select(*_COLUMNS).where(
        signals.c.cluster == cluster, signals.c.first_at.is_(None), signals.c.source_id.in_(others)
    )
    return list(_facts(connection, query))


def signals_of_rules(
    connection: Connection, cluster: str, rules: Collection[str], between: tuple[int, int] | None = None
) -> list[SignalFact]:
    """The signals of these rules; between: only those that began between these times, microseconds UTC."""
    query = select(*_COLUMNS).where(signals.c.cluster == cluster)
    if between is not None:
        query = query.where(signals.c.first_at >= between[0], signals.c.first_at <= between[1])
    found: list[SignalFact] = []
    for chunk in batches(sorted(rules), _KEYS):
        found.extend(_facts(connection, query.where(signals.c.rule.in_(chunk))))
    return found


def signals_between(connection: Connection, cluster: str, low_us: int, high_us: int) -> list[SignalFact]:
    """Signals placed between these times, on whatever host."""
    query = select(*_COLUMNS).where(
        signals.c.cluster == cluster,
        signals.c.first_at <= high_us,
        # what is folded lies in one minute of its frame, which no zone makes longer than this
        signals.c.first_at >= low_us - _LONGEST_US,
        signals.c.last_at >= low_us,
    )
    return list(_facts(connection, query))


def signals_on(connection: Connection, cluster: str, hosts: Collection[str]) -> list[tuple[SignalFact, Place]]:
    """Signals that were placed on these hosts last, and where."""
    c = signals.c
    found: list[tuple[SignalFact, Place]] = []
    for chunk in batches(sorted(hosts), _KEYS):
        query = select(*_COLUMNS, c.host, c.first_at, c.last_at).where(c.cluster == cluster, c.host.in_(chunk))
        for row in connection.execute(query).mappings():
            found.append((SIGNALS.fact(row), (row["rule"], row["host"], row["first_at"], row["last_at"])))
    return found


def places_of(connection: Connection, cluster: str, source_ids: Collection[str]) -> list[Place]:
    """Where the signals of these sources were placed last."""
    c, found = signals.c, []
    for chunk in batches(sorted(source_ids), _KEYS):
        query = select(c.rule, c.host, c.first_at, c.last_at).where(c.cluster == cluster, c.source_id.in_(chunk))
        found.extend([(rule, host, low, high) for rule, host, low, high in connection.execute(query)])
    return found
