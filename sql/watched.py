"""What `faultbeam watch` writes: facts of new bytes and how far files are read, in one transaction.

A file is read again from a cell border before the place where reading ended. What an earlier view of the file said of
its end, and a longer view says otherwise, is replaced here: training progress of the last cells, and the ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from sqlalchemy import Connection, delete, or_, select, update

from schemas.facts import Facts, SourceFact, merge_facts
from schemas.renaming import with_streams
from sql.dialect import batches, upsert
from sql.factrows import SOURCES
from sql.load import Touched, load_facts
from sql.models import coverage, quarantine, run_fragments, signals, sources, training_progress, watch_files
from sql.read import read
from sql.renames import rename_sources
from sql.touched import marks_of, write_marks
from sql.types import storable

_KEYS = 2_000
Ranges = Sequence[tuple[int, int, int, int, int]]


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """A row of `watch_files`; the columns say what the fields mean."""

    file: str
    path: str
    source_id: str
    position: int
    resume_at: int
    mark: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class SourceState:
    """How far a source is known: bytes from its begin without a gap, and a border from which more can be read."""

    format: str
    end: int
    resume_at: int
    base: str = ""


@dataclass(frozen=True, slots=True)
class WatchStep:
    """What one transaction writes.

    moves: source ids that change, old -> new, before the facts are loaded. anew: sources whose stored facts are void.
    renewed: sources that were written anew as a whole, like a list of jobs: what the facts name is replaced by them,
    and what they do not name any more stays. cells: source id -> first cell whose stored progress is void.
    readable: paths that could not be read before. gone: files that are no more.
    """

    facts: Facts = field(default_factory=Facts)
    moves: Mapping[str, str] = field(default_factory=dict)
    anew: Collection[str] = ()
    renewed: Collection[str] = ()
    cells: Mapping[str, int] = field(default_factory=dict)
    requarantined: Collection[str] = ()
    readable: Collection[str] = ()
    rows: Sequence[WatchedFile] = ()
    gone: Collection[str] = ()


def read_watched(connection: Connection, cluster: str, folder: str) -> dict[str, WatchedFile]:
    """File -> row, of a watched folder."""
    columns = [watch_files.c[f.name] for f in fields(WatchedFile)]
    query = select(*columns).where(watch_files.c.cluster == cluster, watch_files.c.folder == folder)
    return {row["file"]: WatchedFile(**row) for row in connection.execute(query).mappings()}


def source_states(connection: Connection, cluster: str, source_ids: Iterable[str]) -> dict[str, SourceState]:
    """Source id -> how far it is known, of those of these that are stored."""
    found: dict[str, SourceState] = {}
    table = sources.c
    for chunk in batches(sorted(set(source_ids)), _KEYS):
        query = select(table.source_id, table.format, table.ranges, table.base).where(
            table.cluster == cluster, table.source_id.in_(chunk)
        )
        for source_id, name, ranges, base in connection.execute(query):
            chain = _chain([(r[0], r[1], r[2], r[3], r[4]) for r in ranges])
            end, resume_at = (chain[-1][1], chain[-1][0]) if chain else (0, 0)
            found[source_id] = SourceState(name, end, resume_at, base)
    return found


def load_watched(connection: Connection, cluster: str, folder: str, step: WatchStep, now_us: int) -> Touched:
    """Write a step inside the caller's transaction; what changed is marked as to be decided."""
    moved = rename_sources(connection, cluster, step.moves, 0) if step.moves else {}
    for chunk in batches(sorted(set(step.readable)), _KEYS):
        connection.execute(
            delete(quarantine).where(
                quarantine.c.cluster == cluster, quarantine.c.source_id == "", quarantine.c.path.in_(chunk)
            )
        )
    for chunk in batches(sorted(set(step.requarantined)), _KEYS):
        connection.execute(delete(quarantine).where(quarantine.c.cluster == cluster, quarantine.c.source_id.in_(chunk)))
    facts = step.facts
    cleared: set[str] = set()
    for source_id in sorted(step.anew):
        cleared |= _void(connection, cluster, source_id)
    for source_id in sorted(step.renewed):
        facts = merge_facts([facts, _renew(connection, cluster, source_id, facts)])
        cleared.add(source_id)
    _void_progress(connection, cluster, facts.sources, step.cells)
    touched = load_facts(connection, facts, 0, cluster, now_us, mark=True)
    _compact(connection, cluster, sorted(step.cells))
    _rebase(connection, cluster, facts.sources, set(step.moves.values()))
    rest = {*moved, *moved.values(), *cleared} - touched.source_ids
    if rest:
        write_marks(connection, cluster, rest, marks_of(connection, cluster, rest), now_us)
        touched = replace(touched, source_ids=touched.source_ids | rest)
    _reopen(connection, cluster, set(moved.values()))
    _write_rows(connection, cluster, folder, step)
    return touched


def _reopen(connection: Connection, cluster: str, source_ids: Collection[str]) -> None:
    """Signals that moved bear no mark, and have lost where they were placed: have them decided again."""
    for source_id, mark in marks_of(connection, cluster, source_ids).items():
        connection.execute(
            update(signals)
            .where(signals.c.cluster == cluster, signals.c.source_id == source_id, signals.c.ingest_id == 0)
            .values(ingest_id=-mark.mark)
        )


def _write_rows(connection: Connection, cluster: str, folder: str, step: WatchStep) -> None:
    if step.moves:
        for old, new in step.moves.items():
            connection.execute(
                update(watch_files)
                .where(watch_files.c.cluster == cluster, watch_files.c.source_id == old)
                .values(source_id=new)
            )
    rows = [
        {"cluster": cluster, "folder": folder, **{f.name: getattr(row, f.name) for f in fields(WatchedFile)}}
        for row in step.rows
    ]
    for row in rows:
        row["path"] = storable(row["path"])
    for chunk in batches(rows):
        connection.execute(upsert(watch_files, connection.dialect.name), chunk)
    for keys in batches(sorted(step.gone), _KEYS):
        connection.execute(
            delete(watch_files).where(
                watch_files.c.cluster == cluster, watch_files.c.folder == folder, watch_files.c.file.in_(keys)
            )
        )


def _family(connection: Connection, cluster: str, source_id: str) -> tuple[dict[str, SourceFact], list[str]]:
    """(the stored source and its streams by id, their ids)."""
    held = list(read(connection, SOURCES, cluster, [source_id]))
    heads = [f"{path}!" for fact in held for path in fact.inner_paths]
    for chunk in batches(heads, 100):
        query = select(sources).where(
            sources.c.cluster == cluster, or_(*(sources.c.path.startswith(head, autoescape=True) for head in chunk))
        )
        held += [SOURCES.fact(row) for row in connection.execute(query).mappings()]
    ids = sorted(with_streams(held, {source_id: source_id}))
    return {fact.source_id: fact for fact in held if fact.source_id in ids}, ids


def _void(connection: Connection, cluster: str, source_id: str) -> set[str]:
    """Remove all that is known of a source and its streams; returns their ids."""
    _, ids = _family(connection, cluster, source_id)
    for table in (sources, signals, training_progress, run_fragments, quarantine, coverage):
        connection.execute(delete(table).where(table.c.cluster == cluster, table.c.source_id.in_(ids)))
    return set(ids)


def _renew(connection: Connection, cluster: str, source_id: str, facts: Facts) -> Facts:
    """Remove what the new facts of a source replace; returns what stays known of the source itself."""
    held, ids = _family(connection, cluster, source_id)
    for table in (training_progress, quarantine):
        connection.execute(delete(table).where(table.c.cluster == cluster, table.c.source_id.in_(ids)))
    for chunk in batches(sorted(s.signal_id for s in facts.signals), _KEYS):
        connection.execute(delete(signals).where(signals.c.cluster == cluster, signals.c.signal_id.in_(chunk)))
    jobs = {f.job_id for f in facts.fragments if f.source_id in ids or f.source_id == source_id}
    for chunk in batches(sorted(jobs), _KEYS):
        connection.execute(
            delete(run_fragments).where(
                run_fragments.c.cluster == cluster,
                run_fragments.c.source_id.in_(ids),
                run_fragments.c.job_id.in_(chunk),
            )
        )
    connection.execute(delete(sources).where(sources.c.cluster == cluster, sources.c.source_id.in_(ids)))
    kept = [
        replace(
            fact, size=0, reach=0, ranges=(), lines=None, signal_lines=0, unparsed_lines=0, base="", trail="", note=None
        )
        for fact in held.values()
    ]
    return Facts(sources=tuple(kept))


def _void_progress(connection: Connection, cluster: str, found: Sequence[SourceFact], cells: Mapping[str, int]) -> None:
    """Remove progress of cells that are read anew: which cells are read depends on where the source ends."""
    table = training_progress.c
    for source_id, cell in sorted(cells.items()):
        ids = sorted({source_id, *with_streams(found, {source_id: source_id})})
        for chunk in batches(ids, _KEYS):
            connection.execute(
                delete(training_progress).where(
                    table.cluster == cluster, table.source_id.in_(chunk), table.cell >= cell
                )
            )


def _compact(connection: Connection, cluster: str, source_ids: Sequence[str]) -> None:
    """Join ranges that were read one after the other, so that a row does not grow with the number of looks at it."""
    for chunk in batches(source_ids, _KEYS):
        query = select(sources.c.source_id, sources.c.ranges).where(
            sources.c.cluster == cluster, sources.c.source_id.in_(chunk)
        )
        for source_id, stored in list(connection.execute(query)):
            ranges = [(r[0], r[1], r[2], r[3], r[4]) for r in stored]
            short = compacted(ranges)
            if short != ranges:
                connection.execute(
                    update(sources)
                    .where(sources.c.cluster == cluster, sources.c.source_id == source_id)
                    .values(ranges=[list(r) for r in short])
                )


def _rebase(connection: Connection, cluster: str, found: Sequence[SourceFact], ids: Collection[str]) -> None:
    """A source whose first line has been completed, or written anew, is known by what it is now."""
    for fact in found:
        if fact.source_id in ids and fact.base:
            connection.execute(
                update(sources)
                .where(sources.c.cluster == cluster, sources.c.source_id == fact.source_id)
                .values(base=fact.base)
            )


def compacted(ranges: Ranges) -> list[tuple[int, int, int, int, int]]:
    """The longest chain of ranges from 0 as two: its last range, and all before it. Ranges behind it stay."""
    chain = _chain(ranges)
    if not chain:
        return sorted(ranges)
    end = chain[-1][1]
    front, last = chain[:-1], chain[-1]
    out = [last, *(r for r in ranges if r[1] > end)]
    if front:
        out.append((0, last[0], sum(r[2] for r in front), sum(r[3] for r in front), sum(r[4] for r in front)))
    return sorted(set(out))


def _chain(ranges: Ranges) -> list[tuple[int, int, int, int, int]]:
    """Ranges that follow each other from 0 as far as any do; of equals, those in the smallest steps at the end."""
    paths: dict[int, list[tuple[int, int, int, int, int]]] = {0: []}
    for r in sorted(ranges):
        if r[0] in paths and r[1] > r[0]:
            paths[r[1]] = [*paths[r[0]], r]
    return paths[max(paths)]
