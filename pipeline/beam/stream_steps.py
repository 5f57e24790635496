"""The steps behind the reader: load facts, gather what is to be decided, decide.

    ... | LoadFacts -> wakes | Gather (state and timers by scope) -> due | Decide

*LoadFacts* makes the facts of a poll and the positions behind it durable in one transaction. While the database is away
it tries again, and the stream stands. *Gather* keeps, for each scope (a job, a host, a source), which sources have
news: every `BUCKET_S` of event time make a bucket with two timers, one `FIRST_S` behind the bucket's end for a
provisional answer, one behind the grace for the final one, after which the bucket is forgotten. *Decide* decides what a
bundle woke, once, from the facts in the warehouse. What it misses (the database was away, a process was killed) is
found by the periodic pass, because the transaction of the facts marks what is not decided.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from pipeline.beam.stream_elements import Polled, Wake, read_wake, wakes
from pipeline.stream.deciding import DecidingDied, DecidingProcess
from pipeline.stream.stats import worker_stats
from schemas.settings import Settings
from sql.errors import CannotConnect

if TYPE_CHECKING:
    from sql.store import Store

log = logging.getLogger(__name__)

#: Event time that is gathered into one answer, and how long behind its end the first answer comes, seconds.
BUCKET_S, FIRST_S = 5, 6
#: Most sources and buckets that one scope remembers; what is beyond is found by the periodic pass.
MOST_SOURCES, MOST_BUCKETS = 500, 60
#: (event time of the timer in us, source ids).
Due = tuple[int, list[str]]

_stores: dict[str, Store] = {}
_deciders: dict[tuple[str, str], DecidingProcess] = {}
_lock = threading.Lock()


def store_of(url: str) -> Store:
    """The store of this process for a URL. Waits while the database is away."""
    from sql.store import open_store

    with _lock:
        if url not in _stores:
            _stores[url] = _while_away("open the warehouse", lambda: open_store(url))
        return _stores[url]


def decider_of(url: str, settings: Settings) -> DecidingProcess:
    """Who decides for this process, for a warehouse and a cluster."""
    with _lock:
        key = (url, settings.cluster)
        if key not in _deciders:
            _deciders[key] = DecidingProcess(url, settings)
        return _deciders[key]


def _while_away(what: str, act: Any) -> Any:  # noqa: ANN401 - whatever it gives
    """Does something that needs the database, until it works."""
    wait = 0.2
    while True:
        try:
            return act()
        except CannotConnect as error:
            worker_stats().count("database_retries")
            log.warning("cannot %s, trying again in %.1f s: %s", what, wait, error)
            time.sleep(wait)
            wait = min(10.0, wait * 2)


class LoadFacts(beam.DoFn):
    """Payloads of the reader -> wakes, once their facts are durable."""

    def __init__(self, url: str, settings: Settings, submission: str) -> None:
        self._url, self._settings, self._submission = url, settings, submission
        self._store: Store | None = None

    def setup(self) -> None:
        self._store = store_of(self._url)
        worker_stats().submission = self._submission

    def process(self, element: Polled) -> Iterator[Wake]:
        store = self._store
        if store is None:
            raise RuntimeError("setup() was not called before process(); the runner breaks the DoFn contract")
        polled, cluster = element, self._settings.cluster
        began = time.monotonic()
        touched = _while_away(
            "load facts", lambda: store.load_facts(polled.facts, 0, cluster, polled.positions, mark=True)
        )
        self._count(polled, time.monotonic() - began)
        worker_stats().flush(store, cluster)
        yield from wakes(polled, touched.source_ids)

    @staticmethod
    def _count(polled: Polled, took: float) -> None:
        stats, now = worker_stats(), time.time()
        stats.count("loads")
        stats.observe("load", took)
        for topic, what, n in polled.counted:
            stats.count("messages", n, topic=topic, what=what)
        for topic, n in polled.sizes:
            stats.count("message_bytes", n, topic=topic)
        for second, n in polled.stamps:
            stats.observe("kafka_to_row", now - second - 0.5, n)
        for q in polled.facts.quarantine:
            topic, reason = q.path.rpartition("/")[0], q.reason.split(":", 1)[0][:60]
            stats.count("dead_letters", topic=topic, reason=reason)


class Gather(beam.DoFn):
    """Wakes by key -> what is due. Timer ids are unique in the whole pipeline."""

    WAITING = ReadModifyWriteStateSpec("gather-waiting", BytesCoder())
    FIRST = TimerSpec("gather-first", TimeDomain.WATERMARK)
    FINAL = TimerSpec("gather-final", TimeDomain.WATERMARK)

    def __init__(self, grace_s: float) -> None:
        self._grace_s = max(int(grace_s), FIRST_S)

    def process(
        self,
        element: Wake,
        waiting: Any = beam.DoFn.StateParam(WAITING),  # noqa: ANN401, B008 - Beam's own signature
        first: Any = beam.DoFn.TimerParam(FIRST),  # noqa: ANN401, B008
        final: Any = beam.DoFn.TimerParam(FINAL),  # noqa: ANN401, B008
    ) -> None:
        event_us, source_ids = read_wake(element[1])
        bucket = event_us // 1_000_000 // BUCKET_S
        held = _held(waiting.read())
        name = str(bucket)
        if name not in held:
            if len(held) >= MOST_BUCKETS:
                return
            end = (bucket + 1) * BUCKET_S
            first.set(Timestamp(end + FIRST_S), dynamic_timer_tag=name)
            final.set(Timestamp(end + self._grace_s), dynamic_timer_tag=name)
            worker_stats().count("timers_set", 2)
        held[name] = sorted({*held.get(name, ()), *source_ids})[:MOST_SOURCES]
        waiting.write(json.dumps(held, separators=(",", ":")).encode())

    @on_timer(FIRST)
    def first(
        self,
        tag: Any = beam.DoFn.DynamicTimerTagParam,  # noqa: ANN401
        at: Any = beam.DoFn.TimestampParam,  # noqa: ANN401
        waiting: Any = beam.DoFn.StateParam(WAITING),  # noqa: ANN401, B008
    ) -> Iterator[Due]:
        worker_stats().count("timers_fired")
        held = _held(waiting.read())
        if tag in held:
            yield at.micros, held[tag]

    @on_timer(FINAL)
    def final(
        self,
        tag: Any = beam.DoFn.DynamicTimerTagParam,  # noqa: ANN401
        at: Any = beam.DoFn.TimestampParam,  # noqa: ANN401
        waiting: Any = beam.DoFn.StateParam(WAITING),  # noqa: ANN401, B008
    ) -> Iterator[Due]:
        worker_stats().count("timers_fired")
        held = _held(waiting.read())
        source_ids = held.pop(tag, None)
        if held:
            waiting.write(json.dumps(held, separators=(",", ":")).encode())
        else:
            waiting.clear()
        if source_ids is not None:
            yield at.micros, source_ids


def _held(data: bytes | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(data) if data else {}
    return found


class Decide(beam.DoFn):
    """Decides what a bundle woke, once. Gives nothing: answers are rows of the warehouse and of its outbox."""

    def __init__(self, url: str, settings: Settings) -> None:
        self._url, self._settings = url, settings
        self._decider: DecidingProcess | None = None
        self._due: set[str] = set()
        self._at_us = 0

    def setup(self) -> None:
        self._decider = decider_of(self._url, self._settings)

    def start_bundle(self) -> None:
        self._due, self._at_us = set(), 0

    def process(self, element: Due) -> None:
        at_us, source_ids = element
        self._at_us = max(self._at_us, at_us)
        self._due.update(source_ids)

    def finish_bundle(self) -> None:
        if self._decider is not None and self._due:
            decide(self._decider, self._due, self._at_us)
        self._due = set()


def decide(decider: DecidingProcess, source_ids: Collection[str] | None, at_us: int) -> bool:
    """Decides these sources (None: all that is not decided); False where that failed, and nothing is lost."""
    try:
        done = decider.decide_pending(at_us) if source_ids is None else decider.decide(source_ids, at_us)
    except DecidingDied as error:
        log.warning("%s", error)
        return False
    if done.away:
        log.warning("cannot decide now, the periodic pass will: %s", done.away)
        return False
    stats = worker_stats()
    if done.seconds:
        stats.observe("decide", done.seconds)
    if done.decided:
        stats.count("decided", done.decided, kind="pass" if source_ids is None else "wake")
    for incident, what, component in done.changes:
        log.info("incident %s %s: %s", incident, what, component or "none")
    return True
