"""The same stream through a job server and a worker pool, as on Flink: all of its steps in other processes."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.stream.prism import Prism
from pipeline.stream.sources import HOLD_S
from sql.migrations import upgrade
from sql.same import same_bytes
from sql.store import open_store
from tests.pipeline.stream.test_end_to_end import expected
from tests.pipeline.stream.test_reading import site
from tests.services.kafka import KafkaBroker
from tests.services.postgres import PostgresServer
from tests.services.process import end, leashed
from tests.services.stream import StreamProcess
from tests.stream_faults.harness import settle

__all__ = ["expected"]


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[str]:
    """Address of a worker pool on the loopback."""
    port = tmp_path / "port"
    command = [sys.executable, "-m", "pipeline.beam.worker_pool", "--port-file", str(port)]
    process = leashed(command, tmp_path / "pool.log")
    try:
        until = time.monotonic() + 60
        while not port.exists():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        yield f"127.0.0.1:{port.read_text()}"
    finally:
        end(process)


@pytest.fixture
def job_server(prism_location: Path) -> Iterator[str]:
    """Prism, started by hand as a job server."""
    prism = Prism(str(prism_location))
    yield prism.endpoint
    prism.close()


def test_through_a_job_server_and_a_worker_pool(
    kafka: KafkaBroker, stream_postgres: PostgresServer, pool: str, job_server: str, tmp_path: Path, expected: bytes
) -> None:
    url = stream_postgres.database()
    upgrade(url)
    topic = kafka.topic(partitions=4)
    options = {
        "--bootstrap-servers": kafka.bootstrap,
        "--topic": f"^{topic}",
        "--warehouse": url,
        "--runner": "PortableRunner",
        "--shards": "2",
        "--set": "grace_s=4",
        "--pass-every": "3",
    }
    beam = (f"job_endpoint={job_server}", "environment_type=EXTERNAL", f"environment_config={pool}")
    stream = StreamProcess(tmp_path, options, [word for option in beam for word in ("--beam-option", option)])
    try:
        stream.start()
        stream.await_health()
        rng = random.Random(11)
        kafka.send(topic, [s.fields() for s in site()], partition=lambda n: rng.randrange(4))
        settle(stream, kafka, topic, url)
        time.sleep(HOLD_S + 2)  # a worker elsewhere is not told of a stop: what it holds must have been written
        settle(stream, kafka, topic, url)
        assert stream.stop() == 0
    finally:
        stream.close()
    with open_store(url) as store:
        assert same_bytes(store).splitlines() == expected.splitlines()
