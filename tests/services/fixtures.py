"""Fixtures of the real servers. Each is started by the first test of a session that asks, and ended with the session.

A machine without Java, Maven or Go skips these tests and says why; under CI that is a failure. A test may stop, kill
and restart a server: the next test finds it running again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.services.cache import Unavailable, prism
from tests.services.kafka import KafkaBroker
from tests.services.postgres import PostgresServer
from tests.services.stream import StreamProcess

T = TypeVar("T")


def _made(what: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"{what} is needed in CI: {error}")
        pytest.skip(f"no {what}: {error}")


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """The broker of the session; tests take `kafka`, which is known to run."""
    if not os.environ.get("CI"):
        pytest.importorskip("confluent_kafka", reason="reads Kafka: pip install 'faultbeam[stream]'")
    broker = _made("Kafka broker", lambda: KafkaBroker(tmp_path_factory.mktemp("kafka")))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def kafka(kafka_broker: KafkaBroker) -> KafkaBroker:
    """A running broker; `kafka.topic()` makes a topic of one's own."""
    kafka_broker.start()
    return kafka_broker


@pytest.fixture(scope="session")
def prism_location() -> Path:
    """Path of Beam's Prism runner."""
    return _made("Prism", prism)


@pytest.fixture(scope="session")
def stream_postgres_server() -> Iterator[PostgresServer]:
    """The server of the session that tests may stop; tests take `stream_postgres`, which is known to run."""
    # A short path: the server's socket lies below it. As root the wheel starts it as another user, who must get in.
    with tempfile.TemporaryDirectory(prefix="fbst", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = _made("PostgreSQL", lambda: PostgresServer(Path(folder)))
        try:
            yield server
        finally:
            server.close()


@pytest.fixture
def stream_postgres(stream_postgres_server: PostgresServer) -> PostgresServer:
    """A running server; `stream_postgres.database()` makes an empty database."""
    stream_postgres_server.start()
    return stream_postgres_server


#: Starts a stream of a topic into a warehouse: (topic, url, grace_s=..., further options by name).
BeginStream = Callable[..., StreamProcess]


@pytest.fixture
def begin_stream(kafka: KafkaBroker, prism_location: Path, tmp_path: Path) -> Iterator[BeginStream]:
    """Starts streams and waits until they are healthy; whatever they leave is ended with the test."""
    made: list[StreamProcess] = []

    def start(topic: str, url: str, grace_s: int = 4, **more: str) -> StreamProcess:
        options = {
            "--bootstrap-servers": kafka.bootstrap,
            "--topic": topic,
            "--warehouse": url,
            "--prism-location": str(prism_location),
            "--set": f"grace_s={grace_s}",
            "--pass-every": "3",
            **{f"--{name.replace('_', '-')}": value for name, value in more.items()},
        }
        stream = StreamProcess(tmp_path, options)
        made.append(stream)
        stream.start()
        stream.await_health()
        return stream

    yield start
    for stream in made:
        stream.close()
