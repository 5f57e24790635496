"""Settings of the broker's client, and what a start needs to know of the broker: its topics and where to begin.

A file of client settings is Java-like properties (`name = value`, `#` comments) or one JSON object, in librdkafka's
words: `security.protocol`, `sasl.mechanism`, `sasl.username`, `ssl.ca.location` ... They are passed on as they are.
Positions are kept in the warehouse, never by the broker's groups.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.stream.errors import BrokerError, ClientConfigError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

log = logging.getLogger(__name__)

Partition = tuple[str, int]
#: What a file may not set, and why.
_OURS = {
    "enable.auto.commit": "positions are kept in the warehouse",
    "enable.auto.offset.store": "positions are kept in the warehouse",
    "auto.offset.reset": "say --start",
    "enable.partition.eof": "it tells idle partitions",
}
_OF_READERS = (
    "group.", "auto.", "fetch.", "max.partition.", "queued.", "session.", "heartbeat.", "isolation.", "check.",
)  # fmt: skip
#: Messages up to this size are taken. Bytes.
LARGEST_MESSAGE = 64 << 20
#: How long a start waits for the broker, seconds.
START_S = 20.0


def read_client_config(path: str | Path) -> dict[str, str]:
    """Settings of a file. Raises ClientConfigError with file and line."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ClientConfigError(f"client settings {file}: {error}; name a file of properties or JSON") from error
    found = _json(text, file) if text.lstrip().startswith("{") else _properties(text, file)
    for name, why in _OURS.items():
        if name in found:
            raise ClientConfigError(f"client settings {file}: {name} is not yours to set: {why}; leave it out")
    return found


def _json(text: str, file: Path) -> dict[str, str]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ClientConfigError(f"client settings {file}: not JSON: {error}") from error
    return {str(name): _word(setting) for name, setting in value.items()}


def _word(setting: object) -> str:
    return str(setting).lower() if isinstance(setting, bool) else str(setting)


def _properties(text: str, file: Path) -> dict[str, str]:
    found = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ClientConfigError(f"client settings {file}, line {number}: {line[:40]!r} is not name=value")
        found[name.strip()] = value.strip()
    return found


def common_config(servers: str, file: str | None) -> dict[str, Any]:
    """Settings that every client of the stream has. A file may name the servers itself."""
    found: dict[str, Any] = dict(read_client_config(file)) if file else {}
    if servers:
        found["bootstrap.servers"] = servers
    if not found.get("bootstrap.servers"):
        raise ClientConfigError(
            "no broker is named: pass --bootstrap-servers, or bootstrap.servers in the client's file"
        )
    found.setdefault("client.id", "faultbeam")
    found.setdefault("log_level", "3")
    return found


def consumer_config(common: Mapping[str, Any], cluster: str) -> dict[str, Any]:
    """Settings of a reader. The group is a name for the lag that others may display; nothing depends on it."""
    return {
        "group.id": f"faultbeam-{cluster}",
        "queued.max.messages.kbytes": "65536",
        "queued.min.messages": "20000",
        "fetch.max.bytes": str(LARGEST_MESSAGE),
        "max.partition.fetch.bytes": str(8 << 20),
        "receive.message.max.bytes": str(2 * LARGEST_MESSAGE),
        "fetch.wait.max.ms": "250",
        **common,
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": "true",
    }


def producer_config(common: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a writer (dead letters, incidents), without those that only a reader has."""
    reader = (
        "group.",
        "auto.",
        "fetch.",
        "max.partition.",
        "queued.",
        "session.",
        "heartbeat.",
        "isolation.",
        "check.",
    )
    mine = {name: value for name, value in common.items() if not name.startswith(reader)}
    return {"enable.idempotence": "true", "linger.ms": "20", "message.timeout.ms": "30000", **mine}


def wanted(topics: Sequence[str]) -> Any:  # noqa: ANN401 - a predicate
    """Whether a topic is read: named, or matched as a whole by a pattern that begins with `^`."""
    names = {t for t in topics if not t.startswith("^")}
    try:
        patterns = [re.compile(t[1:]) for t in topics if t.startswith("^")]
    except re.error as error:
        raise ClientConfigError(f"topic pattern: {error}; a pattern is a regular expression behind ^") from error
    return lambda topic: topic in names or any(p.fullmatch(topic) for p in patterns)


def list_partitions(consumer: Consumer, topics: Sequence[str], timeout_s: float = 5.0) -> list[Partition]:
    """All partitions of the topics that are read, sorted. Raises BrokerError where nobody answers."""
    from confluent_kafka import KafkaException

    is_wanted = wanted(topics)
    try:
        known = consumer.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise BrokerError(f"no answer from the broker within {timeout_s:.0f} s: {error.args[0].str()}") from error
    return sorted(
        (name, number)
        for name, topic in known.items()
        if topic.error is None and is_wanted(name)
        for number in topic.partitions
    )


def first_look(common: Mapping[str, Any], cluster: str, topics: Sequence[str]) -> list[Partition]:
    """The partitions at a start. Raises BrokerError for a broker that is away, refuses us, or lacks a topic."""
    from confluent_kafka import Consumer, KafkaError, KafkaException

    errors: list[KafkaError] = []
    settings = {**consumer_config(common, cluster), "error_cb": errors.append, "log_level": "0"}
    try:
        consumer = Consumer(settings)
    except (KafkaException, ValueError) as error:
        raise ClientConfigError(
            f"the client refuses its settings: {error}; see the file of --consumer-config"
        ) from error
    servers = common["bootstrap.servers"]
    try:
        until = time.monotonic() + START_S
        while True:
            try:
                found = list_partitions(consumer, topics, 3.0)
                break
            except BrokerError as error:
                consumer.poll(0)  # serves the callback of errors
                refused = [e for e in errors if e.code() == KafkaError._AUTHENTICATION]
                if refused:
                    raise BrokerError(
                        f"broker {servers} refuses us: {refused[-1].str()}; are user, password and security.protocol "
                        "of the client's file right?"
                    ) from error
                if time.monotonic() > until:
                    why = f" ({errors[-1].str()})" if errors else ""
                    raise BrokerError(
                        f"broker {servers} does not answer within {START_S:.0f} s{why}; is it up, and is the address "
                        "right?"
                    ) from error
        _know(found, topics, servers)
        return found
    finally:
        consumer.close()


def _know(found: Sequence[Partition], topics: Sequence[str], servers: str) -> None:
    there = {topic for topic, _ in found}
    for topic in topics:
        if not topic.startswith("^") and topic not in there:
            raise BrokerError(
                f"no topic {topic!r} at {servers} (or no right to describe it); make it, or check the name"
            )
    if not found:
        raise BrokerError(f"no topic at {servers} fits {', '.join(topics)}; make one, or check the pattern")


def start_positions(
    common: Mapping[str, Any],
    cluster: str,
    partitions: Iterable[Partition],
    stored: Mapping[Partition, tuple[int, int | None]],
    start: str | int,
    rewind_s: float,
) -> dict[Partition, int]:
    """Where reading begins. stored: next offset and event time of what is durable; there one goes back by `rewind_s`.

    start: for partitions without: `earliest`, `latest`, or a time in microseconds UTC.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(consumer_config(common, cluster))
    out: dict[Partition, int] = {}
    asked: dict[Partition, int] = {}
    try:
        for topic, number in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=START_S)
            known = stored.get((topic, number))
            if known is not None:
                out[topic, number] = min(max(known[0], low), high)
                if known[1] is not None and rewind_s > 0:
                    asked[topic, number] = known[1] - int(rewind_s * 1e6)
            elif isinstance(start, int):
                out[topic, number], asked[topic, number] = high, start
            else:
                out[topic, number] = low if start == "earliest" else high
        times = [TopicPartition(t, n, max(0, us // 1000)) for (t, n), us in asked.items()]
        for found in consumer.offsets_for_times(times, timeout=START_S) if times else ():
            if found.error is None and found.offset >= 0:
                out[found.topic, found.partition] = min(out[found.topic, found.partition], found.offset)
    except KafkaException as error:
        raise BrokerError(f"the broker does not say where its partitions begin: {error.args[0].str()}") from error
    finally:
        consumer.close()
    return out
