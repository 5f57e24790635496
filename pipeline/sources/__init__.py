"""Where the bytes come from: discovery, archives, decompression, ranges, identity of inputs."""

from __future__ import annotations

from pipeline.sources.model import Codec, Range, Slice, Source, SourceError, ranges
from pipeline.sources.streams import FileStream, Stream, close_kept, open_source, read_exactly
from pipeline.sources.walk import Found, discover, inputs_of

__all__ = [
    "Codec",
    "FileStream",
    "Found",
    "Range",
    "Slice",
    "Source",
    "SourceError",
    "Stream",
    "close_kept",
    "discover",
    "inputs_of",
    "open_source",
    "ranges",
    "read_exactly",
]
