"""The stream as seen from outside: lag, standstill, what is away; over HTTP as Prometheus and a probe ask."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.stream.health import Monitor
from pipeline.stream.metrics import MetricsError, MetricsServer
from pipeline.stream.stats import WorkerStats
from schemas.facts import Facts
from sql.migrations import upgrade
from sql.store import Store, open_store
from tests.services.kafka import KafkaBroker

CLUSTER = "c"
EVENT_US = 1_772_366_400_000_000


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'w.db'}"
    upgrade(url)
    with open_store(url) as opened:
        yield opened


class Broker:
    """Offsets as a broker tells them, set by the test. The real one answers in the tests below."""

    def __init__(self, **ends: int) -> None:
        self.ends = {("t", int(name[1:])): (0, n) for name, n in ends.items()}

    def __call__(self) -> dict[tuple[str, int], tuple[int, int]]:
        return self.ends


def _durable(store: Store, partition: int, offset: int, topic: str = "t") -> None:
    store.load_facts(Facts(), cluster=CLUSTER, positions=[(topic, partition, offset, EVENT_US)])


def _running(monitor: Monitor, submission: str = "s1", *, again: bool = False) -> None:
    monitor.submitted(submission, again=again)


def test_lag_is_what_is_not_durable_and_counts_from_what_the_broker_still_holds(store: Store) -> None:
    broker = Broker(p0=10, p1=10, p2=10)
    broker.ends["t", 1] = (4, 10)  # never read: the first four are deleted already
    broker.ends["t", 2] = (8, 10)  # read up to 5, three of which are lost
    monitor = Monitor(store, CLUSTER, broker)
    _durable(store, 0, 7)
    _durable(store, 2, 5)
    assert monitor.poll().lag() == {("t", 0): 3, ("t", 1): 6, ("t", 2): 2}


def test_healthy_while_positions_move_and_when_nothing_waits(store: Store, clock: Clock) -> None:
    broker = Broker(p0=10)
    monitor = Monitor(store, CLUSTER, broker, stall_s=60, clock=clock)
    _running(monitor)
    for offset in (2, 4, 10):
        _durable(store, 0, offset)
        clock.s += 50
        monitor.poll()
        assert monitor.health().ok
    clock.s += 10_000  # idle for hours: nothing waits
    monitor.poll()
    assert monitor.health().ok


def test_a_stream_that_stands_still_is_not_healthy_until_it_moves(store: Store, clock: Clock) -> None:
    broker = Broker(p0=10, p1=0)  # the other partition is empty, and is no progress
    monitor = Monitor(store, CLUSTER, broker, stall_s=60, clock=clock)
    _running(monitor)
    _durable(store, 0, 4)
    monitor.poll()
    for _ in range(7):
        clock.s += 10
        monitor.poll()
    health = monitor.health()
    assert not health.ok
    assert health.reasons == ("6 messages wait and no position has moved for 70 s",)
    _durable(store, 0, 5)
    monitor.poll()
    assert monitor.health().ok


def test_one_partition_that_nobody_reads_is_told_later(store: Store, clock: Clock) -> None:
    broker = Broker(p0=1000, p1=10)
    monitor = Monitor(store, CLUSTER, broker, stall_s=60, clock=clock)
    _running(monitor)
    for n in range(1, 8):
        _durable(store, 0, n)
        monitor.poll()
        assert monitor.health().ok
        clock.s += 50
    monitor.poll()
    assert monitor.health().reasons == ("partition 1 of t has not moved for 350 s",)


def test_a_pipeline_that_waits_to_be_submitted_says_why_and_a_new_one_starts_afresh(store: Store, clock: Clock) -> None:
    monitor = Monitor(store, CLUSTER, Broker(p0=10), stall_s=60, clock=clock)
    _running(monitor)
    monitor.poll()
    clock.s += 100
    monitor.pipeline_is("waiting", "the worker died")
    monitor.poll()
    health = monitor.health()
    assert not health.ok
    assert health.reasons[0] == "the pipeline is waiting: the worker died"
    _running(monitor, "s2", again=True)
    monitor.poll()
    assert monitor.health().ok
    assert monitor.health().details["restarts"] == 1


def test_what_is_away_keeps_its_last_values_and_says_so(store: Store, tmp_path: Path) -> None:
    monitor = Monitor(store, CLUSTER, Broker(p0=10))
    _running(monitor)
    _durable(store, 0, 7)
    assert monitor.poll().lag() == {("t", 0): 3}
    store.close()
    (tmp_path / "w.db").rename(tmp_path / "away.db")
    (tmp_path / "w.db").mkdir()
    found = monitor.poll()
    assert found.lag() == {("t", 0): 3}
    assert found.warehouse
    assert [r for r in monitor.health().reasons if r.startswith("warehouse: ")]
    (tmp_path / "w.db").rmdir()
    (tmp_path / "away.db").rename(tmp_path / "w.db")
    monitor.poll()
    assert monitor.health().ok


def test_open_timers_are_those_of_this_submission(store: Store) -> None:
    monitor = Monitor(store, CLUSTER, Broker(p0=0))
    for worker, submission, opened, fired in (("a", "s1", 9, 2), ("b", "s2", 5, 1), ("c", "s2", 3, 3)):
        stats = WorkerStats(worker)
        stats.submission = submission
        stats.count("timers_set", opened)
        stats.count("timers_fired", fired)
        stats.flush(store, CLUSTER, now=True)
    assert monitor.poll().open_timers("s2") == 4


def test_a_monitor_that_no_longer_looks_is_not_healthy(store: Store, clock: Clock) -> None:
    monitor = Monitor(store, CLUSTER, Broker(p0=0), stall_s=60, clock=clock)
    _running(monitor)
    monitor.poll()
    assert monitor.health().ok
    clock.s += 61
    assert monitor.health().reasons == ("broker and warehouse have not been asked for 61 s",)


def test_rows_of_workers_that_ended_long_ago_are_folded_with_the_next_submission(tmp_path: Path) -> None:
    now = [datetime(2026, 3, 1, tzinfo=UTC)]
    with open_store(f"sqlite:///{tmp_path / 'w.db'}", create=True, clock=lambda: now[0]) as store:
        monitor = Monitor(store, CLUSTER, Broker(p0=0))
        for worker in ("a", "b"):
            stats = WorkerStats(worker)
            stats.count("loads", 3)
            stats.flush(store, CLUSTER, now=True)
        now[0] += timedelta(hours=1)
        _running(monitor, "s2", again=True)
        assert set(monitor.poll().workers) == {"past"}
        assert monitor.snapshot.totals.of("loads") == 6


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def _samples(text: str) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    return {
        s.name + "".join(f"|{k}={v}" for k, v in sorted(s.labels.items())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_prometheus_can_read_everything(store: Store) -> None:
    monitor = Monitor(store, CLUSTER, Broker(p0=10))
    _running(monitor)
    stats = WorkerStats("w1")
    stats.submission = "s1"
    stats.count("messages", 5, topic="t", what="signals")
    stats.count("incidents", 2, component="gpu", provisional="true", what="new")
    stats.count("dead_letters", 1, topic="t", reason='not JSON: "x\\y"\n')
    stats.observe("kafka_to_row", 0.7, 3)
    stats.observe("kafka_to_row", 1e6)
    stats.flush(store, CLUSTER, now=True)
    _durable(store, 0, 7)
    monitor.poll()
    with MetricsServer(monitor) as server:
        status, text = _get(server.port, "/metrics")
    found = _samples(text)
    assert status == 200
    name = "faultbeam_stream"
    assert found[f"{name}_up"] == 1
    assert found[f"{name}_lag_messages|partition=0|topic=t"] == 3
    assert found[f"{name}_position|partition=0|topic=t"] == 7
    assert found[f"{name}_event_age_seconds|partition=0|topic=t"] > 0
    assert found[f"{name}_messages_total|topic=t|what=signals"] == 5
    assert found[f"{name}_incidents_total|component=gpu|provisional=true|what=new"] == 2
    assert found[f'{name}_dead_letters_total|reason=not JSON: "x\\y"\n|topic=t'] == 1
    assert found[f"{name}_database_retries_total"] == 0
    assert found[f"{name}_restarts_total"] == 0
    assert found[f"{name}_kafka_to_row_seconds_bucket|le=0.5"] == 0
    assert found[f"{name}_kafka_to_row_seconds_bucket|le=1.0"] == 3
    assert found[f"{name}_kafka_to_row_seconds_bucket|le=3600.0"] == 3
    assert found[f"{name}_kafka_to_row_seconds_bucket|le=+Inf"] == 4
    assert found[f"{name}_kafka_to_row_seconds_count"] == 4
    assert found[f"{name}_worker_memory_bytes|worker=w1"] > 1_000_000
    assert found["process_resident_memory_bytes"] > 1_000_000


def test_a_port_in_use_is_told_with_the_next_step(store: Store) -> None:
    monitor = Monitor(store, CLUSTER, Broker())
    with (
        MetricsServer(monitor) as server,
        pytest.raises(MetricsError, match=rf"127\.0\.0\.1:{server.port} .*--metrics-port"),
    ):
        MetricsServer(monitor, server.port)


def test_other_paths_are_not_there(store: Store) -> None:
    with MetricsServer(Monitor(store, CLUSTER, Broker())) as server:
        assert _get(server.port, "/")[0] == 404


def test_the_probe_follows_a_real_broker_that_stops_and_comes_back(kafka: KafkaBroker, store: Store) -> None:
    from pipeline.stream.offsets import BrokerEnds

    topic = kafka.topic(partitions=2)
    kafka.topic("of-somebody-else")
    kafka.send(topic, [b"x"] * 6, partition=lambda n: n % 2)
    _durable(store, 0, 2, topic)
    ends = BrokerEnds({"bootstrap.servers": kafka.bootstrap}, lambda name: name == topic, timeout_s=2)
    monitor = Monitor(store, CLUSTER, ends)
    _running(monitor)
    assert monitor.poll().lag() == {(topic, 0): 1, (topic, 1): 3}
    kafka.add_partitions(topic, 3)
    kafka.send(topic, [b"y"], partition=lambda n: 2)
    assert monitor.poll().lag() == {(topic, 0): 1, (topic, 1): 3, (topic, 2): 1}
    with MetricsServer(monitor) as server:
        assert _get(server.port, "/healthz")[0] == 200
        kafka.stop()
        monitor.poll()
        status, body = _get(server.port, "/healthz")
        told = json.loads(body)
        assert (status, told["ok"], told["lag"]) == (503, False, 5)
        assert told["reasons"][0].startswith("broker: no answer")
        kafka.start()
        until = time.monotonic() + 30  # the client waits between its tries
        while monitor.poll().broker and time.monotonic() < until:
            time.sleep(0.2)
        assert _get(server.port, "/healthz")[0] == 200


def test_a_topic_without_partitions_to_ask_is_no_error(kafka: KafkaBroker) -> None:
    from pipeline.stream.offsets import BrokerEnds

    assert BrokerEnds({"bootstrap.servers": kafka.bootstrap}, lambda _: False)() == {}


def test_the_thread_polls_by_itself(store: Store) -> None:
    monitor = Monitor(store, CLUSTER, Broker(p0=3), poll_s=0.05)
    _running(monitor)
    with monitor:
        until = time.monotonic() + 10
        while not monitor.health().ok and time.monotonic() < until:
            time.sleep(0.05)
        _durable(store, 0, 3)
        while monitor.health().details["lag"] and time.monotonic() < until:
            time.sleep(0.05)
    assert monitor.health().details["lag"] == 0
