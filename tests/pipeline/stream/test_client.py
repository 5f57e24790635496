"""Settings of the broker's client, and what a start learns of the broker: on a real one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pipeline.stream.client import (
    common_config,
    consumer_config,
    first_look,
    list_partitions,
    producer_config,
    read_client_config,
    start_positions,
    wanted,
)
from pipeline.stream.errors import BrokerError, ClientConfigError
from tests.services.kafka import PASSWORD, USER, KafkaBroker
from tests.services.process import free_ports


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(text, encoding="utf-8")
    return path


def test_properties_and_json_say_the_same(tmp_path: Path) -> None:
    lines = _file(
        tmp_path,
        "# ours\n\n! and this\nsecurity.protocol = SASL_SSL\nsasl.password=a=b #c\nsocket.keepalive.enable=true\n",
    )
    found = read_client_config(lines)
    assert found == {"security.protocol": "SASL_SSL", "sasl.password": "a=b #c", "socket.keepalive.enable": "true"}
    written = _file(
        tmp_path, '{"security.protocol": "SASL_SSL", "sasl.password": "a=b #c", "socket.keepalive.enable": true}'
    )
    assert read_client_config(written) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol\n", "line 1"),
        ("a=b\n=c\n", "line 2"),
        ("{", "not JSON"),
        ("enable.auto.commit=true\n", "positions are kept in the warehouse"),
        ("auto.offset.reset=latest\n", "--start"),
    ],
)
def test_a_file_that_cannot_be_used_says_where(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ClientConfigError, match=said):
        read_client_config(_file(tmp_path, text))


def test_no_file_and_no_broker(tmp_path: Path) -> None:
    with pytest.raises(ClientConfigError, match="no-such"):
        common_config("k:1", str(tmp_path / "no-such"))
    with pytest.raises(ClientConfigError, match="--bootstrap-servers"):
        common_config("", None)
    named = _file(tmp_path, "bootstrap.servers=elsewhere:1\n")
    assert common_config("", str(named))["bootstrap.servers"] == "elsewhere:1"
    assert common_config("here:1", str(named))["bootstrap.servers"] == "here:1"


def test_whatever_a_file_says_positions_are_ours() -> None:
    made = consumer_config({"bootstrap.servers": "k:1", "fetch.max.bytes": "1000000", "group.id": "mine"}, "c")
    assert (made["fetch.max.bytes"], made["group.id"]) == ("1000000", "mine")
    assert made["enable.auto.commit"] == "false"
    writer = producer_config(
        {"bootstrap.servers": "k:1", "fetch.max.bytes": "1", "group.id": "mine", "sasl.username": "u"}
    )
    assert not {"fetch.max.bytes", "group.id"} & writer.keys()
    assert writer["sasl.username"] == "u"


def test_topics_by_name_and_pattern() -> None:
    read = wanted(["logs", "^site[.].*"])
    assert [t for t in ("logs", "logs2", "site.a", "sitexa", "my.site.a") if read(t)] == ["logs", "site.a"]
    with pytest.raises(ClientConfigError, match="topic pattern"):
        wanted(["^("])


def _common(kafka: KafkaBroker, **more: str) -> dict[str, Any]:
    return {**common_config(kafka.bootstrap, None), **more}


def test_partitions_of_names_and_patterns(kafka: KafkaBroker) -> None:
    one, two = kafka.topic("site.a", 2), kafka.topic("site.b", 1)
    found = first_look(_common(kafka), "c", [one, f"^{two.replace('.', '[.]')}"])
    assert found == sorted([(one, 0), (one, 1), (two, 0)])


def test_an_unknown_topic_is_told(kafka: KafkaBroker) -> None:
    with pytest.raises(BrokerError, match="no topic 'nobody-made-it'"):
        first_look(_common(kafka), "c", [kafka.topic(), "nobody-made-it"])
    with pytest.raises(BrokerError, match="fits"):
        first_look(_common(kafka), "c", ["^nobody-.*"])


def test_wrong_credentials_are_told_at_once(kafka: KafkaBroker) -> None:
    sasl = {
        "bootstrap.servers": kafka.sasl_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
    }
    topic = kafka.topic()
    assert first_look(_common(kafka, **sasl, **{"sasl.password": PASSWORD}), "c", [topic]) == [(topic, 0)]
    began = time.monotonic()
    with pytest.raises(BrokerError, match="refuses us"):
        first_look(_common(kafka, **sasl, **{"sasl.password": "wrong"}), "c", [topic])
    assert time.monotonic() - began < 15
    with pytest.raises(ClientConfigError, match="refuses its settings"):
        first_look(_common(kafka, **{"no.such.setting": "1"}), "c", [topic])


def test_an_encrypted_broker_is_read_by_its_certificate_only(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.stream.client.START_S", 4.0)
    tls = {
        "bootstrap.servers": kafka.tls_bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    topic = kafka.topic()
    trusted = _common(kafka, **tls, **{"ssl.ca.location": str(kafka.ca_file)})
    assert first_look(trusted, "c", [topic]) == [(topic, 0)]
    with pytest.raises(BrokerError, match=r"(?i)certificate"):
        first_look(_common(kafka, **tls), "c", [topic])
    with pytest.raises((BrokerError, ClientConfigError), match=r"(?i)ssl\.ca\.location|no such file"):
        first_look(_common(kafka, **tls, **{"ssl.ca.location": str(tmp_path / "gone.pem")}), "c", [topic])


def test_a_broker_that_is_away_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka")
    monkeypatch.setattr("pipeline.stream.client.START_S", 2.0)
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(BrokerError, match=rf"{nobody} does not answer.*refused"):
        first_look(common_config(nobody, None), "c", ["logs"])


def test_where_reading_begins(kafka: KafkaBroker) -> None:
    topic = kafka.topic(partitions=2)
    parts = [(topic, 0), (topic, 1)]
    second = 1_000_000
    base = 1_772_499_600
    kafka.send(topic, [{"value": b"x", "timestamp": (base + n) * 1000} for n in range(10)], partition=lambda n: 0)

    def at(start: str | int, stored: dict[Any, Any], rewind: float) -> list[int]:
        found = start_positions(_common(kafka), "c", parts, stored, start, rewind)
        return [found[p] for p in parts]

    assert at("earliest", {}, 60) == [0, 0]
    assert at("latest", {}, 60) == [10, 0]
    assert at((base + 4) * second, {}, 60) == [4, 0]
    assert at((base + 99) * second, {}, 60) == [10, 0]
    stored = {parts[0]: (8, (base + 7) * second)}
    assert at("latest", stored, 0) == [8, 0]
    assert at("latest", stored, 3) == [4, 0]
    assert at("latest", stored, 1e6) == [0, 0]
    assert at("earliest", {parts[0]: (8, None)}, 60) == [8, 0]
    assert at("earliest", {parts[0]: (99, (base + 7) * second)}, 0) == [10, 0]  # a topic that was made anew


def test_partitions_that_are_added_are_seen(kafka: KafkaBroker) -> None:
    from confluent_kafka import Consumer

    topic = kafka.topic()
    consumer = Consumer(consumer_config(_common(kafka), "c"))
    try:
        assert list_partitions(consumer, [topic]) == [(topic, 0)]
        kafka.add_partitions(topic, 3)
        assert list_partitions(consumer, [topic]) == [(topic, 0), (topic, 1), (topic, 2)]
    finally:
        consumer.close()
