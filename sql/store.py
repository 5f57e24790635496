"""The store: plain data in and out of a warehouse, on SQLite or PostgreSQL.

Every method is one transaction: all of it or nothing, whatever kills the process. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, func, insert, select, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError

from schemas.facts import Facts, ProgressFact, RunFragment, SignalFact, SourceFact
from schemas.subject import Decision, JobRun
from sql import episodes as _episodes
from sql import load as _load
from sql import models
from sql import read as _read
from sql import renames as _renames
from sql.answers import find_subject, list_decisions, read_decisions
from sql.decide import Replaced, replace_decisions, set_detected
from sql.dialect import upsert
from sql.engine import connect_error, make_engine, parse_url, shown, sqlite_file
from sql.errors import CannotConnect, SchemaBehind
from sql.factrows import FRAGMENTS, PROGRESS, SOURCES
from sql.load import Touched, lock_derived
from sql.migrations import state_of, upgrade_engine
from sql.operations import (
    Label,
    add_label,
    labels,
    load_power,
    load_telemetry,
    replace_coverage,
    replace_hosts,
    upsert_hosts,
)
from sql.outbox import open_actions
from sql.read import Placement, ProgressPlacement
from sql.runs import read_runs, replace_runs
from sql.types import to_us

__all__ = ["Label", "Replaced", "Store", "Touched", "open_store"]


def _now() -> datetime:
    return datetime.now(UTC)


def open_store(url: str, *, create: bool = False, clock: Callable[[], datetime] = _now) -> Store:
    """Connect to the warehouse at `url`.

    create: make and upgrade a SQLite file by itself (what `ingest` does); a PostgreSQL database is upgraded by
    `faultbeam db upgrade` only. clock: where wall-clock columns come from.
    Raises DriverMissing, CannotConnect, SchemaBehind; each says what to do.
    """
    parsed = parse_url(url)
    file = sqlite_file(parsed)
    if file is not None and not file.exists() and not create:
        msg = f"no warehouse at {file}: make one with faultbeam ingest PATH --warehouse {shown(parsed)}"
        raise CannotConnect(msg)
    engine = make_engine(parsed)
    try:
        _ready(engine, parsed, create=create)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine, parsed, clock)


def _ready(engine: Engine, url: URL, *, create: bool) -> None:
    """Connect, and see to it that the schema is this program's."""
    try:
        with engine.connect() as connection:
            state = state_of(connection, shown(url))
        if not state.ok and create and not state.newer and url.get_backend_name() == "sqlite":
            upgrade_engine(engine)
            return
    except DBAPIError as error:
        raise connect_error(url, error) from error
    if not state.ok:
        raise SchemaBehind(state.advice)


class Store:
    """A connected warehouse. Use as a context manager, or call `close`. Made by `open_store`."""

    def __init__(self, engine: Engine, url: URL, clock: Callable[[], datetime] = _now) -> None:
        self.engine = engine
        self.url = shown(url)
        self._url = url
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    def now_us(self) -> int:
        """The wall clock of this store, microseconds since 1970 UTC."""
        return to_us(self._clock())

    @contextmanager
    def writing(self, derived_of: str | None = None) -> Iterator[Connection]:
        """A transaction that writes. derived_of: cluster whose derived rows it replaces; one at a time does that."""
        with self._connected(write=True) as connection:
            if derived_of is not None:
                lock_derived(connection, derived_of)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads."""
        with self._connected(write=False) as connection:
            yield connection

    @contextmanager
    def _connected(self, *, write: bool) -> Iterator[Connection]:
        try:
            with self.engine.connect().execution_options(write=write) as connection, connection.begin():
                yield connection
        except OperationalError as error:  # locked for too long, the server went away, the disk is full
            raise connect_error(self._url, error) from error

    # -- ingests ---------------------------------------------------------------------------------------------

    def begin_ingest(self, cluster: str, args: Mapping[str, Any]) -> int:
        """Note that a load began; returns its number. Secrets must not be in `args`."""
        row = {"cluster": cluster, "started_at": self.now_us(), "args": dict(args)}
        with self.writing() as connection:
            key = connection.execute(insert(models.ingests).values(row)).inserted_primary_key
        return int(key[0]) if key else 0

    def finish_ingest(self, ingest_id: int, stats: Mapping[str, Any]) -> None:
        """Note that a load, with the decisions that follow from it, is complete."""
        with self.writing() as connection:
            connection.execute(
                update(models.ingests)
                .where(models.ingests.c.ingest_id == ingest_id)
                .values(finished_at=self.now_us(), stats=dict(stats))
            )

    def latest_ingest(self, cluster: str | None = None) -> dict[str, Any] | None:
        """The newest row of `ingests` (times in microseconds), or None."""
        query = select(models.ingests).order_by(models.ingests.c.ingest_id.desc()).limit(1)
        if cluster is not None:
            query = query.where(models.ingests.c.cluster == cluster)
        with self.reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else dict(row)

    def pending(self, cluster: str) -> Touched:
        """What loads that began and never finished (a crash) have changed; decide it again."""
        with self.reading() as connection:
            return _read.pending(connection, cluster)

    def source_trails(self, cluster: str, bases: Collection[str]) -> dict[str, dict[str, str]]:
        """Base -> source id -> trail, of the stored sources that share path and first line with others."""
        with self.reading() as connection:
            return _renames.source_trails(connection, cluster, bases)

    def rename_sources(self, cluster: str, moves: Mapping[str, str], ingest_id: int = 0) -> dict[str, str]:
        """Give stored sources (old id -> new id) and all that hangs on them other ids; all moves, streams' as well."""
        if not moves:
            return {}
        with self.writing(cluster) as connection:
            return _renames.rename_sources(connection, cluster, moves, ingest_id)

    # -- facts -----------------------------------------------------------------------------------------------

    def load_facts(
        self,
        facts: Facts,
        ingest_id: int = 0,
        cluster: str = "default",
        positions: Iterable[tuple[str, int, int, int | None]] = (),
        *,
        mark: bool = False,
    ) -> Touched:
        """Merge facts in (order, repetition and overlap of loads never show); what changed comes back.

        positions: (topic, partition, next offset, event time in us) of a stream, made durable in the same transaction.
        mark: note what changed as to be decided (`sql.touched`), as streams do.
        """
        with self.writing() as connection:
            now = self.now_us()
            touched = _load.load_facts(connection, facts, ingest_id, cluster, now, mark=mark)
            rows = [
                {"cluster": cluster, "topic": topic, "partition": part, "next_offset": offset, "event_at": event_us}
                for topic, part, offset, event_us in positions
            ]
            dated = [row for row in rows if row["event_at"] is not None]
            if dated:
                connection.execute(upsert(models.stream_progress, self.dialect), dated)
            if len(dated) < len(rows):  # what is not known of the time leaves what was known
                undated = [row for row in rows if row["event_at"] is None]
                connection.execute(upsert(models.stream_progress, self.dialect, keep=("event_at",)), undated)
        return touched

    def read_stream_progress(self, cluster: str) -> dict[tuple[str, int], tuple[int, int | None]]:
        """(topic, partition) -> (next offset, event time in us)."""
        table = models.stream_progress.c
        query = select(table.topic, table.partition, table.next_offset, table.event_at).where(table.cluster == cluster)
        with self.reading() as connection:
            return {(t, p): (offset, event) for t, p, offset, event in connection.execute(query)}

    def read_sources(self, cluster: str) -> tuple[SourceFact, ...]:
        """All sources, sorted by id."""
        with self.reading() as connection:
            return _read.read(connection, SOURCES, cluster)

    def read_fragments(self, cluster: str, source_ids: Collection[str] | None = None) -> tuple[RunFragment, ...]:
        """All fragments of job runs, sorted by key."""
        with self.reading() as connection:
            return _read.read(connection, FRAGMENTS, cluster, source_ids)

    def read_progress(self, cluster: str, source_ids: Collection[str] | None = None) -> tuple[ProgressFact, ...]:
        """Training progress, sorted by source and cell."""
        with self.reading() as connection:
            return _read.read(connection, PROGRESS, cluster, source_ids)

    def read_signals(
        self,
        cluster: str,
        source_ids: Collection[str] | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        *,
        include_untimed: bool = True,
    ) -> tuple[SignalFact, ...]:
        """Signals of these sources whose placed interval meets [since_us, until_us], sorted by id.

        include_untimed: also those that have no placed time (not placed yet, or no clock).
        """
        with self.reading() as connection:
            return _read.read_signals(
                connection, cluster, source_ids, since_us, until_us, include_untimed=include_untimed
            )

    def read_signals_with(self, cluster: str, text: str) -> tuple[SignalFact, ...]:
        """Signals whose text holds this, sorted by id."""
        with self.reading() as connection:
            return _read.read_signals_with(connection, cluster, text)

    def read_facts(self, cluster: str) -> Facts:
        """Everything that is known of a cluster, for a diagnosis that adds its history. Quarantine is left out."""
        return Facts(
            sources=self.read_sources(cluster),
            signals=self.read_signals(cluster),
            progress=self.read_progress(cluster),
            fragments=self.read_fragments(cluster),
        )

    def update_placements(self, rows: Iterable[Placement], cluster: str | None = None) -> int:
        """Fill the derived columns of signals."""
        with self.writing(cluster) as connection:
            return _read.update_placements(connection, rows, cluster)

    def update_progress_placements(self, cluster: str, rows: Iterable[ProgressPlacement]) -> int:
        """Fill `run_key`, `first_at` and `last_at` of training progress."""
        with self.writing(cluster) as connection:
            return _read.update_progress_placements(connection, cluster, rows)

    def replace_coverage(
        self, cluster: str, source_ids: Collection[str], rows: Iterable[tuple[str, str, str, int | None, int | None]]
    ) -> None:
        """Replace what these sources cover. rows: (source_id, host, what, from_us, to_us)."""
        with self.writing(cluster) as connection:
            replace_coverage(connection, cluster, source_ids, rows)

    # -- runs, hosts, telemetry ------------------------------------------------------------------------------

    def replace_runs(self, cluster: str, runs: Sequence[JobRun], retract: Collection[str] = ()) -> None:
        """Write these runs as they are and remove those in `retract` (run keys)."""
        with self.writing(cluster) as connection:
            replace_runs(connection, cluster, runs, retract)

    def read_runs(self, cluster: str) -> tuple[JobRun, ...]:
        """All runs, sorted by key."""
        with self.reading() as connection:
            return read_runs(connection, cluster)

    def upsert_hosts(self, cluster: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Merge rows of `hosts` (`host` and any other columns, times in us); None never replaces a known value."""
        with self.writing(cluster) as connection:
            upsert_hosts(connection, cluster, rows)

    def replace_hosts(self, cluster: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Make the columns of `hosts` that these rows (of all hosts) have what they say; None clears a column.

        Other columns stay; of a host that has no row the given columns are cleared.
        """
        with self.writing(cluster) as connection:
            replace_hosts(connection, cluster, rows)

    def load_telemetry(self, cluster: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows of `telemetry_hourly`; the same source, host, device, metric and hour is replaced."""
        with self.writing(cluster) as connection:
            load_telemetry(connection, cluster, rows)

    def load_power(self, cluster: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows of `power_hourly`; the same source, host and hour is replaced."""
        with self.writing(cluster) as connection:
            load_power(connection, cluster, rows)

    # -- decisions -------------------------------------------------------------------------------------------

    def replace_decisions(
        self,
        cluster: str,
        decisions: Sequence[Decision],
        retract_keys: Collection[str] = (),
        *,
        aliases: Mapping[str, str] | None = None,
        latest: bool = False,
        reopened: Collection[str] = (),
        document: Callable[[Decision], str] | None = None,
    ) -> Replaced:
        """Replace the decisions of these subjects as a whole, in one transaction.

        Older decisions (ruleset, model, revision) never replace newer ones; equal ones are not written again.
        retract_keys: subjects that are no more. aliases: old incident id -> new one, where the caller knows more than
        can be seen from subjects and root evidence. latest: decided from all facts in the store, so that the number of
        facts is not compared (a window that became narrower leaves a subject with fewer). reopened: subjects that went
        on after their final answer. document: an incident as JSON; with it, what changed goes to the outbox of
        incidents (`sql.published`).
        """
        with self.writing(cluster) as connection:
            now = self.now_us()
            return replace_decisions(
                connection, cluster, decisions, retract_keys, now, aliases or {}, latest, reopened, document
            )

    def set_detected(self, cluster: str, subject_key: str, detected_us: int) -> None:
        """Put the wall-clock time at which a stream first saw that the subject was interrupted."""
        with self.writing(cluster) as connection:
            set_detected(connection, cluster, subject_key, detected_us)

    def read_decision(self, incident_id: str, cluster: str | None = None) -> Decision:
        """The decision of an incident, by its id, an old id of it, or the beginning of one. UnknownIncident else."""
        with self.reading() as connection:
            of_cluster, subject_key, _ = find_subject(connection, incident_id, cluster)
            return read_decisions(connection, of_cluster, [subject_key])[0]

    def list_decisions(
        self,
        cluster: str | None = None,
        *,
        since_us: int | None = None,
        until_us: int | None = None,
        job_id: str | None = None,
        host: str | None = None,
        incidents_only: bool = True,
    ) -> tuple[Decision, ...]:
        """Decisions by end of the run (or onset), oldest first; labels are not applied (see the view `incidents`)."""
        with self.reading() as connection:
            return list_decisions(
                connection,
                cluster,
                since_us=since_us,
                until_us=until_us,
                job_id=job_id,
                host=host,
                incidents_only=incidents_only,
            )

    def read_episodes(self, cluster: str) -> tuple[dict[str, tuple[int, int] | None], frozenset[str]]:
        """(decided episode -> its times, None without a clock; episodes whose times are not known)."""
        with self.reading() as connection:
            return _episodes.read_spans(connection, cluster)

    def write_episodes(
        self, cluster: str, spans: Mapping[str, tuple[int, int] | None], gone: Collection[str] = ()
    ) -> None:
        """Note the times of episodes; forget those that are gone."""
        with self.writing(cluster) as connection:
            _episodes.write_spans(connection, cluster, spans, gone)

    def subject_keys(self, cluster: str) -> frozenset[str]:
        """Keys of all subjects that have a decision; those that no longer exist are to be retracted."""
        table = models.decisions.c
        with self.reading() as connection:
            return frozenset(connection.execute(select(table.subject_key).where(table.cluster == cluster)).scalars())

    def open_actions(self, cluster: str) -> list[dict[str, Any]]:
        """The outbox: proposed actions that nobody has taken up."""
        with self.reading() as connection:
            return open_actions(connection, cluster)

    # -- people ----------------------------------------------------------------------------------------------

    def add_label(
        self, incident_id: str, component: str, note: str = "", who: str = "", when: datetime | None = None
    ) -> Label:
        """Say which component it was; the latest label of an incident wins over any decision.

        UnknownIncident, or SchemaError for a component that is not in the taxonomy: then nothing is written.
        """
        with self.writing() as connection:
            return add_label(connection, incident_id, component, note, who, to_us(when or self._clock()))

    def labels(self, cluster: str | None = None) -> tuple[Label, ...]:
        """All labels in the order in which they were given, with the ids that their incidents have now."""
        with self.reading() as connection:
            return labels(connection, cluster)

    def current_labels(self, cluster: str | None = None) -> dict[str, str]:
        """Incident id -> the component that people gave it last."""
        return {label.incident_id: label.component for label in self.labels(cluster)}

    # -- meta ------------------------------------------------------------------------------------------------

    def get_meta(self, name: str) -> str | None:
        """A value of the table `meta`, such as `ruleset`."""
        with self.reading() as connection:
            return connection.execute(select(models.meta.c.value).where(models.meta.c.name == name)).scalar()

    def set_meta(self, name: str, value: str) -> None:
        """Keep a value in the table `meta`."""
        with self.writing() as connection:
            connection.execute(upsert(models.meta, self.dialect), {"name": name, "value": value})

    def stats(self, cluster: str | None = None) -> dict[str, int]:
        """Rows by table."""
        with self.reading() as connection:
            counts = {}
            for name, table in sorted(models.metadata.tables.items()):
                query = select(func.count()).select_from(table)
                if cluster is not None and "cluster" in table.c:
                    query = query.where(table.c.cluster == cluster)
                counts[name] = connection.execute(query).scalar_one()
        return counts
