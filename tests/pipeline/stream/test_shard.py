"""Reading a shard of a real broker: positions, event time, what is away and what is added."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest

from pipeline.stream import shard as module
from pipeline.stream.client import Partition, common_config
from pipeline.stream.deadletters import LONGEST, DeadLetters
from pipeline.stream.messages import Message
from pipeline.stream.reading import Dead
from pipeline.stream.shard import Batch, Shard, shard_of
from tests.services.kafka import KafkaBroker

BASE_MS = 1_772_499_600_000


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    return kafka.topic(partitions=2)


@pytest.fixture
def shard(kafka: KafkaBroker, topic: str) -> Iterator[Shard]:
    made = Shard(common_config(kafka.bootstrap, None), "test", [topic], 0, 1)
    yield made
    made.close()


def _all(shard: Shard, at: Mapping[Partition, int], count: int, within_s: float = 30) -> tuple[list[Message], Batch]:
    """Messages from these positions on, until there are `count` of them and the ends are reached."""
    found: list[Message] = []
    until = time.monotonic() + within_s
    batch = shard.poll(at)
    while True:
        found += batch.messages
        if len(found) >= count and not batch.messages:
            return found, batch
        assert time.monotonic() < until, f"{len(found)} messages of {count}"
        batch = shard.poll(batch.positions)


def _sent(kafka: KafkaBroker, topic: str, partition: int, *values: bytes, first_ms: int = BASE_MS) -> None:
    fields = [
        {"value": v, "timestamp": first_ms + 1000 * n, "headers": [("host", b"gn1")]} for n, v in enumerate(values)
    ]
    kafka.send(topic, fields, partition=lambda n: partition)


def test_messages_with_positions_behind_them(kafka: KafkaBroker, topic: str, shard: Shard) -> None:
    _sent(kafka, topic, 0, b"a", b"b", b"c")
    _sent(kafka, topic, 1, b"x")
    begin = {(topic, 0): 1, (topic, 1): 0}
    found, last = _all(shard, begin, 3)
    assert sorted((m.partition, m.offset, m.value) for m in found) == [(0, 1, b"b"), (0, 2, b"c"), (1, 0, b"x")]
    assert last.positions == {(topic, 0): 3, (topic, 1): 1}
    assert found[0].headers == {"host": "gn1"}
    assert next(m.time_us for m in found if m.value == b"b") == (BASE_MS + 1000) * 1000


def test_one_goes_on_where_the_caller_says(kafka: KafkaBroker, topic: str, shard: Shard) -> None:
    _sent(kafka, topic, 0, b"a", b"b", b"c")
    begin = {(topic, 0): 0, (topic, 1): 0}
    _all(shard, begin, 3)
    assert not shard.stands_at(begin)
    again, last = _all(shard, begin, 3)
    assert [m.value for m in again] == [b"a", b"b", b"c"]
    assert shard.stands_at(last.positions)


def test_event_time_is_the_brokers_stamp_and_idle_partitions_follow_the_clock(
    kafka: KafkaBroker, topic: str, shard: Shard
) -> None:
    _sent(kafka, topic, 0, b"a", b"b")
    begin = {(topic, 0): 0, (topic, 1): 0}
    batch = shard.poll(begin)
    while not batch.messages:
        batch = shard.poll(batch.positions)
    assert batch.events[topic, 0] == (BASE_MS + 1000) * 1000
    _, last = _all(shard, batch.positions, 0)
    while last.watermark_us is None or last.watermark_us < BASE_MS * 1000 + 60_000_000:
        last = shard.poll(last.positions)
    assert abs(time.time_ns() // 1000 - last.watermark_us) < 5_000_000


def test_a_clock_in_the_future_moves_nothing_past_now(kafka: KafkaBroker, topic: str, shard: Shard) -> None:
    ahead = int(time.time() * 1000) + 1_800_000  # a broker refuses more than an hour
    _sent(kafka, topic, 0, b"a", first_ms=ahead)
    found, last = _all(shard, {(topic, 0): 0, (topic, 1): 0}, 1)
    now = time.time_ns() // 1000
    assert found[0].time_us is not None
    assert found[0].time_us <= now
    assert max(last.events.values()) <= now


def test_stamps_out_of_order_do_not_move_event_time_back(kafka: KafkaBroker, topic: str, shard: Shard) -> None:
    _sent(kafka, topic, 0, b"late", first_ms=BASE_MS + 90_000)
    _sent(kafka, topic, 0, b"early", first_ms=BASE_MS)
    batch = shard.poll({(topic, 0): 0})
    while sum(batch.positions.values()) < 2:
        batch = shard.poll(batch.positions)
    assert batch.events[topic, 0] >= (BASE_MS + 90_000) * 1000


def test_added_partitions_are_read_from_their_begin(
    kafka: KafkaBroker, topic: str, shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RELIST_S", 0.5)
    at: dict[Partition, int] = {(topic, 0): 0, (topic, 1): 0}
    _, last = _all(shard, at, 0)
    kafka.add_partitions(topic, 4)
    _sent(kafka, topic, 3, b"new")
    found: list[Message] = []
    until = time.monotonic() + 20
    batch = last
    while not found and time.monotonic() < until:
        batch = shard.poll(batch.positions)
        found += batch.messages
    assert [(m.partition, m.value) for m in found] == [(3, b"new")]
    assert batch.positions == {(topic, 0): 0, (topic, 1): 0, (topic, 2): 0, (topic, 3): 1}


def test_shards_share_the_partitions(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RELIST_S", 0.2)
    topic = kafka.topic(partitions=8)
    common = common_config(kafka.bootstrap, None)
    two = [Shard(common, "test", [topic], n, 2) for n in range(2)]
    try:
        batches = [shard.poll({}) for shard in two]
        until = time.monotonic() + 20
        while sum(len(b.positions) for b in batches) < 8 and time.monotonic() < until:
            batches = [shard.poll(b.positions) for shard, b in zip(two, batches, strict=True)]
        for n, batch in enumerate(batches):
            assert set(batch.positions) == {(topic, k) for k in range(8) if shard_of((topic, k), 2) == n}
    finally:
        for shard in two:
            shard.close()


def test_messages_that_are_no_longer_there_are_told(kafka: KafkaBroker, topic: str, shard: Shard) -> None:
    from confluent_kafka import TopicPartition

    _sent(kafka, topic, 0, b"a", b"b", b"c", b"d")
    admin = kafka.admin()
    for future in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result(20)
    gone: list[tuple[Partition, int, int]] = []
    found: list[Message] = []
    batch = shard.poll({(topic, 0): 0})
    until = time.monotonic() + 30
    while not found and time.monotonic() < until:
        gone += batch.gone
        found += batch.messages
        batch = shard.poll(batch.positions)
    assert [m.value for m in found] == [b"d"]
    assert gone == [((topic, 0), 0, 3)]


def test_a_broker_that_goes_away_and_comes_back(kafka: KafkaBroker, topic: str, shard: Shard) -> None:
    _sent(kafka, topic, 0, b"a")
    _, last = _all(shard, {(topic, 0): 0, (topic, 1): 0}, 1)
    kafka.stop()
    began = time.monotonic()
    while time.monotonic() - began < 2:
        last = shard.poll(last.positions)
        assert not last.messages
    kafka.start()
    _sent(kafka, topic, 0, b"b")
    found, _ = _all(shard, last.positions, 1, within_s=60)
    assert [m.value for m in found] == [b"b"]


def test_a_message_of_50_mb_is_read(kafka: KafkaBroker, topic: str, shard: Shard) -> None:
    large = b"x" * (50 << 20)
    _sent(kafka, topic, 0, b"before", large, b"behind")
    found, _ = _all(shard, {(topic, 0): 0, (topic, 1): 0}, 3, within_s=60)
    assert [len(m.value or b"") for m in found] == [6, len(large), 6]


def test_dead_letters_keep_the_bytes_and_say_where_they_came_from(kafka: KafkaBroker) -> None:
    dead = kafka.topic("dead")
    letters = DeadLetters(common_config(kafka.bootstrap, None), dead)
    torn = Message("logs", 3, 17, None, b'{"torn\xff', key=b"k")
    large = Message("logs", 3, 18, None, b"z" * (LONGEST + 5))
    assert letters.send([Dead(torn, "torn JSON"), Dead(large, "too large")]) == 0
    first, second = kafka.read(dead, 2)
    assert (first.value(), first.key()) == (torn.value, b"k")
    assert dict(first.headers() or []) == {"reason": b"torn JSON", "topic": b"logs", "partition": b"3", "offset": b"17"}
    assert len(second.value() or b"") == LONGEST
    assert dict(second.headers() or [])["length"] == str(LONGEST + 5).encode()


def test_dead_letters_that_do_not_arrive_are_counted(kafka: KafkaBroker) -> None:
    common = {**common_config(kafka.bootstrap, None), "message.timeout.ms": "1500"}
    letters = DeadLetters(common, "a-topic-that-nobody-made")
    assert letters.send([Dead(Message("logs", 0, 0, None, b"x"), "why")]) == 1
