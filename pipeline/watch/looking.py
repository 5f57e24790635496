"""A look at one changed file: what it holds now, and whether it still holds what was read before."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.formats.base import HEAD, LineFormat, registry
from pipeline.sources import Found, Source, SourceError, inputs_of, open_source
from pipeline.watch.listing import Listed
from pipeline.watch.opened import Opened
from schemas.facts import Quarantine
from schemas.settings import Settings
from schemas.trail import REACH, trail
from sql.watched import WatchedFile


@dataclass(slots=True)
class Held:
    """A source in a looked-at file. trail: None where its id is beyond doubt. size: decompressed bytes."""

    source: Source
    trail: str | None
    size: int

    @property
    def lines(self) -> bool:
        return is_lines(self.source.format)


@dataclass(slots=True)
class Look:
    """row: how far the file was read, None where it is new or holds something else now."""

    listed: Listed
    opened: Opened
    size: int
    mtime_ns: int
    row: WatchedFile | None
    held: list[Held]
    failed: list[Quarantine]

    @property
    def tailed(self) -> bool:
        """A plain file of lines, which is read as it grows. All else is read as a whole."""
        return len(self.held) == 1 and not self.failed and not self.held[0].source.chain and self.held[0].lines

    @property
    def document(self) -> bool:
        """A plain file that is one record or is not understood: what is read replaces what was read."""
        return len(self.held) == 1 and not self.failed and not self.held[0].source.chain and not self.held[0].lines


def beyond_doubt(look: Look, position: int) -> Source | None:
    """The source of a file that is read as it grows, once the bytes that tell its format and name have been read."""
    return look.held[0].source if look.tailed and position >= HEAD else None


def is_lines(name: str) -> bool:
    """Whether this format is read line by line."""
    return isinstance(registry().get(name), LineFormat)


def look(
    listed: Listed, opened: Opened, row: WatchedFile | None, known: Source | None, root: str, settings: Settings
) -> Look:
    """Look at an open file. Compressed content is not unpacked for it beyond its first bytes.

    known: the source as which it was read, where its format is beyond doubt as long as it holds what it held.
    """
    size, mtime_ns = opened.signature
    if row is not None and (not row.position or size < row.position or opened.mark(row.position) != row.mark):
        row = None
    shown = row.path if row is not None else listed.shown
    found: list[Found] = []
    if row is not None and known is not None:
        found = [replace(known, path=str(opened.path), mtime_us=mtime_ns // 1000)]
    elif size:
        found = inputs_of(opened.path, shown, root, mtime_ns // 1000, settings)
    held = [
        Held(replace(f, stored=size, size=size if not f.chain else f.size), None, size if not f.chain else -1)
        for f in found
        if isinstance(f, Source)
    ]
    failed = [f for f in found if isinstance(f, Quarantine)]
    out = Look(listed, opened, size, mtime_ns, row, held, failed)
    if len(held) == 1 and not held[0].source.chain and not (out.tailed and row is not None and row.position >= REACH):
        held[0].trail = opened.trail(size)
    return out


def unpack(look: Look, settings: Settings) -> None:
    """Find the trails and sizes of what a file holds packed, by one pass over it."""
    buffer = memoryview(bytearray(1 << 18))
    for held in look.held:
        if not held.source.chain:
            continue
        try:
            stream = open_source(held.source, settings.max_inflated_bytes, settings.max_ratio)
        except SourceError:
            held.trail, held.size = "", 0
            continue
        head, total = bytearray(), 0
        try:
            while n := stream.readinto(buffer):
                if len(head) < REACH:
                    head += buffer[: min(n, REACH - len(head))]
                total += n
        finally:
            stream.close()
        held.trail, held.size = trail(bytes(head)), total
