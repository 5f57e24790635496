"""Reading one shard: a fixed share of the partitions, by one consumer that is kept from call to call.

Which shard a partition belongs to follows from its name, so that partitions which are added later find theirs. Every
`poll` gives a batch with the positions behind it; the caller says where to go on, and if that is not where the consumer
stands, it seeks. Event time is the broker's stamp of a message, never later than now; a partition at its end has the
time of the clock.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

from pipeline.stream.client import Partition, consumer_config, list_partitions
from pipeline.stream.errors import BrokerError
from pipeline.stream.messages import Message

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka import Message as Received

log = logging.getLogger(__name__)

#: Most messages of a batch, and how long a poll waits for them.
MOST, WAIT_S = 2_000, 0.25
#: How often the broker is asked for new partitions, seconds.
RELIST_S = 15.0
#: A partition that is at its end is this far behind the clock: messages may be on their way.
IDLE_US = 1_000_000


def shard_of(partition: Partition, shards: int) -> int:
    """The shard that reads a partition."""
    return crc32(f"{partition[0]}/{partition[1]}".encode()) % shards


@dataclass(slots=True)
class Batch:
    """Messages of one poll. positions: next offsets of all partitions of the shard. events: event time of each,
    microseconds UTC, None before its first message. low: offsets that were gone when they were to be read."""

    messages: list[Message]
    positions: dict[Partition, int]
    events: dict[Partition, int]
    gone: list[tuple[Partition, int, int]] = field(default_factory=list)
    added: list[Partition] = field(default_factory=list)

    @property
    def watermark_us(self) -> int | None:
        """Up to which event time the shard has been read; None while a partition has not said anything."""
        if len(self.events) < len(self.positions):
            return None
        return min(self.events.values(), default=None)


class Shard:
    """One consumer and where it stands. Calls must not overlap."""

    def __init__(self, common: Mapping[str, Any], cluster: str, topics: Sequence[str], number: int, of: int) -> None:
        from confluent_kafka import Consumer

        self._topics, self._number, self._of = topics, number, of
        self._consumer: Consumer = Consumer({**consumer_config(common, cluster), "error_cb": self._error})
        self._stands: dict[Partition, int] | None = None
        self._events: dict[Partition, int] = {}
        self._ended: set[Partition] = set()
        self._fresh: set[Partition] = set()
        self._listed = time.monotonic()
        self._told: dict[str, float] = {}

    def close(self) -> None:
        self._consumer.close()

    @property
    def events(self) -> dict[Partition, int]:
        """Event time that each partition has reached, microseconds UTC."""
        return dict(self._events)

    def stands_at(self, positions: Mapping[Partition, int]) -> bool:
        """Whether the next poll goes on where the last one ended."""
        return positions == self._stands

    def poll(self, positions: Mapping[Partition, int], wait_s: float = WAIT_S) -> Batch:
        """The next messages from these positions on; empty where nothing came in time. Never raises for the broker."""
        if positions != self._stands:
            self._assign(positions)
        added = self._added(positions)
        received = self._consumer.consume(MOST, wait_s) if self._stands else self._nothing(wait_s)
        now_us = time.time_ns() // 1000
        stands = dict(self._stands or {})
        batch = Batch([], stands, {}, added=added)
        parts: dict[Partition, list[Received]] = {}
        for item in received:
            if item.error() is not None:
                self._failed(item)
                continue
            partition: Partition = (item.topic(), item.partition())  # type: ignore[assignment]
            parts.setdefault(partition, []).append(item)
        for partition, items in parts.items():
            self._take(partition, items, batch, now_us)
        self._stands = stands
        for partition in self._ended:
            self._events[partition] = max(self._events.get(partition, 0), now_us - IDLE_US)
        batch.events = self.events
        return batch

    def _take(self, partition: Partition, items: Sequence[Received], batch: Batch, now_us: int) -> None:
        """Messages of one partition, in order. This loop runs for every message."""
        topic, number = partition
        newest, add, offset = 0, batch.messages.append, -1
        for item in items:
            at = item.offset()
            kind, millis = item.timestamp()
            us = millis * 1000
            stamp = (us if us < now_us else now_us) if kind and millis > 0 else None
            newest = max(newest, now_us if stamp is None else stamp)
            headers = item.headers()
            value: Any = item.value()
            add(Message(topic, number, at or 0, stamp, value, _headers(headers) if headers else {}, item.key()))
            offset = at or 0
        first = items[0].offset() or 0
        if partition in self._fresh:
            self._fresh.discard(partition)
            if first > batch.positions[partition]:
                batch.gone.append((partition, batch.positions[partition], first))
        batch.positions[partition] = offset + 1
        self._ended.discard(partition)
        self._events[partition] = max(self._events.get(partition, 0), newest)

    def _assign(self, positions: Mapping[Partition, int]) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(t, n, offset) for (t, n), offset in sorted(positions.items())])
        self._stands = dict(positions)
        self._ended, self._fresh = set(), set(positions)
        self._events = {p: us for p, us in self._events.items() if p in positions}

    def _added(self, positions: Mapping[Partition, int]) -> list[Partition]:
        """Partitions that are new at the broker, from now on read from their begin."""
        now = time.monotonic()
        if now - self._listed < RELIST_S:
            return []
        self._listed = now
        try:
            there = list_partitions(self._consumer, self._topics)
        except BrokerError as error:
            self._say(str(error))
            return []
        new = [p for p in there if p not in positions and shard_of(p, self._of) == self._number]
        if new:
            log.info("partitions were added: %s", ", ".join(f"{t}/{n}" for t, n in new))
            events, ended = self._events, self._ended
            self._assign({**positions, **dict.fromkeys(new, 0)})
            self._events, self._ended = events, ended
        return new

    def _failed(self, item: Received) -> None:
        from confluent_kafka import KafkaError

        error = item.error()
        assert error is not None
        topic, number = item.topic(), item.partition()
        if error.code() == KafkaError._PARTITION_EOF and topic is not None and number is not None:
            self._ended.add((topic, number))
            self._fresh.discard((topic, number))
            return
        self._say(f"{topic}/{number}: {error.str()}")

    def _nothing(self, wait_s: float) -> list[Received]:
        time.sleep(wait_s)
        return []

    def _error(self, error: Any) -> None:  # noqa: ANN401 - KafkaError
        self._say(f"broker: {error.str()}")

    def _say(self, text: str) -> None:
        """Logs a trouble, the same one once a minute."""
        now = time.monotonic()
        if now - self._told.get(text, -60.0) >= 60.0:
            self._told[text] = now
            log.warning("%s; reading goes on when it can", text)


def _headers(pairs: Any) -> dict[str, str]:  # noqa: ANN401 - a list of pairs, or a dict
    return {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
        for name, value in (pairs.items() if isinstance(pairs, dict) else pairs)
    }
