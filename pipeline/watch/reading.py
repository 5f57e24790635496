"""Scanning what is new in a looked-at file, so that the facts together are those of one scan of the whole file.

Lines are read again from a cell border before the place where reading ended (`Opened.resume_at`): counts merge by cell,
and what depends on where a source ends is told anew. A last line without its end waits, and is read as a torn one where
it does not go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pipeline.scanning.scan import scan_range, scan_source
from pipeline.sources import Range, close_kept
from pipeline.watch.looking import Look
from schemas.facts import CELL, Facts, merge_facts
from schemas.settings import Settings
from sql.watched import SourceState, WatchedFile

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl
    from classifiers.matching.engines import BlockEngine


@dataclass(slots=True)
class Piece:
    """What one look gave. row: what to remember of the file. rest: `none`, `line` (a last line that is still being
    written), `more` (bytes that are read in the next step)."""

    look: Look
    row: WatchedFile
    facts: Facts = field(default_factory=Facts)
    rest: str = "none"
    cells: dict[str, int] = field(default_factory=dict)
    anew: set[str] = field(default_factory=set)
    renewed: set[str] = field(default_factory=set)
    requarantined: set[str] = field(default_factory=set)


class Reader:
    """Reads pieces of files. Not shared between threads."""

    def __init__(self, ruleset: RulesetImpl, engine: BlockEngine, settings: Settings) -> None:
        self._ruleset, self._engine, self._settings = ruleset, engine, settings
        self._most = max(CELL, settings.range_bytes // CELL * CELL)

    def read_lines(self, look: Look, state: SourceState | None, *, torn: bool) -> Piece | None:
        """New lines of a plain file. torn: read a last line that has no end as well. None where the file changed in
        another way than by growth while it was read: look at it again.
        """
        held, row = look.held[0], look.row
        source, opened = held.source, look.opened
        start = at = 0
        piece_anew: set[str] = set()
        if state is not None and state.format != source.format:
            if state.end > look.size:  # the begin of a longer file, which tells the format better
                return self._done(look, look.size, 0)
            piece_anew.add(source.source_id)
        elif state is not None:
            at = state.end
            here = row is not None and row.position == at and row.source_id == source.source_id
            start = row.resume_at if here and row is not None else state.resume_at
        end = look.size if torn else opened.whole_lines(min(at, look.size), look.size)
        if end <= at:
            piece = self._done(look, min(at, look.size), start)
            piece.rest = "line" if look.size > at else "none"
            return piece
        rest = "line" if end < look.size else "none"
        resume = opened.resume_at(end)
        borders = [start, end]
        if end - start > self._most + 4 * CELL:
            cut = start + self._most
            borders, resume, rest = [start, cut], cut, "more"
        elif start < resume < end:
            borders = [start, resume, end]
        else:
            resume = start
        position = borders[-1]
        mark = opened.mark(position)
        whole = replace(source, size=end)
        parts = [
            scan_range(Range(whole, low, high), self._ruleset, self._engine, self._settings)
            for low, high in pairwise(borders)
        ]
        if opened.signature[0] < end or opened.mark(position) != mark:
            return None
        facts = merge_facts(parts)
        if held.trail is not None:
            facts = replace(
                facts,
                sources=tuple(
                    replace(s, base=source.base, trail=held.trail) if s.source_id == source.source_id else s
                    for s in facts.sources
                ),
            )
        piece = self._done(look, position, resume, mark)
        piece.facts, piece.rest, piece.anew = facts, rest, piece_anew
        piece.cells = {source.source_id: start // CELL + 1 if start else 0}
        return piece

    def read_whole(
        self, look: Look, states: Mapping[str, SourceState], *, stable: bool, replaces: bool
    ) -> Piece | None:
        """A document, or a packed file. stable: it is not being written. replaces: it was written anew.

        What is packed and was read before is not scanned again.
        """
        before = look.opened.signature
        piece = self._done(look, look.size, 0)
        parts = [Facts(quarantine=tuple(look.failed))]
        for held in look.held:
            source = held.source
            state = states.get(source.source_id)
            same = state is not None and state.format == (source.format or "unknown")
            known = state is not None and same and state.end >= held.size
            if known and (held.lines or (look.row is None and not replaces)):
                continue
            if state is not None and not same and state.end > held.size:
                continue
            if state is not None and not same and (look.document or held.lines):
                piece.anew.add(source.source_id)
            elif look.document:
                piece.renewed.add(source.source_id)
            else:
                piece.requarantined.add(source.source_id)
                if held.lines:
                    piece.cells[source.source_id] = 0
            facts = scan_source(source, self._ruleset, self._engine, self._settings)
            if look.document and held.trail is not None:
                facts = replace(
                    facts,
                    sources=tuple(
                        replace(s, base=source.base, trail=held.trail) if s.source_id == source.source_id else s
                        for s in facts.sources
                    ),
                )
            parts.append(facts)
        close_kept()
        if look.opened.signature != before:
            return None
        facts = merge_facts(parts)
        piece.facts = facts if stable else replace(facts, quarantine=())
        piece.rest = "none" if stable else "more"
        return piece

    def _done(self, look: Look, position: int, resume: int, mark: str | None = None) -> Piece:
        single = look.held[0].source.source_id if len(look.held) == 1 else ""
        path = look.row.path if look.row is not None else look.listed.shown
        row = WatchedFile(
            look.listed.key,
            path,
            single,
            position,
            resume,
            look.opened.mark(position) if mark is None else mark,
            look.size,
            look.mtime_ns,
        )
        return Piece(look, row)
