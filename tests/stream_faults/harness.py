"""A site's messages sent while things die, and what must be the same in the end as after a batch load of the same.

What is compared holds every count: each line with a signal by rule, host and text, each attempt of a job, each incident
and its evidence. One message lost or counted twice shows.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.stream.offsets import BrokerEnds
from pipeline.warehouse.ingest import ingest
from schemas.settings import Settings
from sql.errors import SqlError
from sql.published import waiting_count
from sql.same import dump_same
from sql.store import Store, open_store
from sql.touched import undecided
from tests.pipeline.stream.archive import Sent, archive_messages, write_files
from tests.services.kafka import KafkaBroker
from tests.services.process import tail
from tests.services.stream import StreamProcess

CLUSTER = "default"
#: Short, so that answers become final within a test.
GRACE_S = 5
_DUPLICATES = 0.03

Told = dict[str, Counter[tuple[Any, ...]]]


def told(store: Store) -> Told:
    """What the warehouse tells, without the names of sources: those of a stream are not those of files."""
    rows = dump_same(store)
    counts: Counter[tuple[Any, ...]] = Counter()
    for row in rows["signals"]:
        counts[row["rule"], row["host"], row["fact_key"], row["template"], row["bucket"]] += row["count"]
    runs = Counter(
        (r["job_id"], r["attempt"], r["state"], r["exit_code"], r["started_at"], r["ended_at"], str(r["nodes"]))
        for r in rows["job_runs"]
    )
    incidents = Counter(
        (r["job_id"], r["attempt"], r["kind"], r["component"], r["cause"], r["outcome"], r["interrupted_at"])
        for r in rows["incidents"]
    )
    evidence = Counter((r["signal"], r["host"], r["time"], r["text"]) for r in rows["evidence"])
    return {"signals": counts, "job_runs": runs, "incidents": incidents, "evidence": evidence}


def differences(got: Told, want: Told) -> list[str]:
    """What is not the same, in words; empty where all is."""
    out = []
    for table, rows in want.items():
        out += [f"{table}: lost {n} x {row}" for row, n in (rows - got[table]).items()]
        out += [f"{table}: too many {n} x {row}" for row, n in (got[table] - rows).items()]
    return out


def of_batch(sent: Sequence[Sent], folder: Path) -> Told:
    """The same messages as files, loaded at once."""
    write_files(sent, folder / "logs")
    url = f"sqlite:///{folder / 'batch.db'}"
    ingest([folder / "logs"], url, Settings())
    with open_store(url) as store:
        return told(store)


def site() -> list[Sent]:
    """The example archive in the order of time."""
    return archive_messages()


class Sender(threading.Thread):
    """Sends messages over `seconds`, some of them twice. `join` raises what went wrong."""

    def __init__(
        self, kafka: KafkaBroker, topic: str, sent: Sequence[Sent], rng: random.Random, seconds: float, partitions: int
    ) -> None:
        super().__init__(name="sender", daemon=True)
        self._kafka, self._topic, self._sent, self._rng = kafka, topic, sent, rng
        self._seconds, self.partitions = seconds, partitions
        self._error: BaseException | None = None

    def run(self) -> None:
        size = max(1, len(self._sent) // max(1, int(self._seconds * 4)))
        try:
            for begin in range(0, len(self._sent), size):
                chunk = list(self._sent[begin : begin + size])
                # a shipper that was not told that its message arrived sends it again, perhaps elsewhere
                again = [m for m in chunk if m.value.startswith(b"{") and self._rng.random() < _DUPLICATES]
                self._kafka.send(self._topic, [m.fields() for m in (*chunk, *again)], lambda n: n % self.partitions)
                time.sleep(0.25)
        except BaseException as error:  # noqa: BLE001 - raised again where the thread is waited for
            self._error = error

    def wait(self, timeout_s: float) -> None:
        """Until all is sent. Raises what went wrong."""
        self.join(timeout_s)
        assert not self.is_alive(), f"not all was sent within {timeout_s:.0f} s"
        if self._error is not None:
            raise self._error


def settle(stream: StreamProcess, kafka: KafkaBroker, topic: str, url: str, within_s: float = 120.0) -> Told:
    """Wait until all that was sent is durable, decided and final; then what the warehouse tells.

    Raises AssertionError with what is still open, and the end of the stream's log.
    """
    ends = BrokerEnds({"bootstrap.servers": kafka.bootstrap}, lambda name: name == topic)
    until, calm, before, state = time.monotonic() + within_s, 0, None, "nothing seen"
    while time.monotonic() < until:
        assert stream.returncode is None, f"the stream ended with {stream.returncode}: {tail(stream.log, 30)}"
        try:
            with open_store(url) as store:
                positions = store.read_stream_progress(CLUSTER)
                lag = sum(high - positions.get(key, (low, None))[0] for key, (low, high) in ends().items())
                with store.reading() as connection:
                    open_ones, waiting = len(undecided(connection, CLUSTER)), waiting_count(connection)
                provisional = sum(1 for d in store.list_decisions() if d.extra.get("provisional"))
                now = (lag, open_ones, provisional, waiting)
                state = f"lag {lag}, undecided {open_ones}, provisional {provisional}"
                calm = calm + 1 if now == before and not any(now[:3]) and positions else 0
                before = now
                if calm >= 3:
                    return told(store)
        except SqlError as error:
            state = str(error)
        time.sleep(1.0)
    raise AssertionError(f"not settled within {within_s:.0f} s: {state}: {tail(stream.log, 30)}")


def keep_alive(stream: StreamProcess) -> None:
    """What a service manager does: start the command again when it has been killed."""
    if stream.returncode is not None:
        stream.start()


def victims(stream: StreamProcess) -> dict[str, int | None]:
    """Who can be killed now: the supervisor (None), the pipeline, who decides for it, and Prism, by what they are."""
    from tests.services.stream import name_of, runs

    found: dict[str, int | None] = {"supervisor": None}
    for pid in stream.below():
        decides = runs(pid, "pipeline.stream.deciding")
        found["prism" if name_of(pid).startswith("prism") else "decider" if decides else "pipeline"] = pid
    return found


def await_victim(stream: StreamProcess, who: str, within_s: float = 30.0) -> int | None:
    """The process of this kind, as soon as it is there: what was killed before is being started again."""
    until = time.monotonic() + within_s
    while who not in (there := victims(stream)):
        assert time.monotonic() < until, f"no {who} within {within_s:.0f} s: {tail(stream.log, 20)}"
        keep_alive(stream)
        time.sleep(0.1)
    return there[who]
