"""What a running stream looks like from outside, polled from the broker and the warehouse, and whether it is healthy.

Healthy: the pipeline runs, broker and warehouse answer, and what waits at the broker is being read. Kept apart from
the pipeline on purpose: the positions are those that are durable in the warehouse, so a pipeline that reads but writes
nothing shows as one that stands still.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipeline.stream.answers import Answers
from pipeline.stream.stats import Totals, WorkerRow, fold_ended, read_rows, sum_of
from schemas.errors import FaultbeamError
from sql.errors import SqlError

if TYPE_CHECKING:
    from sql.store import Store

Partition = tuple[str, int]
#: (topic, partition) -> (first offset that the broker holds, offset after the last message). Raises FaultbeamError.
Ends = Callable[[], Mapping[Partition, tuple[int, int]]]

STALL_S = 60.0
#: One partition may wait its turn while others are read: so many times longer.
_TURNS = 5
POLL_S = 5.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The stream at one moment. positions: durable next offset and event time in us, by partition; lag in messages."""

    at_us: int = 0
    positions: Mapping[Partition, tuple[int, int | None]] = field(default_factory=dict)
    ends: Mapping[Partition, tuple[int, int]] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    workers: Mapping[str, WorkerRow] = field(default_factory=dict)
    undecided: int = 0
    outbox: int = 0
    broker: str = "not asked yet"  # empty: it answers; else what is wrong
    warehouse: str = "not asked yet"
    standing_s: float = 0.0  # how long no position has moved although messages wait
    slowest: Partition | None = None  # the partition with waiting messages whose position has not moved for longest
    slowest_s: float = 0.0

    def lag(self) -> dict[Partition, int]:
        """Messages at the broker that are not durable in the warehouse, by partition."""
        found = {}
        for partition, (low, high) in self.ends.items():
            held = self.positions.get(partition)
            found[partition] = max(0, high - max(low, held[0] if held is not None else low))
        return found

    def open_timers(self, submission: str) -> int:
        """Timers that wait in the state of this submission's pipeline."""
        now = sum_of(row for row in self.workers.values() if row.submission == submission)
        return max(0, int(now.of("timers_set") - now.of("timers_fired")))


@dataclass(frozen=True, slots=True)
class Health:
    """`ok` and, where it is not, the reasons; `details` for people and programs."""

    ok: bool
    reasons: tuple[str, ...]
    details: Mapping[str, Any]


class Monitor:
    """Polls broker and warehouse every few seconds in a thread of its own. Use as a context manager, or call `poll`."""

    def __init__(
        self,
        store: Store,
        cluster: str,
        ends: Ends,
        *,
        poll_s: float = POLL_S,
        stall_s: float = STALL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.submission = ""
        self.restarts = 0
        self.snapshot = Snapshot()
        self._store, self._cluster, self._ends = store, cluster, ends
        self._poll_s, self._stall_s, self._clock = poll_s, stall_s, clock
        self._answers = Answers(cluster)
        self._pipeline, self._because = "starting", ""
        self._polled_at = self._progress_at = clock()
        self._moved: dict[Partition, float] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def pipeline_is(self, state: str, because: str = "") -> None:
        """Told by the supervisor: `starting`, `running`, `waiting` (to be submitted again, and why), `draining`."""
        self._pipeline, self._because = state, because

    def submitted(self, submission: str, *, again: bool) -> None:
        """Told by the supervisor with every submission; `again`: because the one before it died."""
        self.submission = submission
        self.restarts += again
        self._moved, self._progress_at = {}, self._clock()
        self.pipeline_is("running")
        # where the database is away, rows of ended workers stay until the next submission: they still count
        with suppress(SqlError):
            fold_ended(self._store, self._cluster, submission)

    def poll(self) -> Snapshot:
        """Ask both sides once. What does not answer keeps its last values and says what is wrong."""
        before = self.snapshot
        now = replace(before, **self._of_warehouse(), **self._of_broker(), at_us=self._store.now_us())
        self.snapshot = replace(now, **self._standing(before, now))
        self._polled_at = self._clock()
        return self.snapshot

    def health(self) -> Health:
        """Whether the stream is alive and progressing, by the newest snapshot."""
        now = self.snapshot
        lag = sum(now.lag().values())
        reasons = []
        if self._pipeline != "running":
            reasons.append(f"the pipeline is {self._pipeline}" + (f": {self._because}" if self._because else ""))
        if now.warehouse:
            reasons.append(f"warehouse: {now.warehouse}")
        if now.broker:
            reasons.append(f"broker: {now.broker}")
        unseen_s = self._clock() - self._polled_at
        if unseen_s > self._stall_s:  # a question hangs, or the thread that asks has died
            reasons.append(f"broker and warehouse have not been asked for {unseen_s:.0f} s")
        if now.standing_s > self._stall_s:
            reasons.append(f"{lag} messages wait and no position has moved for {now.standing_s:.0f} s")
        elif now.slowest is not None and now.slowest_s > _TURNS * self._stall_s:
            topic, partition = now.slowest
            reasons.append(f"partition {partition} of {topic} has not moved for {now.slowest_s:.0f} s")
        details = {
            "pipeline": self._pipeline,
            "restarts": self.restarts,
            "lag": lag,
            "undecided_sources": now.undecided,
            "outbox_waiting": now.outbox,
            "at_us": now.at_us,
        }
        return Health(not reasons, tuple(reasons), details)

    def __enter__(self) -> Monitor:
        self._thread = threading.Thread(target=self._run, name="stream-monitor", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.poll()
            self._stop.wait(self._poll_s)

    def _standing(self, before: Snapshot, now: Snapshot) -> dict[str, Any]:
        """Since when partitions with waiting messages stand still; counted from the submission."""
        at = self._clock()
        waiting = {partition for partition, n in now.lag().items() if n}
        for partition in now.ends:
            moved = now.positions.get(partition) != before.positions.get(partition)
            if moved or partition not in waiting or partition not in self._moved:
                self._moved[partition] = at
        if not waiting or now.positions != before.positions:
            self._progress_at = at
        slowest = min(waiting, key=lambda p: self._moved[p], default=None)
        slowest_s = 0.0 if slowest is None else at - self._moved[slowest]
        return {"standing_s": at - self._progress_at, "slowest": slowest, "slowest_s": slowest_s}

    def _of_warehouse(self) -> dict[str, Any]:
        from sql.published import waiting_count
        from sql.streamstats import read_stats
        from sql.touched import undecided

        try:
            positions = self._store.read_stream_progress(self._cluster)
            with self._store.reading() as connection:
                rows = read_rows(read_stats(connection, self._cluster))
                return {
                    "positions": positions,
                    "workers": rows,
                    "totals": _both(sum_of(rows.values()), self._answers.look(connection)),
                    "undecided": len(undecided(connection, self._cluster)),
                    "outbox": waiting_count(connection, self._cluster),
                    "warehouse": "",
                }
        except FaultbeamError as error:
            return {"warehouse": str(error)}

    def _of_broker(self) -> dict[str, Any]:
        try:
            return {"ends": dict(self._ends()), "broker": ""}
        except FaultbeamError as error:
            return {"broker": str(error)}


def _both(workers: Totals, answers: Totals) -> Totals:
    workers.add(answers)
    return workers
