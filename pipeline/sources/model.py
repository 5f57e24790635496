"""What an input is: where its bytes lie, how another process opens it again, and how it is cut into ranges."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import PipelineError
from pipeline.formats.base import SourceInfo, registry
from schemas.facts import CELL, Quarantine
from schemas.identity import digest
from schemas.settings import Settings


class SourceError(PipelineError):
    """An input cannot be opened at all; the message names the path and the reason."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of the stream before it: an archive's member. Bytes of that stream."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Codec:
    """A decompression of the stream before it: gzip, zstd, xz, bz2 or deflate."""

    name: str


Step = Slice | Codec


@dataclass(frozen=True, slots=True)
class Source:
    """One input file or archive member. Picklable; everything that is needed to read it elsewhere.

    path: absolute path of the file on disk. chain: steps from that file's bytes to the member's. inner_path: path
    inside the root for people, archives as `a.tar.gz!member`. identity: the same without names of archives, rotation
    kept. format: name of the format that claimed it, "" where none did. size: decompressed bytes if known without
    reading. stored: bytes on disk. mtime_us: modification time, microseconds since 1970 UTC. base: id of path and first
    line alone.
    """

    source_id: str
    path: str
    chain: tuple[Step, ...]
    inner_path: str
    identity: str
    root: str
    format: str
    size: int | None
    stored: int
    mtime_us: int | None
    base: str = ""

    @property
    def compressed(self) -> bool:
        return any(isinstance(step, Codec) for step in self.chain)

    def info(self) -> SourceInfo:
        return SourceInfo(self.source_id, self.inner_path, self.root, self.size, self.mtime_us)

    def quarantine(self, offset: int, length: int, reason: str) -> Quarantine:
        return Quarantine(self.inner_path, self.source_id, offset, length, reason)


@dataclass(frozen=True, slots=True)
class Range:
    """The lines of a source that begin in [start, end). end is None for "to the end" of a source of unknown size."""

    source: Source
    start: int
    end: int | None

    @property
    def range_id(self) -> str:
        """Names the range among the ranges of one call."""
        src = self.source
        return digest("range", src.source_id, src.root, src.inner_path, self.start, self.end)


def ranges(source: Source, settings: Settings) -> list[Range]:
    """The ranges of a source: plain files of lines are cut every `settings.range_bytes` (whole cells).

    Packed members, record formats and unknown content are one range.
    """
    if source.compressed or source.size is None or not hasattr(registry().get(source.format), "frame"):
        return [Range(source, 0, None)]
    step = max(CELL, settings.range_bytes // CELL * CELL)
    starts = range(0, max(source.size, 1), step)
    return [Range(source, start, min(start + step, source.size)) for start in starts]
