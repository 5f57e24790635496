"""Byte streams over files, slices and decoders, with one contract: `readinto` never raises for damaged data.

A stream gives all bytes that can be had; at its end `damage` says in words why there is no more, or is None. Files
and their slices can also be read at any place (`read_at`); what comes out of a decoder is forward only.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from pipeline.sources.codecs import Decoder, decoder, errors
from pipeline.sources.model import Codec, Slice, Source, SourceError, Step

#: Decompressed size from which the ratio is judged: short logs of one repeated line may be packed beyond any ratio.
_RATIO_FROM = 64 << 20
#: Streams of compressed archives that are kept open for the next member.
_KEPT = 4


class Stream(Protocol):
    """See the module. pos: bytes given so far. damage: why the stream ended early, None if it did not."""

    pos: int

    @property
    def damage(self) -> str | None: ...

    def readinto(self, into: memoryview) -> int: ...

    def close(self) -> None: ...


class FileStream:
    """A file or a slice of it. length None: to its present end."""

    def __init__(self, path: str, offset: int = 0, length: int | None = None) -> None:
        try:
            self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except (OSError, ValueError) as err:
            msg = f"cannot open {path}: {getattr(err, 'strerror', None) or err}"
            raise SourceError(msg) from err
        self.path, self._offset = path, offset
        size = os.fstat(self._fd).st_size - offset
        self.length = max(0, size) if length is None else length
        self.pos = 0
        self.damage: str | None = None

    def readinto(self, into: memoryview) -> int:
        n = self.read_at(self.pos, into)
        if n == 0 and self.pos < self.length and len(into):
            self.damage = self.damage or f"file ends {self.length - self.pos} bytes early"
        self.pos += n
        return n

    def read_at(self, offset: int, into: memoryview) -> int:
        """Bytes from `offset` of the slice, fewer only at its end or on a read error (then `damage` is set)."""
        want = max(0, min(len(into), self.length - offset))
        done = 0
        while done < want:
            try:
                n = os.preadv(self._fd, [into[done:want]], self._offset + offset + done)
            except OSError as err:
                self.damage = f"read error: {err.strerror}"
                break
            if n == 0:
                break
            done += n
        return done

    def narrowed(self, part: Slice) -> FileStream:
        """A slice of this slice; this stream stays open."""
        length = max(0, min(part.length, self.length - part.offset))
        stream = FileStream(self.path, self._offset + part.offset, length)
        if length < part.length:
            stream.damage = f"archive ends {part.length - length} bytes early"
        return stream

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def skip(stream: Stream, count: int) -> int:
    """Reads over `count` bytes; returns how many there were."""
    if isinstance(stream, FileStream):
        there = max(0, min(count, stream.length - stream.pos))
        stream.pos += there
        return there
    waste = memoryview(bytearray(min(count, 1 << 18) or 1))
    left = count
    while left:
        n = stream.readinto(waste[: min(left, len(waste))])
        if n == 0:
            break
        left -= n
    return count - left


def read_exactly(stream: Stream, count: int) -> bytes:
    """At most `count` bytes, fewer only at the end."""
    buffer = bytearray(min(count, 1 << 20))
    view, parts, left = memoryview(buffer), [], count
    while left:
        n = stream.readinto(view[: min(left, len(view))])
        if n == 0:
            break
        parts.append(bytes(view[:n]))
        left -= n
    return b"".join(parts)


class Part:
    """The next `length` bytes of a forward stream: an archive's member."""

    def __init__(self, parent: Stream, length: int, *, own: bool = True) -> None:
        self._parent, self._length, self._own = parent, length, own
        self.pos = 0
        self.damage: str | None = None

    def readinto(self, into: memoryview) -> int:
        want = min(len(into), self._length - self.pos)
        n = self._parent.readinto(into[:want]) if want else 0
        if want and not n:
            self.damage = self._parent.damage or f"archive ends {self._length - self.pos} bytes early"
        self.pos += n
        return n

    def close(self) -> None:
        if self._own:
            self._parent.close()


class Inflated:
    """What a decoder makes of a stream: all members of a chain, up to the first byte that cannot be decoded.

    reopen: gives the packed stream anew. On damage it is read a second time and the piece that failed is fed byte by
    byte, because decoders drop what a failing call had already made, and the last lines of a crash matter most.
    max_bytes, max_ratio: limits; where one is passed the stream ends with `damage`.
    """

    def __init__(
        self, parent: Stream, codec: str, reopen: Callable[[], Stream], max_bytes: int, max_ratio: float
    ) -> None:
        self._parent, self._codec, self._reopen = parent, codec, reopen
        self._max_bytes, self._max_ratio = max_bytes, max_ratio
        self._errors = errors()
        self._decoder: Decoder | None = decoder(codec)
        self._chunk = memoryview(bytearray(decoder(codec).step))
        self._rest = b""  # packed bytes behind the end of a member
        self._fed = 0  # packed bytes given to decoders before the last call
        self._step = 0  # packed bytes given with the last call
        self._out = memoryview(b"")
        self._began = False  # the present member has been fed something
        self._made = 0
        self.pos = 0
        self.damage: str | None = None

    def readinto(self, into: memoryview) -> int:
        done = 0
        while done < len(into):
            if not len(self._out) and not self._more():
                break
            n = min(len(self._out), len(into) - done)
            into[done : done + n] = self._out[:n]
            self._out = self._out[n:]
            done += n
        self.pos += done
        return done

    def _pull(self) -> bytes:
        if self._rest:
            data, self._rest = self._rest, b""
            return data
        return bytes(self._chunk[: self._parent.readinto(self._chunk)])

    def _more(self) -> bool:
        """Decodes until there are bytes; False at the end."""
        while self._decoder is not None:
            data = b"" if self._decoder.pending else self._pull()
            if not data and not self._decoder.pending:
                self._end_of_input()
                return False
            if not self._began and not data.strip(b"\0") and not self._decoder.pending:
                self._fed += len(data)  # padding between members (tapes, preallocated files)
                continue
            self._began = True
            self._fed += self._step
            self._step = len(data)
            try:
                out = self._decoder.feed(data)
            except self._errors as err:
                return self._recover(str(err) or type(err).__name__)
            if self._decoder.eof:
                self._rest = self._decoder.unused
                self._step -= len(self._rest)
                self._next_member()
            if out and self._take(out):
                return True
        return False

    def _take(self, out: bytes) -> bool:
        room = self._max_bytes - self._made
        packed = max(1, self._fed + self._step)
        self._made += len(out)
        if self._made > self._max_bytes:
            self._stop(f"larger than the limit of {self._max_bytes} bytes (FAULTBEAM_MAX_INFLATED_BYTES)")
        elif self._made > _RATIO_FROM and self._made > packed * self._max_ratio:
            self._stop(f"packed more than {self._max_ratio:g} times (FAULTBEAM_MAX_RATIO)")
        self._out = memoryview(out)[: max(0, room)]
        return bool(len(self._out))

    def _stop(self, reason: str) -> None:
        self.damage = reason
        self._decoder = None

    def _next_member(self) -> None:
        """Begins the next member of a chain, or ends at bytes that are none."""
        self._began = False
        self._decoder = decoder(self._codec)
        self._rest = self._rest.lstrip(b"\0") if self._codec != "zstd" else self._rest

    def _end_of_input(self) -> None:
        if self._began:
            self._stop(f"{self._codec} stream ends early")
        self._decoder = None
        self.damage = self.damage or self._parent.damage

    def _recover(self, reason: str) -> bool:
        """Decodes what the failing call swallowed, byte by byte, on a second reading."""
        failed_at, self._decoder = self._fed, None
        self.damage = f"{self._codec} stream damaged after {failed_at} packed bytes: {reason}"
        lost = _swallowed(self._reopen(), self._codec, self._errors, self._made, failed_at)
        return bool(lost) and self._take(lost)

    def close(self) -> None:
        self._parent.close()


def _swallowed(
    packed: Stream, codec: str, failures: tuple[type[Exception], ...], made: int, near: int, window: int = 1 << 17
) -> bytes:
    """What can be decoded behind the first `made` bytes, feeding byte by byte from packed offset `near` on."""
    chunk = memoryview(bytearray(decoder(codec).step))
    current, count, out = decoder(codec), 0, []
    fed = 0
    queue = b""
    try:
        while fed < near + window:
            small = fed + len(chunk) > near
            if not queue:
                queue = bytes(chunk[: packed.readinto(chunk)])
                if not queue:
                    break
            data, queue = (queue[:1], queue[1:]) if small else (queue, b"")
            fed += len(data)
            piece = current.feed(data)
            while True:
                count += len(piece)
                if count > made and piece:
                    out.append(piece[max(0, len(piece) - (count - made)) :])
                if not current.pending:
                    break
                piece = current.feed(b"")
            if current.eof:
                rest = current.unused
                fed -= len(rest)
                queue = (rest + queue).lstrip(b"\0") if codec != "zstd" else rest + queue
                current = decoder(codec)
    except failures:
        pass
    finally:
        packed.close()
    return b"".join(out)


class _Kept:
    """Streams of compressed archives, kept between members so that reading all of them unpacks the archive once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, tuple[Step, ...], int], Inflated] = OrderedDict()

    def take(self, key: tuple[str, tuple[Step, ...]], offset: int) -> Inflated | None:
        me = threading.get_ident()
        with self._lock:
            stream = self._held.get((*key, me))
            if stream is None or stream.pos > offset:
                return None
            del self._held[(*key, me)]
            return stream

    def put(self, key: tuple[str, tuple[Step, ...]], stream: Inflated) -> None:
        dropped: list[Inflated] = []
        with self._lock:
            old = self._held.pop((*key, threading.get_ident()), None)
            if old is not None:
                dropped.append(old)
            self._held[(*key, threading.get_ident())] = stream
            while len(self._held) > _KEPT:
                dropped.append(self._held.popitem(last=False)[1])
        for each in dropped:
            each.close()

    def clear(self) -> None:
        with self._lock:
            held, self._held = list(self._held.values()), OrderedDict()
        for each in held:
            each.close()


_kept = _Kept()


def close_kept() -> None:
    """Closes archive streams that are kept open for a next member."""
    _kept.clear()


class _ArchivePart(Part):
    """A member of a compressed archive; closing it hands the archive's stream on."""

    def __init__(self, parent: Inflated, length: int, key: tuple[str, tuple[Step, ...]]) -> None:
        super().__init__(parent, length)
        self._key, self._inflated = key, parent

    def close(self) -> None:
        if self._inflated.damage is None:
            _kept.put(self._key, self._inflated)
        else:
            self._inflated.close()


def open_chain(path: str, chain: tuple[Step, ...], max_bytes: int, max_ratio: float) -> Stream:
    """The stream at the end of a chain of steps. Raises SourceError where the file cannot be opened."""
    if not chain:
        return FileStream(path)
    before, step = chain[:-1], chain[-1]

    def parent() -> Stream:
        return open_chain(path, before, max_bytes, max_ratio)

    if isinstance(step, Codec):
        return Inflated(parent(), step.name, parent, max_bytes, max_ratio)
    key = (path, before)
    held = _kept.take(key, step.offset)
    stream = held if held is not None else parent()
    if isinstance(stream, FileStream):
        try:
            return stream.narrowed(step)
        finally:
            stream.close()
    skip(stream, step.offset - stream.pos)
    if isinstance(stream, Inflated):
        return _ArchivePart(stream, step.length, key)
    return Part(stream, step.length)


def open_source(source: Source, max_bytes: int = 1 << 62, max_ratio: float = float("inf")) -> Stream:
    """The decompressed bytes of a source. Raises SourceError where its file is gone or may not be read."""
    return open_chain(source.path, source.chain, max_bytes, max_ratio)
