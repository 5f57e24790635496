"""`doctor --stream` against a real broker: what is right is said to be, what is wrong is named with the next step."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.cli.main import cli
from pipeline.doctor import Check
from pipeline.stream.checks import check_prism, check_stream
from tests.services.kafka import PASSWORD, USER, KafkaBroker

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER}


def _checks(config: dict[str, Any], *topics: str, timeout_s: float = 10.0) -> dict[str, Check]:
    return {c.name: c for c in check_stream(config, topics, timeout_s=timeout_s)}


def _plain(kafka: KafkaBroker) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap}


def test_a_stream_that_could_run(kafka: KafkaBroker) -> None:
    topic = kafka.topic("logs", partitions=3)
    kafka.send(topic, [b"x", b"y"], partition=lambda n: n)
    found = _checks(_plain(kafka), topic)
    assert [c for c in found.values() if c.level == "fail"] == []
    assert "1 brokers" in found["stream: broker"].found
    assert found["stream: credentials"].found == "none asked for"
    assert found[f"stream: topic {topic}"].found == "3 partitions"
    assert found[f"stream: retention of {topic}"].found == "for ever"
    clock = found[f"stream: clock of {topic}"].found
    assert re.fullmatch(r"not ahead; newest message \d s old, stamped by a producer", clock)


def test_nothing_is_committed_or_produced(kafka: KafkaBroker) -> None:
    topic = kafka.topic("logs")
    kafka.send(topic, [b"x"])
    _checks(_plain(kafka), topic)
    assert kafka.end_offsets(topic) == {0: 1}
    groups = kafka.admin().list_consumer_groups(request_timeout=10).result().valid
    assert "faultbeam-doctor" not in {g.group_id for g in groups}


def test_patterns_choose_topics(kafka: KafkaBroker) -> None:
    one, two = kafka.topic("pattern-a"), kafka.topic("pattern-b")
    found = _checks(_plain(kafka), "^pattern-[ab].*")
    assert {f"stream: topic {one}", f"stream: topic {two}"} <= found.keys()


def test_an_unknown_topic_is_named_with_one_alike(kafka: KafkaBroker) -> None:
    topic = kafka.topic("cluster-logs")
    wrong = topic.replace("logs", "lgos")
    check = _checks(_plain(kafka), wrong)[f"stream: topic {wrong}"]
    assert (check.level, check.found, check.hint) == ("fail", "unknown", f"did you mean {topic}?")


def test_wrong_credentials_are_told_apart_from_a_broker_that_is_away(kafka: KafkaBroker) -> None:
    config = {"bootstrap.servers": kafka.sasl_bootstrap, **SASL}
    right = _checks({**config, "sasl.password": PASSWORD})
    assert right["stream: credentials"].found == f"accepted, as {USER}"
    wrong = _checks({**config, "sasl.password": "not-it"}, timeout_s=4)
    assert wrong["stream: credentials"].level == "fail"
    assert "sasl.password" in wrong["stream: credentials"].hint
    assert "not-it" not in str(wrong)
    away = _checks({"bootstrap.servers": "127.0.0.1:9"}, timeout_s=2)
    assert away["stream: broker"].level == "fail"
    assert "does not answer" in away["stream: broker"].found


def test_a_listener_that_wants_credentials_and_is_given_none(kafka: KafkaBroker) -> None:
    check = _checks({"bootstrap.servers": kafka.sasl_bootstrap}, timeout_s=3)["stream: broker"]
    assert check.level == "fail"
    assert "security.protocol" in check.hint


def test_settings_that_the_client_refuses(kafka: KafkaBroker) -> None:
    check = _checks({**_plain(kafka), "no.such.setting": "1"})["stream: broker"]
    assert check.level == "fail"
    assert "no.such.setting" in check.found


@pytest.mark.parametrize(
    ("config", "level", "found"),
    [
        ({"retention.ms": "60000"}, "note", "60 s"),
        ({"retention.ms": "7200000"}, "ok", "2 h"),
        ({"cleanup.policy": "compact"}, "fail", "cleanup.policy=compact"),
    ],
)
def test_a_broker_that_forgets_too_soon(kafka: KafkaBroker, config: dict[str, str], level: str, found: str) -> None:
    topic = kafka.topic("kept", **config)
    check = _checks(_plain(kafka), topic)[f"stream: retention of {topic}"]
    assert (check.level, check.found) == (level, found)


def test_a_clock_in_the_future_is_seen(kafka: KafkaBroker) -> None:
    topic = kafka.topic("ahead", partitions=2, **{"message.timestamp.after.max.ms": str(10**12)})
    ahead = int(time.time() * 1000) + 90_000
    kafka.send(topic, [{"value": b"x", "timestamp": ahead, "partition": 0}, {"value": b"y", "partition": 1}])
    check = _checks(_plain(kafka), topic)[f"stream: clock of {topic}"]
    assert check.level == "note"
    assert "stamped by a producer is 9" in check.found or "stamped by a producer is 89" in check.found
    assert "NTP" in check.hint


def test_stamps_of_the_broker_are_told_as_such(kafka: KafkaBroker) -> None:
    topic = kafka.topic("appended", **{"message.timestamp.type": "LogAppendTime"})
    kafka.send(topic, [b"x"])
    assert _checks(_plain(kafka), topic)[f"stream: clock of {topic}"].found.endswith("stamped by the broker")


def test_prism_that_was_built_and_a_file_that_is_not_prism(prism_location: Path) -> None:
    (built,) = check_prism(str(prism_location))
    assert (built.level, built.found) == ("ok", str(prism_location))
    (other,) = check_prism("/bin/echo")
    assert other.level == "fail"
    assert "go install" in other.hint
    (none,) = check_prism("/no/such/prism")
    assert none.level == "fail"


def test_the_command(kafka: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka.topic("logs")
    base = ["doctor", "--stream", "--warehouse", f"sqlite:///{tmp_path / 'w.db'}", "--format", "json"]
    done = CliRunner().invoke(cli, [*base, "--bootstrap-servers", kafka.bootstrap, "--topic", topic])
    document = json.loads(done.output)
    assert (done.exit_code, document["ok"]) == (0, True)
    names = {c["name"] for c in document["checks"]}
    assert {
        "python",
        "warehouse",
        "stream: client",
        "stream: metrics",
        "stream: broker",
        f"stream: topic {topic}",
    } <= names
    (tmp_path / "client.properties").write_text(f"bootstrap.servers = {kafka.bootstrap}\n")
    file = ["--consumer-config", str(tmp_path / "client.properties")]
    assert CliRunner().invoke(cli, [*base, *file, "--topic", topic]).exit_code == 0
    done = CliRunner().invoke(cli, [*base, "--bootstrap-servers", kafka.bootstrap, "--topic", "no-such"])
    assert done.exit_code == 1
    done = CliRunner().invoke(cli, ["doctor", "--topic", topic])
    assert done.exit_code == 2
    assert "--topic is for --stream" in done.output
