"""What the workers of a stream count, and how it reaches the process that shows it.

Each worker process counts in memory and writes one row of the warehouse every few seconds; the supervisor sums them.
This holds wherever the workers run (threads of the supervisor, a pool, another machine) and on every runner, because
all workers write to the warehouse anyway. Counts are for eyes and alarms: messages that are read again after a restart
count again. Nothing is decided from them.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sql.errors import SqlError

if TYPE_CHECKING:
    from sql.store import Store

#: Counter -> names of its labels. `timers_set` less `timers_fired` is what waits in the state of the pipeline.
COUNTERS: dict[str, tuple[str, ...]] = {
    "messages": ("topic", "what"),
    "message_bytes": ("topic",),
    "dead_letters": ("topic", "reason"),
    "loads": (),
    "decided": ("kind",),
    "incidents": ("component", "provisional", "what"),
    "timers_set": (),
    "timers_fired": (),
    "database_retries": (),
}

_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
#: Histogram -> upper bounds of its buckets, seconds; one more bucket holds what is larger.
HISTOGRAMS: dict[str, tuple[float, ...]] = {
    "kafka_to_row": _SECONDS,
    "end_to_provisional": _SECONDS,
    "end_to_final": (*_SECONDS, 2 * 3600.0, 6 * 3600.0, 24 * 3600.0),
    "load": (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    "decide": (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
}

_FLUSH_S = 2.0
#: A worker that wrote nothing for so long has ended.
_SILENT_S = 600.0


@dataclass(slots=True)
class Histogram:
    """Observations by bucket, the last one without a bound, and their sum in seconds."""

    buckets: list[int]
    total: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def quantile(self, bounds: tuple[float, ...], q: float) -> float | None:
        """Upper bound of the bucket that holds the q-th part; infinite beyond the last; None without observations."""
        wanted, seen = q * self.count, 0
        for bound, n in zip((*bounds, float("inf")), self.buckets, strict=True):
            seen += n
            if n and seen >= wanted:
                return bound
        return None


@dataclass(slots=True)
class Totals:
    """Counts of one worker, or of several together. Keys: the counter's name and its label values in order."""

    counters: dict[tuple[str, ...], float] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)

    def add(self, other: Totals) -> None:
        """Add another's counts to these. A histogram with other bounds (of an older version) is left out."""
        for key, n in other.counters.items():
            self.counters[key] = self.counters.get(key, 0) + n
        for name, theirs in other.histograms.items():
            mine = self.histograms.setdefault(name, Histogram([0] * len(theirs.buckets)))
            if len(mine.buckets) == len(theirs.buckets):
                mine.buckets = [a + b for a, b in zip(mine.buckets, theirs.buckets, strict=True)]
                mine.total += theirs.total

    def of(self, name: str) -> float:
        """Sum of a counter over all its labels."""
        return sum(n for key, n in self.counters.items() if key[0] == name)


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """What a worker wrote: its counts, the submission that it belongs to, when, and its memory in bytes."""

    totals: Totals
    submission: str
    at_us: int
    memory: int

    def text(self) -> str:
        """As it is stored."""
        return json.dumps(
            {
                "submission": self.submission,
                "at_us": self.at_us,
                "memory": self.memory,
                "counters": [[*key, n] for key, n in sorted(self.totals.counters.items())],
                "histograms": {n: [h.buckets, h.total] for n, h in sorted(self.totals.histograms.items())},
            },
            separators=(",", ":"),
        )

    @staticmethod
    def of(text: str) -> WorkerRow:
        """From what is stored."""
        row: dict[str, Any] = json.loads(text)
        counters = {tuple(map(str, key)): float(n) for *key, n in row["counters"]}
        known = {n: h for n, h in row["histograms"].items() if len(h[0]) == len(HISTOGRAMS.get(n, ())) + 1}
        histograms = {name: Histogram(list(buckets), total) for name, (buckets, total) in known.items()}
        return WorkerRow(Totals(counters, histograms), row["submission"], row["at_us"], row["memory"])


class WorkerStats:
    """Counts of this process. Safe to use from several threads."""

    def __init__(self, worker: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.worker = worker or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}".replace(":", "-")
        self.submission = ""
        self._totals = Totals()
        self._clock = clock
        self._flushed = clock() - _FLUSH_S
        self._changed = False
        self._lock = threading.Lock()

    def count(self, name: str, n: float = 1, **labels: str) -> None:
        """Add to a counter. Raises ValueError where it, or its labels, are not in COUNTERS."""
        names = COUNTERS.get(name)
        if names is None or set(names) != labels.keys():
            msg = f"counter {name} with labels {sorted(labels)}: known are {COUNTERS}"
            raise ValueError(msg)
        key = (name, *(labels[label] for label in names))
        with self._lock:
            self._totals.counters[key] = self._totals.counters.get(key, 0) + n
            self._changed = True

    def observe(self, name: str, seconds: float, n: int = 1) -> None:
        """Note that something took so long, `n` times. A time before 0 (clocks that differ) counts as 0."""
        bounds = HISTOGRAMS[name]
        seconds = max(0.0, seconds)
        with self._lock:
            mine = self._totals.histograms.setdefault(name, Histogram([0] * (len(bounds) + 1)))
            mine.buckets[bisect_left(bounds, seconds)] += n
            mine.total += seconds * n
            self._changed = True

    def row(self, at_us: int) -> WorkerRow:
        """All that was counted up to now."""
        with self._lock:
            totals = Totals()
            totals.add(self._totals)
            return WorkerRow(totals, self.submission, at_us, memory_of(os.getpid()))

    def flush(self, store: Store, cluster: str, *, now: bool = False) -> bool:
        """Write the row of this process where it is due, or `now`; False where it was not, or the database is away."""
        from sql.streamstats import write_stats

        with self._lock:
            at = self._clock()
            if not now and (not self._changed or at - self._flushed < _FLUSH_S):
                return False
            self._flushed, self._changed = at, False
        try:
            write_stats(store, cluster, self.worker, self.row(store.now_us()).text())
        except SqlError:  # counts wait; the load that follows says loudly enough that the database is away
            with self._lock:
                self._changed = True
            return False
        return True


@cache
def worker_stats() -> WorkerStats:
    """The counts of this process."""
    return WorkerStats()


def read_rows(texts: Mapping[str, str]) -> dict[str, WorkerRow]:
    """Worker -> row, of what `sql.streamstats.read_stats` gives."""
    return {worker: WorkerRow.of(text) for worker, text in texts.items()}


def sum_of(rows: Iterable[WorkerRow]) -> Totals:
    """The counts of several workers together."""
    totals = Totals()
    for row in rows:
        totals.add(row.totals)
    return totals


def fold_ended(store: Store, cluster: str, submission: str) -> None:
    """Fold the rows of workers of other submissions that have been silent for ten minutes into one."""
    from sql.streamstats import PAST, fold_stats

    oldest = store.now_us() - int(_SILENT_S * 1e6)

    def fold(texts: Mapping[str, str]) -> tuple[list[str], str] | None:
        rows = read_rows(texts)
        ended = [w for w, r in rows.items() if w != PAST and r.submission != submission and r.at_us < oldest]
        if not ended:
            return None
        past = sum_of(rows[w] for w in (*ended, PAST) if w in rows)
        return ended, WorkerRow(past, "", store.now_us(), 0).text()

    fold_stats(store, cluster, fold)


def memory_of(pid: int) -> int:
    """Resident memory of a process in bytes; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
