"""Finding inputs: files, folders, archives, standard input. Everything that is met comes out, as source or quarantine.

Kinds are told by content, never by name. Order is by path and does not depend on the order in which paths were given.
A path that lies inside another given path is read once, as part of the outer one.
"""

from __future__ import annotations

import atexit
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.formats.base import HEAD, sniff
from pipeline.sources.archives import ArchiveError, FileBody, Member, is_tar, is_zip, tar_members, zip_members
from pipeline.sources.codecs import magic, unread_magic
from pipeline.sources.model import Codec, Slice, Source, SourceError, Step
from pipeline.sources.split import split_ids
from pipeline.sources.streams import FileStream, Inflated, Stream, open_chain, read_exactly
from schemas.facts import Quarantine
from schemas.identity import digest, source_id
from schemas.settings import Settings

Found = Source | Quarantine


@dataclass(frozen=True, slots=True)
class _At:
    """A place in the walk. shown: inner path for people. identity: without archive names. depth: archives around it."""

    path: str
    chain: tuple[Step, ...]
    shown: str
    identity: str
    root: str
    mtime_us: int | None
    stored: int
    size: int | None
    depth: int


def discover(paths: Sequence[str | Path], settings: Settings) -> Iterator[Found]:
    """All inputs under `paths` (`-` is standard input), sorted by path; unreadable ones as `Quarantine`.

    Sources that share an id although their contents diverge get ids of their own (`pipeline.sources.split`).
    """
    sources: list[Source] = []
    failed: list[Quarantine] = []
    for found in _walk(paths, settings):
        if isinstance(found, Source):
            sources.append(found)
        else:
            failed.append(found)
    yield from failed
    yield from sorted(split_ids(sources, settings), key=lambda s: (s.path, s.root, _place(s)))


def _place(source: Source) -> tuple[tuple[int, ...], str]:
    """Members in the order of their archive, so that a compressed one is unpacked once."""
    return tuple(s.offset for s in source.chain if isinstance(s, Slice)), source.inner_path


def _walk(paths: Sequence[str | Path], settings: Settings) -> Iterator[Found]:
    given: dict[Path, str] = {}
    for path in paths:
        if str(path) == "-":
            yield from _stdin(settings)
            continue
        given.setdefault(Path(path).absolute(), str(path))
    resolved = {p: Path(os.path.realpath(p)) for p in given}
    tops = sorted(p for p in given if not any(_inside(resolved[p], resolved[q]) for q in given if q is not p))
    seen: set[Path] = set()
    for top in tops:
        if resolved[top] in seen:
            continue
        seen.add(resolved[top])
        roots = tuple(resolved[q] for q in tops)
        if top.is_dir():
            yield from _folder(top, top, settings, (), roots)
        else:
            yield from _entry(top, top.parent, settings)


def _inside(path: Path, outer: Path) -> bool:
    return path != outer and outer in path.parents


def _stdin(settings: Settings) -> Iterator[Found]:
    with tempfile.NamedTemporaryFile(prefix="faultbeam-stdin-", delete=False) as spool:
        while block := sys.stdin.buffer.read(1 << 20):
            spool.write(block)
    path = Path(spool.name)
    atexit.register(path.unlink, missing_ok=True)
    yield from _file(path, "stdin", "stdin", None, settings)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _folder(
    folder: Path, root: Path, settings: Settings, above: tuple[tuple[int, int], ...], roots: tuple[Path, ...]
) -> Iterator[Found]:
    shown = _relative(folder, root)
    try:
        status = folder.stat()
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError as err:
        yield Quarantine(shown, "", 0, 0, f"cannot list folder: {err.strerror}")
        return
    me, here = (status.st_dev, status.st_ino), Path(os.path.realpath(folder))
    if me in above:
        yield Quarantine(shown, "", 0, 0, "folder loop: it contains itself through a link")
        return
    for name in names:
        path = folder / name
        if path.is_symlink():
            target = Path(os.path.realpath(path))
            if target == here or target in here.parents:
                yield Quarantine(_relative(path, root), "", 0, 0, "folder loop: a link to a folder that holds it")
                continue
            if target.exists() and any(target == r or _inside(target, r) for r in roots):
                continue  # met on its own
        if path.is_dir():
            yield from _folder(path, root, settings, (*above, me), roots)
        else:
            yield from _entry(path, root, settings)


def _entry(path: Path, root: Path, settings: Settings) -> Iterator[Found]:
    shown = _relative(path, root)
    try:
        status = path.stat()
    except OSError as err:
        yield Quarantine(shown, "", 0, 0, f"cannot read: {err.strerror}")
        return
    if not stat.S_ISREG(status.st_mode):
        yield Quarantine(shown, "", 0, 0, "not a regular file")
        return
    yield from _file(path, shown, root.resolve().name, status.st_mtime_ns // 1000, settings)


def _file(path: Path, shown: str, root: str, mtime_us: int | None, settings: Settings) -> Iterator[Found]:
    try:
        stream = FileStream(str(path))
    except SourceError as err:
        yield Quarantine(shown, "", 0, 0, str(err).replace(str(path), shown))
        return
    at = _At(str(path), (), shown, shown, root, mtime_us, stream.length, stream.length, 0)
    try:
        yield from _stream(stream, at, settings)
    finally:
        stream.close()


class _Peeked:
    """A forward stream whose first bytes were looked at and are given again."""

    def __init__(self, head: bytes, stream: Stream) -> None:
        self._head, self._stream = memoryview(head), stream
        self.pos = 0

    @property
    def damage(self) -> str | None:
        return self._stream.damage

    def readinto(self, into: memoryview) -> int:
        n = min(len(into), len(self._head))
        if n:
            into[:n] = self._head[:n]
            self._head = self._head[n:]
        else:
            n = self._stream.readinto(into)
        self.pos += n
        return n

    def close(self) -> None:
        self._stream.close()


def _stream(stream: Stream, at: _At, settings: Settings) -> Iterator[Found]:
    """What a stream holds: a packed stream, an archive, or a leaf."""
    head = read_exactly(stream, HEAD)
    again: Stream
    if isinstance(stream, FileStream):
        stream.pos = 0
        again = stream
    else:
        again = _Peeked(head, stream)
    codec = magic(head)
    if codec is None and not is_tar(head) and not is_zip(head):
        yield _leaf(head, at)
        return
    if at.depth >= settings.max_depth + (0 if codec is None else 1):
        yield Quarantine(
            at.shown, "", 0, at.size or 0, f"nested deeper than {settings.max_depth} (FAULTBEAM_MAX_DEPTH)"
        )
        return
    if codec is not None:
        inner = replace(at, chain=(*at.chain, Codec(codec)), size=None, depth=at.depth + (0 if not at.chain else 1))
        yield from _stream(_inflate(again, codec, at, settings), inner, settings)
        return
    members = tar_members(again) if is_tar(head) else zip_members(again)
    yield from _archive(members, at, settings)


def _inflate(stream: Stream, codec: str, at: _At, settings: Settings) -> Inflated:
    def reopen() -> Stream:
        return open_chain(at.path, at.chain, settings.max_inflated_bytes, settings.max_ratio)

    return Inflated(stream, codec, reopen, settings.max_inflated_bytes, settings.max_ratio)


def _archive(members: Iterator[Member], at: _At, settings: Settings) -> Iterator[Found]:
    folder = at.identity.rpartition("/")[0]
    names: dict[str, int] = {}
    try:
        for member in members:
            shown = f"{at.shown}!{member.name}"
            if member.skipped:
                yield Quarantine(shown, "", 0, member.size, f"not read: {member.skipped}")
                continue
            again = names[member.name] = names.get(member.name, 0) + 1
            identity = f"{folder}/{member.name}" if folder else member.name
            if again > 1:  # a name that an archive holds twice
                shown, identity = f"{shown}#{again}", f"{identity}#{again}"
            inner = _At(
                at.path,
                (*at.chain, *member.steps),
                shown,
                identity,
                at.root,
                member.mtime_us if member.mtime_us is not None else at.mtime_us,
                at.stored,
                member.size,
                at.depth + 1,
            )
            yield from _member(member, inner, settings)
    except ArchiveError as err:
        yield Quarantine(at.shown, "", 0, 0, str(err))


def _member(member: Member, at: _At, settings: Settings) -> Iterator[Found]:
    if member.body is not None:
        yield from _stream(FileBody(member.body), at, settings)
        return
    try:
        stream = open_chain(at.path, at.chain, settings.max_inflated_bytes, settings.max_ratio)
    except SourceError as err:
        yield Quarantine(at.shown, "", 0, at.size or 0, str(err).replace(at.path, at.shown))
        return
    try:
        yield from _stream(stream, at, settings)
    finally:
        stream.close()


def sniffable(head: bytes) -> bytes:
    """A head as formats see it: without a byte order mark and without a few runs of NUL bytes (power loss)."""
    head = head.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in head:
        pieces = [p for p in head.split(b"\0") if p]
        if len(pieces) <= 4:
            return b"".join(pieces)
    return head


def _leaf(head: bytes, at: _At) -> Found:
    packed = unread_magic(head)
    if packed is not None:
        return Quarantine(at.shown, "", 0, at.size or 0, f"packed with {packed}, which is not read: unpack it first")
    fmt = sniff(sniffable(head), at.shown) if head else None
    # what is written once and never grows (dumps) is named by its content: sets have equal names and begin alike
    once = f"#{digest(head)}" if getattr(fmt, "written_once", False) else ""
    base = source_id(at.identity + once, head)
    return Source(
        source_id=base,
        path=at.path,
        chain=at.chain,
        inner_path=at.shown,
        identity=at.identity,
        root=at.root,
        format=fmt.name if fmt is not None else "",
        size=at.size,
        stored=at.stored,
        mtime_us=at.mtime_us,
        base=base,
    )


def inputs_of(path: Path, shown: str, root: str, mtime_us: int | None, settings: Settings) -> list[Found]:
    """What one file holds, with ids of its own that are not told apart from others' yet (`pipeline.sources.split`).

    path: where its bytes are opened. shown: its path inside the root, root: that one's name.
    """
    return list(_file(path, shown, root, mtime_us, settings))
