"""The servers of the tests do what the tests of the stream rely on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tests.services import cache
from tests.services.kafka import PASSWORD, USER, KafkaBroker
from tests.services.postgres import PostgresServer


def test_messages_outlive_a_killed_broker_at_the_same_address(kafka: KafkaBroker) -> None:
    topic = kafka.topic(partitions=2)
    assert kafka.send(topic, [b"a", b"b", b"c"], partition=lambda n: n % 2) == 3
    before, address = kafka.pid, kafka.bootstrap
    kafka.restart(killed=True)
    assert (kafka.bootstrap, kafka.pid != before) == (address, True)
    kafka.send(topic, [b"d"], partition=lambda n: 1)
    assert sorted(m.value() for m in kafka.read(topic)) == [b"a", b"b", b"c", b"d"]
    assert kafka.end_offsets(topic) == {0: 2, 1: 2}


def test_a_broker_that_was_stopped_runs_for_the_next_test(kafka: KafkaBroker) -> None:
    kafka.stop()
    assert kafka.pid is None
    kafka.start()
    assert kafka.admin().list_topics(timeout=10).brokers


def test_partitions_are_added_while_the_broker_runs(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    kafka.add_partitions(topic, 3)
    kafka.send(topic, [b"x"], partition=lambda n: 2)
    assert kafka.end_offsets(topic) == {0: 0, 1: 0, 2: 1}


def test_a_topic_that_nobody_made_is_unknown(kafka: KafkaBroker) -> None:
    from confluent_kafka import KafkaError

    known = kafka.admin().list_topics("never-made", timeout=10).topics["never-made"]
    assert known.error is not None
    assert known.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_message_of_50_mb_goes_through(kafka: KafkaBroker) -> None:
    topic = kafka.topic()
    large = b"x" * (50 * 1024 * 1024)
    kafka.send(topic, [large])
    assert [len(m.value() or b"") for m in kafka.read(topic)] == [len(large)]


@pytest.mark.parametrize(("password", "let_in"), [(PASSWORD, True), ("wrong", False)])
def test_the_listener_with_credentials_asks_for_them(kafka: KafkaBroker, password: str, let_in: bool) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient(
        {
            "bootstrap.servers": kafka.sasl_bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": password,
            "log_level": 0,
        }
    )
    if let_in:
        assert admin.list_topics(timeout=20).brokers
    else:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=2)


def _listening(pid: int) -> set[str]:
    """Local addresses on which a process listens, as hexadecimal words of /proc."""
    sockets = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = str(fd.readlink())
        except OSError:
            continue
        if found := re.fullmatch(r"socket:\[(\d+)\]", name):
            sockets.add(found[1])
    rows = [r.split() for t in ("tcp", "tcp6") for r in Path(f"/proc/net/{t}").read_text().splitlines()[1:]]
    return {r[1].rsplit(":", 1)[0] for r in rows if r[3] == "0A" and r[9] in sockets}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_broker_listens_on_the_loopback_only(kafka: KafkaBroker) -> None:
    assert kafka.pid is not None
    found = _listening(kafka.pid)
    assert found
    assert found <= {"0100007F", "0000000000000000FFFF00000100007F"}


@pytest.mark.parametrize("crash", [False, True])
def test_what_was_committed_outlives_the_database_server(stream_postgres: PostgresServer, crash: bool) -> None:
    url, before = stream_postgres.database(), stream_postgres.pid
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE kept (n int)"))
        connection.execute(text("INSERT INTO kept SELECT generate_series(1, 1000)"))
    stream_postgres.stop(crash=crash)
    with pytest.raises(OperationalError), create_engine(url).connect():
        pass
    engine.dispose()
    stream_postgres.start()
    assert stream_postgres.pid != before
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM kept")).scalar() == 1000
    engine.dispose()


def test_prism_says_its_options(prism_location: Path) -> None:
    done = subprocess.run([prism_location, "--help"], capture_output=True, text=True, check=False, timeout=60)
    assert "-job_port" in done.stdout + done.stderr


def test_a_part_that_fails_to_be_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder on the path with programs that fail: the reason is told, and no half part stays in the cache."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("mvn", "go"):
        (programs / name).write_text("#!/bin/sh\necho no network >&2\nexit 7\n")
        (programs / name).chmod(0o755)
    (programs / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    (programs / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("FAULTBEAM_SERVICES", str(tmp_path / "cache"))
    told = [text for _, text, _ in cache.set_up()]
    assert all(t.startswith("not available") and "ended with 7" in t and "no network" in t for t in told)
    assert [p.name for p in (tmp_path / "cache").iterdir() if not p.name.endswith(".lock")] == []


def test_an_old_java_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019' >&2\n")
    (tmp_path / "java").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(cache.Unavailable, match=r"11\.0\.2, the broker needs 17"):
        cache.java()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(cache.Unavailable, match="no java on the path"):
        cache.java()
