"""The watcher: looks at a folder again and again, and puts what is new into the warehouse.

A step reads up to `_FILES` changed files and writes their facts, how far each is read, and which sources are to be
decided, in one transaction. So a kill at any point loses nothing and counts nothing twice: what was not committed is
read again. Files that are read as they grow are held open for a while, so that what a deleted file still had is read.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.scanning.scan import scan_engine
from pipeline.watch.entries import Entry, Patience, Polled, check_folder
from pipeline.watch.identity import name_sources
from pipeline.watch.listing import Listed, Listing, list_folder
from pipeline.watch.looking import Look, beyond_doubt, is_lines, look, unpack
from pipeline.watch.opened import Opened
from pipeline.watch.reading import Piece, Reader
from pipeline.watch.telemetry import load_telemetry
from schemas.facts import Facts, Quarantine, merge_facts
from schemas.settings import Settings
from sql.renames import source_trails
from sql.watched import SourceState, WatchedFile, WatchStep, load_watched, read_watched, source_states

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl
    from sql.store import Store

#: Files of one step, and bytes after which a step ends.
_FILES, _BYTES = 64, 64 << 20
#: Files that are held open, so that their last lines can be read when they are deleted.
_HELD = 128
#: A document that never rests, and a packed file that grows for long, is read this often. Seconds.
_IMPATIENT_S = 60.0


class Watcher:
    """Watches one folder for one cluster. Use as a context manager; one thread at a time.

    clock: seconds that only rise, for waiting. stopped: asked between two steps; True ends a poll early.
    """

    def __init__(
        self,
        folder: str | Path,
        store: Store,
        settings: Settings,
        ruleset: RulesetImpl,
        *,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = check_folder(folder)
        self._root = Path(self.folder).name
        self._store, self._settings = store, settings
        self._reader = Reader(ruleset, scan_engine(ruleset, settings), settings)
        self._patience, self._clock, self._stopped = patience or Patience(), clock, stopped
        with store.reading() as connection:
            rows = read_watched(connection, settings.cluster, self.folder)
        self._entries = {key: Entry(row, seen=(row.size, row.mtime_ns)) for key, row in rows.items()}
        self._open: OrderedDict[str, Opened] = OrderedDict()
        self._problems: dict[str, str] = {}

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the descriptors back."""
        while self._open:
            self._open.popitem()[1].close()

    def poll(self, *, hurry: bool = False) -> Polled:
        """Read what is new. hurry: wait for nothing: half lines and documents are read as they are.

        What it raises (the warehouse is away) may be tried again: the next poll reads what this one could not store.
        """
        try:
            return self._poll(hurry=hurry)
        except BaseException:
            for entry in self._entries.values():
                entry.seen = (entry.row.size, entry.row.mtime_ns) if entry.row is not None else (-1, -1)
            raise

    def _poll(self, *, hurry: bool) -> Polled:
        listing = list_folder(self.folder)
        done = Polled(files=len(listing.files))
        now = self._clock()
        self._parting(listing, done)
        ready = [listed for listed in listing.files.values() if self._ready(listed, now, hurry=hurry)]
        ready.sort(key=lambda f: (f.mtime_ns, f.shown))
        problems = dict(listing.problems)
        for chunk in self._chunks(ready):
            if self._stopped():
                done.busy = True
                break
            self._together(chunk, listing, problems, done, now, hurry=hurry)
        self._forget(listing, problems, ready, done)
        return done

    # -- which files

    def _ready(self, listed: Listed, now: float, *, hurry: bool) -> bool:
        entry = self._entries.setdefault(listed.key, Entry())
        if entry.seen != listed.signature:
            entry.seen, entry.since = listed.signature, now
            entry.changed = now if entry.changed is None else entry.changed
            return True
        waits = entry.due is not None
        return waits and (hurry or now >= (entry.due or 0.0))

    def _chunks(self, ready: Iterable[Listed]) -> Iterator[list[Listed]]:
        chunk: list[Listed] = []
        weight = 0
        for listed in ready:
            row = self._entries[listed.key].row
            chunk.append(listed)
            weight += max(0, listed.size - (row.position if row is not None else 0))
            if len(chunk) >= _FILES or weight >= _BYTES:
                yield chunk
                chunk, weight = [], 0
        if chunk:
            yield chunk

    def _parting(self, listing: Listing, done: Polled) -> None:
        """Read what deleted files still had, as long as they are held open."""
        if not listing.whole:
            return
        parted = []
        for key in [k for k in self._open if k not in listing.files]:
            opened, entry = self._open[key], self._entries.get(key)
            size, mtime_ns = opened.signature
            if entry is None or entry.row is None or (size, mtime_ns) == (entry.row.size, entry.row.mtime_ns):
                continue
            parted.append(Listed(key, str(opened.path), entry.row.path, size, mtime_ns))
        problems: dict[str, str] = {}
        for chunk in self._chunks(parted):
            while self._together(chunk, listing, problems, done, self._clock(), hurry=True):
                pass

    # -- one step

    def _opened(self, listed: Listed) -> Opened:
        held = self._open.get(listed.key)
        if held is not None:
            self._open.move_to_end(listed.key)
            return held
        return Opened(listed.path, listed.key)

    def _together(
        self, chunk: list[Listed], listing: Listing, problems: dict[str, str], done: Polled, now: float, *, hurry: bool
    ) -> bool:
        """Looks at these files and reads them; those that are one source, one after the other. True: more is left."""
        looks: list[Look] = []
        more = False
        try:
            for listed in chunk:
                found = self._look(listed, problems)
                if found is not None:
                    looks.append(found)
            waiting = [item for item in looks if not self._waits(item, now, hurry=hurry)]
            while waiting:
                waiting, left = self._step(waiting, listing, done, now, hurry=hurry)
                more = more or left
        finally:
            for item in looks:
                self._keep(item)
        done.busy = done.busy or more
        return more

    def _look(self, listed: Listed, problems: dict[str, str]) -> Look | None:
        entry = self._entries[listed.key]
        try:
            opened = self._opened(listed)
        except FileNotFoundError:
            entry.seen = (-1, -1)  # another file by now: the next poll tells
            return None
        except OSError as err:
            problems[listed.shown] = f"cannot open: {err.strerror}"
            entry.seen, entry.due = (-1, -1), None
            return None
        self._open[listed.key] = opened
        return look(listed, opened, entry.row, entry.source, self._root, self._settings)

    def _waits(self, item: Look, now: float, *, hurry: bool) -> bool:
        """Whether the time to read this file has not come; then it is looked at again when it has."""
        entry = self._entries[item.listed.key]
        if item.size == 0:
            entry.row, entry.due, entry.changed = None, None, None
            return True
        if hurry or (item.tailed and not self._first_line_cut(item)):
            return False
        long = entry.changed is not None and now - entry.changed >= _IMPATIENT_S
        quiet = now - entry.since >= (self._patience.line_s if item.tailed else self._patience.document_s)
        if quiet or (long and not item.tailed):
            return False
        entry.due = entry.since + (self._patience.line_s if item.tailed else self._patience.document_s)
        if not item.tailed and entry.changed is not None:
            entry.due = min(entry.due, entry.changed + _IMPATIENT_S)
        return True

    @staticmethod
    def _first_line_cut(item: Look) -> bool:
        """A source is named by its first line, which is still being written."""
        return item.row is None and item.size < 4096 and b"\n" not in item.opened.read(0, item.size)

    def _step(
        self, looks: list[Look], listing: Listing, done: Polled, now: float, *, hurry: bool
    ) -> tuple[list[Look], bool]:
        """Read and write one look a source; returns the looks that are left, and whether some file has more."""
        cluster = self._settings.cluster
        for item in looks:
            if item.row is not None:
                item.row = self._entries[item.listed.key].row  # a step before may have given its source another id
            unpack(item, self._settings)
        shared = Counter(e.row.source_id for e in self._entries.values() if e.row is not None)
        before = self._replaced(looks, listing, shared)
        bases = {held.source.base for item in looks for held in item.held}
        with self._store.reading() as connection:
            known = source_trails(connection, cluster, bases)
            ids = {sid for of in known.values() for sid in of} | set(before.values())
            ids |= {item.row.source_id for item in looks if item.row is not None}
            states = source_states(connection, cluster, ids)
        self._doubt(looks, states)
        moves = name_sources(looks, known, states, before, shared)
        for old, new in moves.items():
            if old in states:
                states.setdefault(new, states[old])
        mine: set[str] = set()
        pieces: list[Piece] = []
        left: list[Look] = []
        for at, item in enumerate(looks):
            own = {held.source.source_id for held in item.held}
            if own & mine:
                left.append(item)
                continue
            mine |= own
            piece = self._read(item, states, now, hurry=hurry, replaces=at in before)
            if piece is None:
                self._entries[item.listed.key].seen = (-1, -1)
                continue
            pieces.append(piece)
        self._write(pieces, moves, done)
        return left, any(self._settle(piece, now) for piece in pieces)

    def _doubt(self, looks: list[Look], states: dict[str, SourceState]) -> None:
        """Files whose source another program has renamed or removed are named anew."""
        for item in looks:
            if item.row is not None and item.tailed and item.held[0].trail is None and item.row.source_id not in states:
                item.held[0].trail = item.opened.trail(item.size)

    def _replaced(self, looks: list[Look], listing: Listing, shared: Counter[str]) -> dict[int, str]:
        """Position of a document that was written anew at its path -> the id of the source before it."""
        at_path: dict[str, list[str]] = {}
        for key, entry in self._entries.items():
            if entry.row is not None and entry.row.source_id:
                at_path.setdefault(entry.row.path, []).append(key)
        out = {}
        for at, item in enumerate(looks):
            if not item.document or item.row is not None:
                continue
            for key in at_path.get(item.listed.shown, ()):
                row = self._entries[key].row
                replaced = key == item.listed.key or key not in listing.files
                if replaced and row is not None and shared[row.source_id] <= 1 and not is_lines(self._format_of(row)):
                    out[at] = row.source_id
        return out

    def _format_of(self, row: WatchedFile) -> str:
        with self._store.reading() as connection:
            state = source_states(connection, self._settings.cluster, [row.source_id]).get(row.source_id)
        return state.format if state is not None else ""

    def _read(
        self, item: Look, states: dict[str, SourceState], now: float, *, hurry: bool, replaces: bool
    ) -> Piece | None:
        entry = self._entries[item.listed.key]
        if item.tailed:
            torn = hurry or now - entry.since >= self._patience.line_s
            return self._reader.read_lines(item, states.get(item.held[0].source.source_id), torn=torn)
        stable = hurry or now - entry.since >= self._patience.document_s
        return self._reader.read_whole(item, states, stable=stable, replaces=replaces)

    def _write(self, pieces: list[Piece], moves: dict[str, str], done: Polled) -> None:
        if not pieces and not moves:
            return
        store, cluster = self._store, self._settings.cluster
        for piece in pieces:
            row = piece.row
            source_id = moves.get(row.source_id, row.source_id)
            unread = (-1, 0) if piece.rest != "none" else (row.size, row.mtime_ns)
            piece.row = replace(row, source_id=source_id, size=unread[0], mtime_ns=unread[1])
        facts = merge_facts(piece.facts for piece in pieces)
        load_telemetry(store, self._settings, facts)
        step = WatchStep(
            facts=facts,
            moves=moves,
            anew=set().union(*(piece.anew for piece in pieces)),
            renewed=set().union(*(piece.renewed for piece in pieces)),
            requarantined=set().union(*(piece.requarantined for piece in pieces)),
            cells={sid: cell for piece in pieces for sid, cell in piece.cells.items()},
            rows=[piece.row for piece in pieces],
        )
        with store.writing(cluster if moves else None) as connection:
            touched = load_watched(connection, cluster, self.folder, step, store.now_us())
        if moves:
            for entry in self._entries.values():
                if entry.row is not None and entry.row.source_id in moves:
                    entry.row = replace(entry.row, source_id=moves[entry.row.source_id])
        done.touched |= touched.source_ids
        done.signals += len(facts.signals)
        done.quarantined += len(facts.quarantine)

    def _settle(self, piece: Piece, now: float) -> bool:
        """Note what was read; True where more of the file is to be read at once."""
        entry = self._entries[piece.look.listed.key]
        old = entry.row.position if entry.row is not None and piece.look.row is not None else 0
        entry.row, entry.due = piece.row, None
        entry.source = beyond_doubt(piece.look, piece.row.position)
        if piece.rest == "none":
            entry.changed = None
        elif piece.rest == "line":
            entry.due, entry.changed = entry.since + self._patience.line_s, None
        elif piece.look.tailed:
            entry.due = now
        else:
            entry.due, entry.changed = entry.since + self._patience.document_s, now
        return piece.rest == "more" and piece.look.tailed and piece.row.position > old

    def _keep(self, item: Look) -> None:
        """Hold a growing file open; close others, and those that were not read for long."""
        key = item.listed.key
        if not item.tailed and (opened := self._open.pop(key, None)) is not None:
            opened.close()
        while len(self._open) > _HELD + _FILES:
            self._open.popitem(last=False)[1].close()

    # -- after the steps

    def _gone(self, listing: Listing) -> list[str]:
        """Files that are no more; not those in whose place stands one that waits to be read and may replace them."""
        waiting = {f.shown for key, f in listing.files.items() if f.size and self._entries[key].row is None}
        return [
            key
            for key, entry in self._entries.items()
            if key not in listing.files and not (entry.row is not None and entry.row.path in waiting)
        ]

    def _forget(self, listing: Listing, problems: dict[str, str], ready: list[Listed], done: Polled) -> None:
        """Forget files that are gone; tell what cannot be read, once, and take that back when it can."""
        gone = self._gone(listing) if listing.whole else []
        for key in gone:
            del self._entries[key]
            if (opened := self._open.pop(key, None)) is not None:
                opened.close()
        done.read = len(ready)
        new = {path: why for path, why in problems.items() if self._problems.get(path) != why}
        over = {path for path in self._problems if problems.get(path) != self._problems[path]}
        if gone or new or over:
            told = tuple(Quarantine(path, "", 0, 0, why) for path, why in sorted(new.items()))
            step = WatchStep(facts=Facts(quarantine=told), readable=over, gone=gone)
            with self._store.writing() as connection:
                load_watched(connection, self._settings.cluster, self.folder, step, self._store.now_us())
            done.quarantined += len(told)
        self._problems = problems
