"""A watched folder in a test: written and rotated by hand, watched by the real thing, compared with one ingest."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from classifiers.knowledge import load_ruleset
from pipeline.scanning.scan import scan_paths
from pipeline.warehouse.ingest import ingest
from pipeline.warehouse.live import Decider
from pipeline.watch.entries import Patience, Polled
from pipeline.watch.session import Session, Totals
from pipeline.watch.watcher import Watcher
from schemas.facts import Facts
from schemas.settings import Settings
from sql.factrows import storable_facts
from sql.published import Outgoing
from sql.same import dump_same
from sql.store import open_store

SETTINGS = Settings()


@dataclass
class Folder:
    """A folder of logs below `top`, its warehouse, and a clock that the test moves."""

    top: Path
    now: float = 1000.0
    told: list[Outgoing] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)

    @property
    def logs(self) -> Path:
        return self.top / "logs"

    @property
    def warehouse(self) -> str:
        return self.url or f"sqlite:///{self.top / 'watched.db'}"

    def write(self, name: str, text: str | bytes, mode: str = "a") -> Path:
        path = self.logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode() if isinstance(text, str) else text
        with path.open(f"{mode}b") as out:
            out.write(data)
        return path

    def rename(self, old: str, new: str) -> None:
        (self.logs / old).rename(self.logs / new)

    def pack(self, name: str) -> None:
        """What gzip does: a packed copy, then the file goes."""
        path = self.logs / name
        packed = path.with_name(f"{path.name}.gz")
        with path.open("rb") as raw, gzip.open(packed, "wb") as out:
            shutil.copyfileobj(raw, out)
        status = path.stat()
        os.utime(packed, ns=(status.st_atime_ns, status.st_mtime_ns))
        path.unlink()

    def copytruncate(self, name: str, to: str) -> None:
        shutil.copyfile(self.logs / name, self.logs / to)
        os.truncate(self.logs / name, 0)

    @contextmanager
    def watching(self, patience: Patience | None = None) -> Iterator[Watcher]:
        with (
            open_store(self.warehouse, create=True) as store,
            Watcher(self.logs, store, SETTINGS, load_ruleset(), patience=patience, clock=lambda: self.now) as watcher,
        ):
            yield watcher

    def poll(self, watcher: Watcher, *, hurry: bool = False) -> Polled:
        """Polls until nothing is left to read at once; the sum of it."""
        total = Polled()
        while True:
            done = watcher.poll(hurry=hurry)
            total.files, total.read = done.files, total.read + done.read
            total.signals += done.signals
            total.quarantined += done.quarantined
            total.touched |= done.touched
            self.now += 1
            if not done.busy:
                return total

    def finish(self) -> Totals:
        """A new process that reads what is left and decides."""
        with (
            open_store(self.warehouse, create=True) as store,
            Watcher(self.logs, store, SETTINGS, load_ruleset()) as watcher,
        ):
            return Session(watcher, Decider(store, SETTINGS, load_ruleset()), store, tell=self.told.append).once()

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        with open_store(self.warehouse) as store:
            return dump_same(store)

    def ingested(self, logs: Path | None = None) -> dict[str, list[dict[str, Any]]]:
        """Rows of one ingest of the files as they lie there now (or of another folder of the same name)."""
        url = f"sqlite:///{self.top / 'ingested.db'}"
        (self.top / "ingested.db").unlink(missing_ok=True)
        ingest([logs or self.logs], url, SETTINGS)
        with open_store(url) as store:
            return dump_same(store)

    def stored(self) -> dict[str, Any]:
        """The facts in the warehouse, see `shown`."""
        with open_store(self.warehouse) as store:
            return shown(store.read_facts("default"))

    def scanned(self) -> dict[str, Any]:
        """The facts of one scan of the files as they lie there now."""
        return shown(storable_facts(scan_paths([self.logs], SETTINGS, load_ruleset())))


def shown(facts: Facts) -> dict[str, Any]:
    """Facts by kind, of sources without paths and times of files."""
    sources = [s for s in facts.sources if s.format != "empty"]  # a file that has just been made has no row
    return {
        "sources": [
            (s.source_id, s.format, s.size, s.lines, s.signal_lines, s.unparsed_lines, s.spans, s.names, s.host)
            for s in sources
        ],
        "progress": facts.progress,
        "fragments": facts.fragments,
        "signals": facts.signals,
        "trails": [(s.base, s.trail) for s in sources],
    }


def xid(number: int, minute: int = 0, host: str = "node01") -> str:
    """One kernel line with a signal that has its own line number in its text."""
    second = number % 60
    return (
        f"2026-03-04T10:{minute:02d}:{second:02d}.{number % 1000000:06d}+00:00 {host} kernel: NVRM: Xid "
        f"(PCI:0000:{number % 200:02x}:00): 79, pid={number}, GPU has fallen off the bus.\n"
    )


def noise(number: int, minute: int = 0, host: str = "node01") -> str:
    return (
        f"2026-03-04T10:{minute:02d}:{number % 60:02d}.{number % 1000000:06d}+00:00 {host} kernel: audit: type=1400 "
        f"audit({number}): apparmor allowed pid={number} and some words more to make the line as long as lines are\n"
    )


def counted(rows: dict[str, list[dict[str, Any]]], rule: str = "nv_xid") -> int:
    """Lines that a rule counted."""
    return sum(row["count"] for row in rows["signals"] if row["rule"] == rule)
