"""`ingest` and `reattribute`: archived logs to the warehouse, and the warehouse's facts to new decisions.

Scanning goes through Beam and leaves shard files; this process, the only writer, loads them and decides what they
touched. Loads may be killed, repeated, split and reordered: facts merge, decisions are replaced as a whole, and what a
killed load had touched is decided by the next one.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from pipeline.sources import Source, discover
from pipeline.sources.split import settle
from pipeline.warehouse.redecide import Redecided, make_decider, redecide
from pipeline.warehouse.writeback import finished_ingests, sources_of_ingests
from schemas.facts import Facts, Quarantine, TelemetryFact
from schemas.settings import Settings
from sql import models

if TYPE_CHECKING:
    from pipeline.beam.facts_graph import GraphReport
    from sql.store import Store

DEFAULT_RUNNER = "FnApiRunner"
#: (stage, done, of): what a progress bar shows.
Progress = Callable[[str, int, int], None]
#: A load of another machine that has not finished for this long is taken for dead.
_DEAD_AFTER_US = 2 * 86400 * 1_000_000


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """One incident whose answer changed. before and after: components, None where there was no incident."""

    incident_id: str
    job_id: str | None
    what: str  # new | changed | retracted
    before: str | None
    after: str | None
    confidence: float | None


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What one ingest did.

    bytes: scanned. signals: folded signals that were read (new or known). decided: subjects looked at. components:
    incidents among them by component. seconds: wall time by stage.
    """

    ingest_id: int
    sources: int
    ranges: int
    bytes: int
    signals: int
    runs: int
    decided: int
    quarantine: list[Quarantine]
    changed: list[IncidentChange]
    components: dict[str, int]
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReattributeResult:
    """What deciding again changed. Iterates over the changes."""

    decided: int
    changes: list[IncidentChange]
    seconds: dict[str, float] = field(default_factory=dict)

    def __iter__(self) -> Iterator[IncidentChange]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)


def ingest(
    paths: Sequence[str | Path],
    store_url: str,
    settings: Settings,
    runner: str = DEFAULT_RUNNER,
    pipeline_args: Sequence[str] = (),
    progress: Progress | None = None,
) -> IngestResult:
    """Load everything under `paths` into the warehouse and decide what it touched.

    Args:
        paths: files, folders, archives, or `-` for standard input.
        store_url: `sqlite:///file.db` (made if it is not there) or `postgresql://...`.
        runner: Beam's runner by name; never a bare DirectRunner. pipeline_args: options for it, as `--name=value`.
        progress: called with (stage, done, of).

    Raises RunnerError before anything is read; ReceiptError where the runner lost work (then nothing was decided).
    """
    from pipeline.beam.runners import check_runner
    from pipeline.beam.shards import below
    from sql.store import open_store

    check_runner(runner, pipeline_args)
    tell = progress or _silent
    with open_store(store_url, create=True) as store, _work_folder(pipeline_args) as folder:
        args = {"paths": [str(p) for p in paths], "runner": runner, "host": platform.node(), "pid": os.getpid()}
        ingest_id = store.begin_ingest(settings.cluster, args)
        seconds: dict[str, float] = {}
        started = time.perf_counter()
        sources, unread = _discover(paths, settings)
        sources, moves = settle(sources, store.source_trails(settings.cluster, {s.base for s in sources}), settings)
        moves = store.rename_sources(settings.cluster, moves, ingest_id)
        seconds["discover"] = time.perf_counter() - started
        started = time.perf_counter()
        report, n_ranges = scan_sources(sources, settings, folder, runner, pipeline_args)
        tell("scan", n_ranges, n_ranges)
        seconds["scan"] = time.perf_counter() - started
        started = time.perf_counter()
        loaded = _load(store, settings.cluster, ingest_id, folder, unread, tell)
        seconds["load"] = time.perf_counter() - started
        dead = _dead_ingests(store, settings.cluster, ingest_id)
        touched = loaded.touched | store.pending(settings.cluster).source_ids
        finished = finished_ingests(store, settings.cluster)
        done = _decide(store, settings, touched, below(folder, "decide"), runner, pipeline_args, moves)
        tell("decide", done.decided, done.decided)
        _load_telemetry(store, settings, folder)
        result = IngestResult(
            ingest_id=ingest_id,
            sources=len(sources),
            ranges=n_ranges,
            bytes=report.scanned_bytes,
            signals=loaded.signals,
            runs=done.runs,
            decided=done.decided,
            quarantine=loaded.quarantine,
            changed=_changes(done),
            components=done.components,
            seconds={**seconds, **done.seconds, "scan_cpu": report.scan_cpu_s},
        )
        for old in dead:
            store.finish_ingest(old, {"abandoned_for": ingest_id})
        store.finish_ingest(ingest_id, _stats(result))
        _settle(store, settings, ingest_id, finished | set(dead))
    return result


def reattribute(
    store_url: str, settings: Settings, since_us: int | None = None, until_us: int | None = None
) -> ReattributeResult:
    """Decide again from the stored facts: for after new rules, settings, models or labels. No log is read.

    since_us, until_us: microseconds UTC; only subjects that meet them are decided.
    """
    from classifiers.knowledge import load_ruleset
    from sql.store import open_store

    span = None
    if since_us is not None or until_us is not None:
        span = (since_us if since_us is not None else -(1 << 62), until_us if until_us is not None else 1 << 62)
    with open_store(store_url) as store:
        done = redecide(store, settings, load_ruleset(), None, span=span)
    return ReattributeResult(done.decided, _changes(done), done.seconds)


def scan_sources(
    sources: Sequence[Source],
    settings: Settings,
    folder: str,
    runner: str = DEFAULT_RUNNER,
    pipeline_args: Sequence[str] = (),
) -> tuple[GraphReport, int]:
    """Scan sources through the facts graph into shards in `folder`; returns the report and the number of ranges."""
    from pipeline.beam.facts_graph import run_facts_graph
    from pipeline.beam.scanning import group_sources, make_scanner, make_splitter, receipt_ids

    inputs = group_sources(sources)
    expected = receipt_ids(inputs, settings)
    report = run_facts_graph(
        inputs,
        list_ranges=partial(make_splitter, settings),
        scan=partial(make_scanner, settings),
        expected=expected,
        folder=folder,
        runner=runner,
        pipeline_args=pipeline_args,
        shards=max(1, min(256, len(expected) // 8)),
    )
    return report, len(expected)


@dataclass(frozen=True, slots=True)
class _Loaded:
    touched: frozenset[str]
    signals: int
    quarantine: list[Quarantine]


def _silent(_stage: str, _done: int, _of: int) -> None:
    """No progress."""


def _discover(paths: Sequence[str | Path], settings: Settings) -> tuple[list[Source], list[Quarantine]]:
    found = list(discover(paths, settings))
    return [f for f in found if isinstance(f, Source)], [f for f in found if isinstance(f, Quarantine)]


@contextmanager
def _work_folder(pipeline_args: Sequence[str]) -> Iterator[str]:
    """A folder for shards: below `--temp_location` where one is given (workers elsewhere must reach it), else local."""
    from pipeline.beam.shards import below, remove

    given = [a.split("=", 1)[1] for a in pipeline_args if a.startswith("--temp_location=")]
    if given:
        folder = below(given[-1], f"faultbeam-{uuid.uuid4().hex}")
        try:
            yield folder
        finally:
            remove(folder)
        return
    local = tempfile.mkdtemp(prefix="faultbeam-")
    try:
        yield local
    finally:
        shutil.rmtree(local, ignore_errors=True)


def _load(
    store: Store, cluster: str, ingest_id: int, folder: str, unread: Sequence[Quarantine], tell: Progress
) -> _Loaded:
    """Merge the shards into the warehouse, portion by portion."""
    from pipeline.beam.facts_graph import count_rows, read_facts

    total = count_rows(folder)
    touched: set[str] = set()
    quarantine: list[Quarantine] = []
    signals = done = 0
    for facts in chain([Facts(quarantine=tuple(unread))] if unread else [], read_facts(folder)):
        quarantine.extend(facts.quarantine)
        touched |= store.load_facts(facts, ingest_id, cluster).source_ids
        signals += len(facts.signals)
        done += sum(map(len, (facts.sources, facts.signals, facts.progress, facts.fragments)))
        tell("load", done, total)
    return _Loaded(frozenset(touched), signals, quarantine)


def _load_telemetry(store: Store, settings: Settings, folder: str) -> None:
    """Hourly telemetry and swings of power, in UTC by the clocks that all sources together give."""
    from pipeline.beam.facts_graph import read_telemetry
    from pipeline.placing.place import place
    from pipeline.records.power import power_rows
    from pipeline.records.telemetry import rows

    clocks = None
    finely: list[TelemetryFact] = []
    for facts in read_telemetry(folder):
        if clocks is None:
            clocks = place(store.read_sources(settings.cluster), store.read_fragments(settings.cluster), settings)
        store.load_telemetry(settings.cluster, rows(facts.telemetry, clocks))
        finely += [fact for fact in facts.telemetry if fact.changes]
    if clocks is not None:
        # GPUs of one host may lie in different shards.
        store.load_power(settings.cluster, power_rows(finely, clocks))


def _dead_ingests(store: Store, cluster: str, mine: int) -> list[int]:
    """Loads that began and will never finish: their process is gone, or they are from elsewhere and old."""
    table = models.ingests.c
    query = select(table.ingest_id, table.started_at, table.args).where(
        table.cluster == cluster, table.finished_at.is_(None), table.ingest_id != mine
    )
    with store.reading() as connection:
        rows = list(connection.execute(query))
    return [number for number, started, args in rows if _is_dead(started, args or {}, store.now_us())]


def _is_dead(started_us: int, args: Mapping[str, Any], now_us: int) -> bool:
    pid = args.get("pid")
    if args.get("host") == platform.node() and isinstance(pid, int):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return pid == os.getpid()  # an earlier load of this very process, which has come back here
    return now_us - started_us > _DEAD_AFTER_US


def _decide(
    store: Store,
    settings: Settings,
    touched: frozenset[str],
    folder: str,
    runner: str,
    pipeline_args: Sequence[str],
    moves: Mapping[str, str],
) -> Redecided:
    from classifiers.knowledge import load_ruleset
    from pipeline.beam.decide_graph import BeamBatches

    ruleset = load_ruleset()
    decider = partial(make_decider, settings, ruleset.number)
    batches = BeamBatches(decider, folder, runner, pipeline_args)
    return redecide(store, settings, ruleset, touched, batches, moves=moves)


def _settle(store: Store, settings: Settings, mine: int, known: frozenset[int]) -> None:
    """Decide again what loads that ended meanwhile have touched: each of two may have read facts without the other's.

    Whoever finishes second sees the first as finished, so one of them always comes here.
    """
    from classifiers.knowledge import load_ruleset

    seen = known | {mine}
    while new := finished_ingests(store, settings.cluster) - seen:
        seen |= new
        redecide(store, settings, load_ruleset(), sources_of_ingests(store, settings.cluster, new | {mine}))


def _changes(done: Redecided) -> list[IncidentChange]:
    return [
        IncidentChange(
            incident_id=c.incident_id,
            job_id=c.job_id,
            what=c.what,
            before=c.before[0] if c.before else None,
            after=c.after[0] if c.after else None,
            confidence=c.after[2] if c.after else None,
        )
        for c in done.changes
    ]


def _stats(result: IngestResult) -> dict[str, Any]:
    counts = {name: getattr(result, name) for name in ("sources", "ranges", "bytes", "signals", "runs", "decided")}
    return {
        **counts,
        "quarantined": len(result.quarantine),
        "changed": len(result.changed),
        "components": result.components,
        "seconds": {name: round(value, 3) for name, value in result.seconds.items()},
    }
