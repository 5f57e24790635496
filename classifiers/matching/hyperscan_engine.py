"""Hyperscan in block mode: the fast engine.

The compiled database is cached on disk; its key is the digest of the anchors, the library's version and the CPU, as
a database only loads where it was made for. One scratch per thread (scans release the GIL).
"""

# ruff: noqa: ANN401 - the libraries and the syntax tree carry no types

from __future__ import annotations

import hashlib
import platform
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import hyperscan

from classifiers.knowledge.files import cache_dir, write_quietly


@cache
def _cpu() -> str:
    """A word for the CPU: databases use the instructions of the CPU they were compiled on."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    lines = {line for line in text.splitlines() if line.startswith(("model name", "flags", "Features", "CPU part"))}
    return platform.machine() + "\n".join(sorted(lines))


def _key(table: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    h = hashlib.sha256()
    for part in (library(), _cpu(), *(regex for regex, _ in table)):
        h.update(f"{len(part)}:{part}".encode())
    return h.hexdigest()[:24]


def library() -> str:
    """Version of the binding and, where it tells, of the library: compiled databases and refusals hang on both."""
    version = getattr(hyperscan, "hs_version", None)
    return getattr(hyperscan, "__version__", "") + (f"/{version()}" if callable(version) else "")


class HyperscanEngine:
    """See `classifiers.api.Engine`. table: (regex, rule ids) by anchor id."""

    name = "hyperscan"

    def __init__(self, table: Sequence[tuple[str, tuple[str, ...]]], folder: Path | None = None) -> None:
        self.rule_ids: tuple[tuple[str, ...], ...] = tuple(ids for _, ids in table)
        self._local = threading.local()
        self._db = self._load(table, folder or cache_dir()) if table else None

    def __reduce__(self) -> NoReturn:
        msg = "a scan engine is not pickled: build it in each worker with make_engine"
        raise TypeError(msg)

    def _load(self, table: Sequence[tuple[str, tuple[str, ...]]], folder: Path) -> Any:
        path = folder / f"anchors-{_key(table)}.hsdb"
        try:
            return hyperscan.loadb(path.read_bytes(), mode=hyperscan.HS_MODE_BLOCK)
        except (OSError, hyperscan.error):
            pass
        database = compile_database([regex for regex, _ in table])
        write_quietly(path, hyperscan.dumpb(database))
        return database

    def _scratch(self) -> Any:
        scratch = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = hyperscan.Scratch(self._db)
        return scratch

    def scan(self, block: memoryview) -> Iterator[tuple[int, int]]:
        """(anchor id, end offset) of every anchor hit in the block."""
        if self._db is None:
            return iter(())
        found: list[tuple[int, int]] = []

        def on_match(anchor: int, _start: int, end: int, _flags: int, _context: object) -> None:
            found.append((anchor, end))

        self._db.scan(block, match_event_handler=on_match, scratch=self._scratch())
        return iter(found)


def compile_database(regexes: Sequence[str]) -> Any:
    """A block database of these regexes, ids in order. Raises `hyperscan.error` for what the library refuses."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    expressions = [regex.encode() for regex in regexes]
    database.compile(expressions=expressions, ids=list(range(len(expressions))), flags=0)
    return database
