"""Two files never share an id: what happens where the id of path and first line is not enough.

`schemas.identity.source_id` names a file by its path inside the root and its first line (`Source.base`), so that it
keeps its id while it grows. Logs of two ranks or two attempts may agree in both. Files of one base are told apart by
their trails (`schemas.trail`), together with the trails of what a warehouse already holds: the rule looks at contents
only. Neither the order of the paths, nor their names outside the root, nor the order of loads matters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.sources.model import Source, SourceError
from pipeline.sources.streams import FileStream, Stream, open_source, read_exactly
from schemas.settings import Settings
from schemas.trail import REACH, assign, trail

#: Base -> id -> trail of the sources that a warehouse holds.
Known = Mapping[str, Mapping[str, str]]


def split_ids(sources: Sequence[Source], settings: Settings, known: Known | None = None) -> list[Source]:
    """The sources with ids of their own for those that share one although their contents differ."""
    return settle(sources, known or {}, settings)[0]


def settle(sources: Sequence[Source], known: Known, settings: Settings) -> tuple[list[Source], dict[str, str]]:
    """The sources with the ids that they have beside what is known, and the known ids that change: old -> new."""
    groups: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        groups[source.base or source.source_id].append(source)
    out: list[Source] = []
    moves: dict[str, str] = {}
    for base, group in groups.items():
        stored = known.get(base, {})
        if len(group) == 1 and not stored:
            out.extend(group)
            continue
        trails = [_trail(source, settings) for source in group]
        ids = assign(base, [*trails, *stored.values()])
        out.extend(replace(source, source_id=ids[mine]) for source, mine in zip(group, trails, strict=True))
        moves.update({old: ids[had] for old, had in stored.items() if ids[had] != old})
    return out, moves


def _trail(source: Source, settings: Settings) -> str:
    try:
        stream = open_source(source, settings.max_inflated_bytes, settings.max_ratio)
    except SourceError:
        return ""
    try:
        return trail(read_exactly(stream, REACH))
    finally:
        stream.close()


class Heard:
    """A forward stream that keeps its first `REACH` bytes."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._head = stream, bytearray()

    @property
    def pos(self) -> int:
        return self._stream.pos

    @pos.setter
    def pos(self, value: int) -> None:
        self._stream.pos = value

    @property
    def damage(self) -> str | None:
        return self._stream.damage

    @property
    def trail(self) -> str:
        """The trail of what was read."""
        return trail(bytes(self._head))

    def readinto(self, into: memoryview) -> int:
        n = self._stream.readinto(into)
        if len(self._head) < REACH:
            self._head += into[: min(n, REACH - len(self._head))]
        return n

    def close(self) -> None:
        self._stream.close()


def file_trail(stream: FileStream) -> str:
    """The trail of a file; the stream stays where it is."""
    head = bytearray(min(REACH, stream.length))
    n = stream.read_at(0, memoryview(head))
    return trail(bytes(head[:n]))
