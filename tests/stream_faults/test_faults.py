"""Nothing is lost and nothing counts twice, whatever dies: what a killed stream tells is what a batch load tells."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sql.migrations import upgrade
from tests.pipeline.stream.archive import Sent
from tests.services.fixtures import BeginStream
from tests.services.kafka import KafkaBroker
from tests.services.postgres import PostgresServer
from tests.stream_faults.harness import (
    GRACE_S,
    Sender,
    Told,
    await_victim,
    differences,
    keep_alive,
    of_batch,
    settle,
    site,
    victims,
)


@pytest.fixture(scope="module")
def sent() -> list[Sent]:
    return site()


@pytest.fixture(scope="module")
def batch(sent: list[Sent], tmp_path_factory: pytest.TempPathFactory) -> Told:
    found = of_batch(sent, tmp_path_factory.mktemp("batch"))
    assert len(found["incidents"]) > 10
    assert sum(found["signals"].values()) > 500
    return found


@pytest.fixture
def rng() -> random.Random:
    """Another seed each time, printed with a failure; FAULTBEAM_SEED repeats one."""
    seed = int(os.environ.get("FAULTBEAM_SEED") or random.SystemRandom().randrange(10**6))
    print(f"FAULTBEAM_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def url(stream_postgres: PostgresServer) -> str:
    found = stream_postgres.database()
    upgrade(found)
    return found


@pytest.fixture
def begin(begin_stream: BeginStream) -> BeginStream:
    """A stream whose answers become final within a test."""
    return partial(begin_stream, grace_s=GRACE_S, pass_every="2")


def test_one_message_lost_or_counted_twice_shows(sent: list[Sent], batch: Told, tmp_path: Path) -> None:
    """The comparison of the tests below can fail."""
    at = next(n for n, m in enumerate(sent) if b"NVRM: Xid" in m.value)
    lost = differences(of_batch([*sent[:at], *sent[at + 1 :]], tmp_path / "lost"), batch)
    assert any(line.startswith("signals: lost 1 x") for line in lost)
    twice = differences(of_batch([*sent[:at], sent[at], *sent[at:]], tmp_path / "twice"), batch)
    assert any(line.startswith("signals: too many 1 x") for line in twice)


def _killed(
    times: int, kafka: KafkaBroker, url: str, begin: BeginStream, sent: list[Sent], rng: random.Random
) -> tuple[Told, list[str]]:
    """Sends the site while the stream's processes are killed at random moments; (what is told, who was killed)."""
    topic = kafka.topic(partitions=3)
    stream = begin(topic, url)
    sender = Sender(kafka, topic, sent, rng, seconds=4.0 * times, partitions=3)
    sender.start()
    dead = []
    kinds = ["pipeline", "supervisor", "prism", "decider"]
    for n in range(times):
        time.sleep(rng.uniform(0.5, 7.0))
        who = kinds[n % 4] if n < 4 else rng.choice(kinds)
        stream.kill(await_victim(stream, who))
        dead.append(who)
        keep_alive(stream)
    print(f"killed: {dead}")
    sender.wait(120 + 10 * times)
    found = settle(stream, kafka, topic, url)
    assert stream.stop() == 0
    assert stream.left() == []
    return found, dead


def test_killed_at_random_moments(
    kafka: KafkaBroker, url: str, begin: BeginStream, sent: list[Sent], batch: Told, rng: random.Random
) -> None:
    found, dead = _killed(5, kafka, url, begin, sent, rng)
    assert {"pipeline", "supervisor", "prism"} <= set(dead)
    assert differences(found, batch) == []


@pytest.mark.soak
@pytest.mark.parametrize("round", range(4))
def test_killed_at_many_random_moments(
    round: int, kafka: KafkaBroker, url: str, begin: BeginStream, sent: list[Sent], batch: Told, rng: random.Random
) -> None:
    found, dead = _killed(8, kafka, url, begin, sent, rng)
    assert {"pipeline", "supervisor", "prism"} <= set(dead)
    assert differences(found, batch) == []


def _away_and_back(
    restart: Callable[[bool, float], None],
    kafka: KafkaBroker,
    url: str,
    begin: BeginStream,
    sent: list[Sent],
    batch: Told,
    rng: random.Random,
) -> None:
    """Sends the site while a server is killed, then ended, and comes back a while later each time."""
    topic = kafka.topic(partitions=2)
    stream = begin(topic, url)
    sender = Sender(kafka, topic, sent, rng, seconds=10, partitions=2)
    sender.start()
    for worse in (True, False):
        time.sleep(rng.uniform(1.0, 3.0))
        restart(worse, rng.uniform(0.0, 3.0))
    sender.wait(120)
    assert differences(settle(stream, kafka, topic, url), batch) == []
    assert stream.starts == 1


def test_the_database_crashes_and_comes_back(
    kafka: KafkaBroker,
    stream_postgres: PostgresServer,
    url: str,
    begin: BeginStream,
    sent: list[Sent],
    batch: Told,
    rng: random.Random,
) -> None:
    _away_and_back(
        lambda worse, away_s: stream_postgres.restart(crash=worse, away_s=away_s), kafka, url, begin, sent, batch, rng
    )


def test_the_broker_dies_and_comes_back(
    kafka: KafkaBroker, url: str, begin: BeginStream, sent: list[Sent], batch: Told, rng: random.Random
) -> None:
    _away_and_back(
        lambda worse, away_s: kafka.restart(killed=worse, away_s=away_s), kafka, url, begin, sent, batch, rng
    )


def test_partitions_are_added(
    kafka: KafkaBroker, url: str, begin: BeginStream, sent: list[Sent], batch: Told, rng: random.Random
) -> None:
    topic = kafka.topic(partitions=1)
    stream = begin(topic, url)
    half = len(sent) // 2
    first = Sender(kafka, topic, sent[:half], rng, seconds=3, partitions=1)
    first.start()
    time.sleep(1.5)
    kafka.add_partitions(topic, 3)
    first.wait(60)
    rest = Sender(kafka, topic, sent[half:], rng, seconds=3, partitions=3)
    rest.start()
    rest.wait(60)
    assert differences(settle(stream, kafka, topic, url), batch) == []
    assert stream.starts == 1


@pytest.mark.soak
@pytest.mark.parametrize("round", range(5))
def test_everything_at_once(
    round: int,
    kafka: KafkaBroker,
    stream_postgres: PostgresServer,
    url: str,
    begin: BeginStream,
    sent: list[Sent],
    batch: Told,
    rng: random.Random,
) -> None:
    """Database, broker and the stream's own processes die in random order, and partitions are added in between."""
    topic = kafka.topic(partitions=2)
    stream = begin(topic, url)
    sender = Sender(kafka, topic, sent, rng, seconds=45, partitions=2)
    sender.start()
    acts: list[Callable[[], None]] = [
        lambda: stream_postgres.restart(crash=rng.random() < 0.5, away_s=rng.uniform(0, 4)),
        lambda: kafka.restart(killed=rng.random() < 0.5, away_s=rng.uniform(0, 4)),
        lambda: kafka.add_partitions(topic, 4),
        *[lambda: stream.kill(rng.choice(list(victims(stream).values())))] * 5,
    ]
    rng.shuffle(acts)
    for act in acts:
        time.sleep(rng.uniform(0.5, 6.0))
        act()
        keep_alive(stream)
    sender.partitions = 4 if len(kafka.end_offsets(topic)) == 4 else 2
    sender.wait(240)
    assert differences(settle(stream, kafka, topic, url, 240), batch) == []
