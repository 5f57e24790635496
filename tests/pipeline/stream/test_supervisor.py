"""What a start refuses, and why; how a submission is handed over; how often one tries again."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipeline.cli.main import cli
from pipeline.stream import supervisor as module
from pipeline.stream.plan import Plan, Submission
from pipeline.stream.prism import Prism, prism_path
from pipeline.stream.supervisor import Supervisor, check_plan
from schemas.errors import FaultbeamError
from schemas.settings import Settings
from tests.services.kafka import USER, KafkaBroker
from tests.services.postgres import PostgresServer
from tests.services.process import free_ports

PLAN = Plan("k:1", ("logs",), "postgresql://me@db/w", Settings(cluster="c", grace_s=7))


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    """The command sets up logging for itself."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _refused(**plan: object) -> str:
    with pytest.raises(FaultbeamError) as error:
        check_plan(replace(PLAN, **plan))  # type: ignore[arg-type]
    return str(error.value)


@pytest.mark.parametrize("runner", ["DirectRunner", "directrunner", "FnApiRunner", "BundleBasedDirectRunner"])
def test_runners_that_finish_what_they_read_are_refused(runner: str) -> None:
    assert "a stream has no end" in _refused(runner=runner)


def test_sqlite_is_for_one_process() -> None:
    assert "one writer" in _refused(
        runner="PortableRunner", pipeline_args=("--job_endpoint=h:1",), warehouse="sqlite:///w.db"
    )
    check_plan(replace(PLAN, runner="PortableRunner", pipeline_args=("--job_endpoint=h:1",)))


def test_a_runner_without_what_it_needs_is_refused() -> None:
    assert "--job_endpoint" in _refused(runner="PortableRunner")
    assert "no Prism at /no/prism" in _refused(prism_location="/no/prism")


def test_a_submission_is_one_line() -> None:
    made = Submission(replace(PLAN, start=5, pipeline_args=("--a=b\n",)), "n", (("logs", 0, 7),), "h:1")
    assert "\n" not in made.text()
    assert Submission.of(made.text()) == made


def test_prism_runs_as_long_as_it_is_wanted(prism_location: Path) -> None:
    one, two = Prism(prism_path(str(prism_location))), Prism(prism_path(str(prism_location)))
    assert one.endpoint != two.endpoint
    one.close()
    one.close()
    assert [p.alive for p in (one, two)] == [False, True]
    two.close()


def _run(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, ["stream", *map(str, words)])


def _of(kafka: KafkaBroker, prism: Path, url: str, topic: str, servers: str = "") -> list[str | Path]:
    return ["--bootstrap-servers", servers or kafka.bootstrap, "--topic", topic, "--warehouse", url,
            "--prism-location", prism]  # fmt: skip


def test_an_unknown_topic_ends_the_start(kafka: KafkaBroker, prism_location: Path, tmp_path: Path) -> None:
    result = _run(*_of(kafka, prism_location, f"sqlite:///{tmp_path}/w.db", "nobody-made-it"))
    assert result.exit_code == 2
    assert "no topic 'nobody-made-it'" in result.output


def test_wrong_credentials_end_the_start(kafka: KafkaBroker, prism_location: Path, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username={USER}\nsasl.password=wrong-one\n"
    )
    url = f"sqlite:///{tmp_path}/w.db"
    result = _run(*_of(kafka, prism_location, url, "logs", kafka.sasl_bootstrap), "--consumer-config", file)
    assert result.exit_code == 2
    assert "refuses us" in result.output
    assert "wrong-one" not in result.output


def test_a_schema_that_is_behind_ends_the_start(
    kafka: KafkaBroker, prism_location: Path, stream_postgres: PostgresServer
) -> None:
    result = _run(*_of(kafka, prism_location, stream_postgres.database(), kafka.topic()))
    assert result.exit_code == 2
    assert "db upgrade" in result.output


def test_a_broker_that_is_away_ends_the_start(
    kafka: KafkaBroker, prism_location: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.stream.client.START_S", 1.0)
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    result = _run(*_of(kafka, prism_location, f"sqlite:///{tmp_path}/w.db", "logs", nobody))
    assert result.exit_code == 2
    assert "does not answer" in result.output


@pytest.mark.parametrize("words", [["--start", "yesterday"], ["--topic", "x", "--rewind", "-1"], []])
def test_wrong_use(words: list[str]) -> None:
    assert _run("--bootstrap-servers", "k:1", *words).exit_code == 2


def test_a_pipeline_that_dies_young_is_submitted_later_and_later(
    kafka: KafkaBroker, prism_location: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the pipeline is one that ends at once; each wait is longer, and the last one is cut by a stop."""
    waits = (0.05, 0.1, 0.2, 60.0)
    monkeypatch.setattr(module, "BACK_OFF", waits)
    monkeypatch.setattr(module, "_JOB", "this.module.is.not")
    topic = kafka.topic()
    plan = Plan(kafka.bootstrap, (topic,), f"sqlite:///{tmp_path}/w.db", Settings(), prism_location=str(prism_location))
    one = Supervisor(plan)

    def end() -> None:
        until = time.monotonic() + 45
        while one.submissions < len(waits) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        one.stop()

    ending = threading.Thread(target=end)
    ending.start()
    began = time.monotonic()
    one.run()
    ending.join()
    assert one.submissions == len(waits)
    assert sum(waits[:-1]) < time.monotonic() - began < 50
    assert one.child is not None
    assert one.child.returncode not in (0, None, -signal.SIGKILL)
