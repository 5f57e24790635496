"""Decoders of single compressed streams, behind one small interface, told by magic bytes.

A decoder is fed bytes and gives bytes; chained gzip members and zstd, xz and bz2 frames are handled above it
(`pipeline.sources.streams.Inflated`), which starts a new decoder where one ends.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable
from typing import Any, Protocol, cast

#: (magic, codec): how a compressed stream begins.
MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bz2"),
)
#: Compressed streams that are told apart from junk, but not read.
UNREAD: tuple[tuple[bytes, str], ...] = (
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x1f\x9d", "compress (.Z)"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
)
#: Most bytes that one call of a decoder gives, where the library lets it be bounded.
OUT = 1 << 20
#: An xz stream that wants more memory than this is refused.
_XZ_MEMORY = 256 << 20


def magic(head: bytes) -> str | None:
    """Codec of a stream that begins with `head`, None if it is not compressed."""
    for sign, name in MAGIC:
        if head.startswith(sign) and (name != "bz2" or head[3:4].isdigit()):
            return name
    if len(head) >= 8 and 0x50 <= head[0] <= 0x5F and head[1:4] == b"\x2a\x4d\x18":
        return "zstd"  # a skippable frame first
    return None


def unread_magic(head: bytes) -> str | None:
    """Name of a compression that is known but not read."""
    return next((name for sign, name in UNREAD if head.startswith(sign)), None)


class Decoder(Protocol):
    """feed: bytes out for bytes in; with b"" gives what is left. eof: the stream's own end was seen."""

    step: int

    def feed(self, data: bytes) -> bytes: ...

    @property
    def pending(self) -> bool: ...

    @property
    def eof(self) -> bool: ...

    @property
    def unused(self) -> bytes: ...


class _ZlibLike:
    step = 1 << 16

    def __init__(self, obj: Any) -> None:  # noqa: ANN401 - zlib's and isal's objects share no type
        self._obj = obj

    def feed(self, data: bytes) -> bytes:
        tail = self._obj.unconsumed_tail
        out: bytes = self._obj.decompress(tail + data if tail else data, OUT)
        return out

    @property
    def pending(self) -> bool:
        return bool(self._obj.unconsumed_tail)

    @property
    def eof(self) -> bool:
        return bool(self._obj.eof)

    @property
    def unused(self) -> bytes:
        return bytes(self._obj.unused_data)


class _LzmaLike:
    step = 1 << 16

    def __init__(self, obj: lzma.LZMADecompressor | bz2.BZ2Decompressor) -> None:
        self._obj = obj

    def feed(self, data: bytes) -> bytes:
        return self._obj.decompress(data, OUT)

    @property
    def pending(self) -> bool:
        return not self._obj.eof and not self._obj.needs_input

    @property
    def eof(self) -> bool:
        return self._obj.eof

    @property
    def unused(self) -> bytes:
        return self._obj.unused_data


class _Zstd:
    # zstandard's streaming object has no limit for its output; 4 KiB in are at most 128 MiB out, in practice 100 KiB
    step = 1 << 12
    pending = False

    def __init__(self) -> None:
        import zstandard

        self._obj = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
        self._eof = False

    def feed(self, data: bytes) -> bytes:
        out = self._obj.decompress(data)
        self._eof = self._obj.eof
        return out

    @property
    def eof(self) -> bool:
        return self._eof

    @property
    def unused(self) -> bytes:
        return self._obj.unused_data


def _zlib(bits: int) -> Decoder:
    try:
        from isal import isal_zlib as zlib
    except ImportError:
        import zlib  # type: ignore[no-redef]
    return _ZlibLike(zlib.decompressobj(bits))


_MAKERS: dict[str, Callable[[], Decoder]] = {
    "gzip": lambda: _zlib(31),
    "deflate": lambda: _zlib(-15),
    "xz": lambda: _LzmaLike(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)),
    "bz2": lambda: _LzmaLike(bz2.BZ2Decompressor()),
    "zstd": _Zstd,
}


def decoder(name: str) -> Decoder:
    """A fresh decoder. Raises KeyError for a name that is not in `MAGIC` or `deflate`."""
    return _MAKERS[name]()


def errors() -> tuple[type[Exception], ...]:
    """What the libraries raise for damaged data."""
    import zlib

    import zstandard

    kinds: list[type[Exception]] = [zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, zstandard.ZstdError]
    try:
        from isal import igzip_lib
    except ImportError:
        return tuple(kinds)
    return (*kinds, cast("type[Exception]", igzip_lib.IsalError))
