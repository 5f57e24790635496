"""The reader of the stream: an unbounded splittable DoFn over the broker's own client.

    Create(shards) | ReadKafka -> one payload a poll

An element is a shard; its restriction are the next offsets of its partitions, and has no end. What runners do with it
was learnt by failures, and is kept as narrow as it can be:
- the restriction is not bounded, and refuses every split but the one at which it stands (a checkpoint);
- a call returns after about a second, or at the first empty poll; it is paced by a blocking poll, not by a delay;
- the consumer is kept between calls, in this process, and seeks where the restriction stands elsewhere;
- the watermark only moves forward, and moves with the clock while partitions are idle.

Noise never becomes an element: messages are scanned here.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from pipeline.beam.stream_elements import Polled, decode_positions, encode_positions
from pipeline.stream.client import Partition, common_config
from pipeline.stream.deadletters import DeadLetters
from pipeline.stream.reading import Reader, Scanned, stream_engine
from pipeline.stream.shard import Batch, Shard
from schemas.facts import Facts, Quarantine, merge_facts
from schemas.settings import Settings

log = logging.getLogger(__name__)

#: How long one call gathers messages, seconds: at least, and where scanning and loading take longer, at most.
GATHER_S, LONGEST_S = 1.2, 3.0
#: How many messages, and how many bytes, one call gathers at most.
MOST_GATHERED, MOST_BYTES = 150_000, 64 << 20


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """What a worker needs to read. config_file: client settings, a path that every worker can read."""

    servers: str
    topics: tuple[str, ...]
    shards: int
    config_file: str = ""
    dead_letters: str = ""
    submission: str = ""


class Positions(RestrictionTracker):
    """Next offsets of a shard's partitions. Without an end, until a checkpoint gives it one where it stands."""

    def __init__(self, restriction: str) -> None:
        self._start, self._ended = decode_positions(restriction)
        self._at = dict(self._start)

    def current_restriction(self) -> str:
        return encode_positions(self._at if self._ended else self._start, ended=self._ended)

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(completed=0.0, remaining=1.0)

    def try_claim(self, position: Mapping[Partition, int]) -> bool:
        if self._ended:
            return False
        self._at = dict(position)
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[str, str] | None:
        if fraction_of_remainder != 0 or self._ended:
            return None
        self._ended = True
        return encode_positions(self._at, ended=True), encode_positions(self._at)

    def check_done(self) -> bool:
        if not self._ended:
            raise ValueError("a call of the reader ended without deferring its rest")
        return True

    def is_bounded(self) -> bool:
        return False


class ShardProvider(RestrictionProvider):
    """Restrictions of shards. An element is (number of the shard, its first positions)."""

    def create_tracker(self, restriction: str) -> Positions:
        return Positions(restriction)

    def initial_restriction(self, element: tuple[int, str]) -> str:
        return element[1]

    def restriction_size(self, element: tuple[int, str], restriction: str) -> float:
        del element, restriction
        return 1.0


class Stopping:
    """Whether readers of this process are to stop, and how many calls are under way."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._busy = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._busy += 1

    def __exit__(self, *_error: object) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def wait(self, timeout_s: float, flushed: int) -> bool:
        """Whether all readers have handed on what they held, and none is at work, within the time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy and len(_flushed) >= flushed, timeout_s)


#: Of this process; calls of one shard go one after the other, but on any thread.
STOPPING = Stopping()
_open: dict[tuple[str, int], _Opened] = {}
_flushed: set[int] = set()
_lock = threading.Lock()


class _Opened:
    """One shard's consumer with what it remembers."""

    def __init__(self, options: ReaderOptions, settings: Settings, number: int) -> None:
        from classifiers.knowledge import load_ruleset

        common = common_config(options.servers, options.config_file or None)
        ruleset = load_ruleset()
        self.shard = Shard(common, settings.cluster, options.topics, number, options.shards)
        self.reader = Reader(ruleset, stream_engine(ruleset, settings))
        self.letters = DeadLetters(common, options.dead_letters) if options.dead_letters else None
        self.lock = threading.Lock()
        self.took_s = 0.0  # scanning and loading of the last call


def reads_here() -> bool:
    """Whether this process is a worker that reads."""
    return bool(_open)


def _opened(options: ReaderOptions, settings: Settings, number: int) -> _Opened:
    key = (options.submission, number)
    with _lock:
        found = _open.get(key)
        if found is None:
            found = _open[key] = _Opened(options, settings, number)
        return found


class ReadKafka(beam.DoFn):
    """Reads a shard for about a second; its payloads carry facts, positions and event time."""

    def __init__(self, options: ReaderOptions, settings: Settings) -> None:
        self._options, self._settings = options, settings

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        element: tuple[int, str],
        tracker: Any = beam.DoFn.RestrictionParam(ShardProvider()),  # noqa: ANN401, B008 - Beam's own signature
        estimator: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider()),  # noqa: ANN401, B008
    ) -> Iterator[Any]:
        number, _ = element
        opened = _opened(self._options, self._settings, number)
        with STOPPING, opened.lock:
            positions, _ = decode_positions(tracker.current_restriction())
            if STOPPING.asked.is_set():
                if number not in _flushed and tracker.try_claim(positions):
                    yield from _payload(Batch([], positions, opened.shard.events), opened.reader.rest(), estimator)
                    _flushed.add(number)
                tracker.defer_remainder()
                time.sleep(0.1)
                return
            if not opened.shard.stands_at(positions):
                opened.reader.forget()  # what it has said may not have arrived
            batch = _gather(opened.shard, positions, min(LONGEST_S, max(GATHER_S, opened.took_s)))
            now = time.monotonic()
            scanned = opened.reader.scan(batch.messages, now) if batch.messages else opened.reader.due(now)
            if not tracker.try_claim(batch.positions):
                return
            if scanned.dead and opened.letters is not None:
                opened.letters.send(scanned.dead)
            yield from _payload(batch, scanned, estimator)
            opened.took_s = time.monotonic() - now
            _advance(estimator, batch.watermark_us)
            tracker.defer_remainder()


def _gather(shard: Shard, positions: Mapping[Partition, int], for_s: float) -> Batch:
    """What comes within a call, as one batch; ends at the first empty poll.

    A load costs by its rows, and lines of a minute fold into few: at 55,000 messages a second one load a poll of 2,000
    took seven cores, one a second takes two, one in three seconds takes one.
    """
    whole = shard.poll(positions)
    until, size = time.monotonic() + for_s, _size(whole)
    polled = whole
    while polled.messages and time.monotonic() < until and len(whole.messages) < MOST_GATHERED and size < MOST_BYTES:
        polled = shard.poll(whole.positions)
        size += _size(polled)
        whole.messages += polled.messages
        whole.gone += polled.gone
        whole.added += polled.added
        whole.positions, whole.events = polled.positions, polled.events
    return whole


def _size(batch: Batch) -> int:
    return sum(len(m.value or b"") for m in batch.messages)


def _payload(batch: Batch, scanned: Scanned, estimator: Any) -> Iterator[Any]:  # noqa: ANN401
    facts = scanned.facts
    if batch.gone:
        facts = merge_facts([facts, Facts(quarantine=tuple(_gone(batch)))])
    if not batch.messages and facts == Facts():
        return
    newest, sizes, stamps = 0, Counter[str](), Counter[int]()
    for m in batch.messages:
        sizes[m.topic] += len(m.value or b"")
        us = m.time_us
        if us is not None:
            stamps[us // 1_000_000] += 1
            newest = max(newest, us)
    event_us = max(newest, batch.watermark_us or 0)
    moved = {(m.topic, m.partition) for m in batch.messages} or set(batch.positions)
    positions = tuple((t, n, batch.positions[t, n], batch.events.get((t, n))) for t, n in sorted(moved))
    polled = Polled(
        facts=facts,
        positions=positions,
        keys=tuple(sorted(scanned.keys.items())),
        event_us=event_us,
        counted=tuple((t, what, n) for t, a in sorted(scanned.accounts.items()) for what, n in a.items() if n),
        sizes=tuple(sorted(sizes.items())),
        stamps=tuple(sorted(stamps.items())),
    )
    mark = estimator.current_watermark() or MIN_TIMESTAMP
    yield TimestampedValue(polled, max(mark, Timestamp(micros=event_us)))


def _gone(batch: Batch) -> Iterator[Quarantine]:
    for (topic, number), first, found in batch.gone:
        reason = f"{found - first} messages are no longer at the broker: kept for too short a time, or compacted"
        log.warning("%s/%d from offset %d: %s", topic, number, first, reason)
        yield Quarantine(f"{topic}/{number}", "", first, 0, reason)


def _advance(estimator: Any, watermark_us: int | None) -> None:  # noqa: ANN401
    if watermark_us is None:
        return
    mark = Timestamp(micros=watermark_us)
    known = estimator.current_watermark()
    if known is None or known < mark:
        estimator.set_watermark(mark)
