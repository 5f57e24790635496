"""Which sources looked-at files are, beside those that the warehouse holds: the rules of `pipeline.sources.split`.

Two things are added, which only who watches can know: a file whose first line was cut when it was first read stays one
source, and a document that was written anew at its path replaces the one before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.watch.looking import Held, Look
from schemas.trail import assign
from sql.watched import SourceState

Known = Mapping[str, Mapping[str, str]]


def name_sources(
    looks: Sequence[Look],
    known: Known,
    states: Mapping[str, SourceState],
    before: Mapping[int, str],
    shared: Mapping[str, int],
) -> dict[str, str]:
    """Give the sources of these looks their ids, in place; returns the stored ids that change, old -> new.

    known: base -> id -> trail, as stored. states: of stored sources that the looks may be. before: position of a look
    that holds a document written anew -> the id of the one that it replaces. shared: source id -> number of watched
    files that are read as it.
    """
    moves: dict[str, str] = {}
    replaced = frozenset(before.values())
    groups: dict[str, list[Held]] = defaultdict(list)
    for item in looks:
        for held in item.held:
            if held.trail is not None:
                groups[held.source.base].append(held)
            elif item.row is not None:
                held.source = replace(held.source, source_id=item.row.source_id)
    for base, group in groups.items():
        stored = {sid: trail for sid, trail in known.get(base, {}).items() if sid not in replaced}
        ids = assign(base, [*(held.trail or "" for held in group), *stored.values()])
        for held in group:
            held.source = replace(held.source, source_id=ids[held.trail or ""])
        moves.update({old: ids[trail] for old, trail in stored.items() if ids[trail] != old})
    for at, item in enumerate(looks):
        old = before.get(at, "")
        if not old and item.row is not None and item.row.source_id and len(item.held) == 1:
            state = states.get(item.row.source_id)
            grown = state is not None and state.base not in ("", item.held[0].source.base)
            old = item.row.source_id if grown and shared.get(item.row.source_id, 0) <= 1 else ""
        new = item.held[0].source.source_id if item.held else ""
        if old and new and old != new and old not in moves:
            moves[old] = new
    for item in looks:
        for held in item.held:
            if held.trail is None:
                held.source = replace(held.source, source_id=moves.get(held.source.source_id, held.source.source_id))
    return moves
