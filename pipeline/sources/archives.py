"""Members of tar and zip archives, listed in one forward pass without unpacking anything to disk.

Names never become paths on disk; they are cleaned (no root, no `..`) because they are part of a source's identity.
"""

from __future__ import annotations

import io
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, cast

from pipeline.errors import PipelineError
from pipeline.sources.model import Codec, Slice, Step
from pipeline.sources.streams import FileStream, Stream, read_exactly

#: A zip inside another stream is held in memory up to this, then in a temporary file.
_SPOOL = 64 << 20
_ZIP_CODECS = {zipfile.ZIP_STORED: None, zipfile.ZIP_DEFLATED: "deflate", zipfile.ZIP_BZIP2: "bz2", 93: "zstd"}
_LOCAL = struct.Struct("<4s5H3I2H")


@dataclass(frozen=True, slots=True)
class Member:
    """One file of an archive. steps: from the archive's bytes to the member's. skipped: why it is not read, or None.

    size: unpacked bytes. body: a reader of the member's packed bytes, valid until the next member is asked for; None
    where the caller must open the chain itself.
    """

    name: str
    steps: tuple[Step, ...]
    size: int
    mtime_us: int | None
    skipped: str | None = None
    body: IO[bytes] | None = None


class ArchiveError(PipelineError):
    """An archive's own structure is broken from here on; what was listed before stands."""


def is_tar(head: bytes) -> bool:
    """Whether a stream begins with a tar header (its checksum is right; old tars have no magic)."""
    if len(head) < tarfile.BLOCKSIZE:
        return False
    block = head[: tarfile.BLOCKSIZE]
    if block.count(b"\0") == tarfile.BLOCKSIZE:
        return False
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def is_zip(head: bytes) -> bool:
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def safe_name(name: str) -> str:
    """A member's name as a relative path: no root, no drive, no `.` or `..` parts, no control characters."""
    parts = [p for p in name.replace("\\", "/").split("/") if p not in ("", ".", "..")]
    cleaned = "/".join(parts).encode("utf-8", "replace").decode()
    return "".join(ch if ch.isprintable() else "?" for ch in cleaned) or "unnamed"


class _Raw(io.RawIOBase):
    """A stream as a Python file, for the standard library's readers."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, into: object) -> int:
        return self._stream.readinto(memoryview(into).cast("B"))  # type: ignore[arg-type]

    def seekable(self) -> bool:
        return isinstance(self._stream, FileStream)

    def tell(self) -> int:
        return self._stream.pos

    def seek(self, offset: int, whence: int = 0) -> int:
        if not isinstance(self._stream, FileStream):
            raise io.UnsupportedOperation("seek")
        base = {0: 0, 1: self._stream.pos, 2: self._stream.length}[whence]
        self._stream.pos = max(0, base + offset)
        return self._stream.pos


class FileBody:
    """A Python file as a stream (see `Stream`), for members that are read while their archive is listed."""

    def __init__(self, body: IO[bytes]) -> None:
        self._body = body
        self.pos = 0
        self.damage: str | None = None

    def readinto(self, into: memoryview) -> int:
        try:
            data = self._body.read(len(into))
        except (tarfile.TarError, OSError, EOFError) as err:
            self.damage = str(err)
            return 0
        into[: len(data)] = data
        self.pos += len(data)
        return len(data)

    def close(self) -> None:
        self._body.close()


def tar_members(stream: Stream) -> Iterator[Member]:
    """Regular files of a tar, in its order. Raises ArchiveError where the tar ends early or its headers break."""
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", _Raw(stream)), mode="r|", bufsize=1 << 18) as tar:
            for info in tar:
                if not info.isfile():
                    continue
                skipped = "sparse tar member" if info.issparse() else None
                yield Member(
                    safe_name(info.name),
                    (Slice(info.offset_data, info.size),),
                    info.size,
                    int(info.mtime * 1_000_000) if info.mtime else None,
                    skipped,
                    None if skipped else tar.extractfile(info),
                )
                vars(tar)["members"].clear()  # else a tar of a million files is held as a million headers
    except (tarfile.TarError, OSError, EOFError, ValueError) as err:
        raise ArchiveError(f"tar broken after {stream.pos} bytes: {stream.damage or err}") from err
    if stream.damage:
        raise ArchiveError(f"tar broken after {stream.pos} bytes: {stream.damage}")


def zip_members(stream: Stream) -> Iterator[Member]:
    """Files of a zip, in order of name. Raises ArchiveError where its directory cannot be read."""
    spool: IO[bytes] | None = None
    if isinstance(stream, FileStream):
        file: IO[bytes] = cast("IO[bytes]", io.BufferedReader(_Raw(stream)))
    else:
        file = spool = cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=_SPOOL))  # noqa: SIM115 - closed below
        while block := read_exactly(stream, 1 << 20):
            spool.write(block)
    try:
        try:
            listed = _directory(file)
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as err:
            yield from _walk_headers(file)
            raise ArchiveError(f"zip without a readable directory: {err}") from err
        yield from listed
    finally:
        if spool is not None:
            spool.close()


def _directory(file: IO[bytes]) -> list[Member]:
    out = []
    with zipfile.ZipFile(file) as archive:
        for info in sorted(archive.infolist(), key=lambda i: (i.filename, i.header_offset)):
            if info.is_dir():
                continue
            file.seek(info.header_offset)
            head = file.read(_LOCAL.size)
            if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
                out.append(Member(safe_name(info.filename), (), info.file_size, None, "zip member without a header"))
                continue
            *_, name_len, extra_len = _LOCAL.unpack(head)
            begin = info.header_offset + _LOCAL.size + name_len + extra_len
            out.append(
                _zip_member(
                    info.filename, info.compress_type, info.flag_bits, begin, info.compress_size, info.file_size,
                    info.date_time,
                )
            )  # fmt: skip
    return out


def _zip_member(
    name: str, method: int, flags: int, begin: int, packed: int, size: int, date: tuple[int, ...]
) -> Member:
    skipped = None
    if flags & 1:
        skipped = "encrypted zip member"
    elif method not in _ZIP_CODECS:
        skipped = f"zip compression method {method}"
    codec = _ZIP_CODECS.get(method)
    steps: tuple[Step, ...] = (Slice(begin, packed),) if codec is None else (Slice(begin, packed), Codec(codec))
    try:
        stamp: int | None = int(datetime(*date[:6], tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[arg-type, misc]
    except ValueError:
        stamp = None
    return Member(safe_name(name), steps, size, stamp, skipped)


def _walk_headers(file: IO[bytes]) -> Iterator[Member]:
    """Members of a zip that lost its directory (cut in transfer), by their local headers as far as sizes are known."""
    at = 0
    while True:
        file.seek(at)
        head = file.read(_LOCAL.size)
        if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
            return
        _, _, flags, method, _, _, _, packed, size, name_len, extra_len = _LOCAL.unpack(head)
        name = file.read(name_len).decode("utf-8" if flags & 0x800 else "cp437", "replace")
        begin = at + _LOCAL.size + name_len + extra_len
        unsized = bool(flags & 8) and not packed
        if unsized:  # sizes follow the data: only the last readable member can be taken, to the end of what is there
            packed = size = file.seek(0, 2) - begin
        if not name.endswith("/"):
            yield _zip_member(name, method, flags, begin, packed, size, (1980, 1, 1, 0, 0, 0))
        if unsized:
            return
        at = begin + packed
