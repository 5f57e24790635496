"""Whether a stream could run from here: client, broker, topics, credentials, clocks, runner. Nothing is changed.

`faultbeam doctor --stream` prints these checks. Nothing is produced and no position is committed.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.doctor import Check
from pipeline.stream.client import wanted

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient, ClusterMetadata

#: A cold start goes back by window, grace and the longest delay of a scheduler's records; less is kept at one's risk.
LEAST_RETENTION_S = 3600.0
#: Clocks that differ by less are in step.
SKEW_S = 2.0
_PRISM_PACKAGE = "github.com/apache/beam/sdks/v2/go/cmd/prism"


def check_stream(
    config: Mapping[str, Any], topics: Sequence[str], prism_location: str | None = None, timeout_s: float = 10.0
) -> list[Check]:
    """All checks in a fixed order.

    config: settings of the client, `bootstrap.servers` among them (none: no broker is asked). topics: names, or
    patterns that start with ^.
    """
    found = [*_client(), *check_prism(prism_location), *_flink()]
    if any(check.level == "fail" and check.name == "stream: client" for check in found):
        return found
    if not config.get("bootstrap.servers"):
        hint = "say --bootstrap-servers HOST:PORT, or name it in the file of --consumer-config"
        return [*found, Check("stream: broker", "note", "not asked", hint)]
    return [*found, *_broker(config, topics, timeout_s)]


def _client() -> Iterator[Check]:
    hint = "pip install 'faultbeam[stream]'"
    try:
        import confluent_kafka
    except ImportError as error:
        yield Check("stream: client", "fail", f"confluent_kafka cannot be loaded: {error}", hint)
    else:
        library = confluent_kafka.libversion()[0]
        yield Check("stream: client", "ok", f"confluent-kafka {version('confluent-kafka')}, librdkafka {library}")
    try:
        yield Check("stream: metrics", "ok", f"prometheus-client {version('prometheus-client')}")
    except PackageNotFoundError:
        yield Check("stream: metrics", "fail", "prometheus-client is not installed", hint)


def check_prism(location: str | None) -> Iterator[Check]:
    """The binary at this path, else on the path, else where `make services` puts it."""
    build = f"go install {_PRISM_PACKAGE}@v{_beam_version()}, then --prism-location=$(go env GOPATH)/bin/prism"
    found = location or shutil.which("prism") or _built()
    if found is None:
        yield Check("stream: prism", "note", "not found", f"needed by --runner prism: {build}")
        return
    try:
        done = subprocess.run([found, "--help"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Check("stream: prism", "fail", f"{found} does not start: {error}", build)
        return
    if "job_port" not in done.stdout + done.stderr:
        yield Check("stream: prism", "fail", f"{found} is not Beam's Prism", build)
    else:
        yield Check("stream: prism", "ok", found)


def _built() -> str | None:
    cache = Path(os.environ.get("FAULTBEAM_SERVICES") or ".cache/services")
    built = sorted(cache.glob("prism-*"))
    return str(built[-1]) if built else None


def _beam_version() -> str:
    try:
        return version("apache-beam")
    except PackageNotFoundError:
        return "2.77.0"


def _flink() -> Iterator[Check]:
    java = shutil.which("java")
    if java is None:
        yield Check(
            "stream: java for Flink", "note", "not found", "Flink's job server needs Java 11, or 17 for Flink 2"
        )
        return
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
    told = re.search(r'version "(\d+)', done.stderr)
    if told is None or int(told[1]) < 11:
        said = done.stderr.splitlines()[0] if done.stderr else "no version"
        yield Check("stream: java for Flink", "note", said, "Flink's job server needs Java 11, or 17 for Flink 2")
    else:
        yield Check("stream: java for Flink", "ok", f"{told[1]} ({java})")


def _broker(config: Mapping[str, Any], topics: Sequence[str], timeout_s: float) -> Iterator[Check]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[KafkaError] = []
    servers = str(config["bootstrap.servers"])
    try:
        settings: dict[str, Any] = {"log_level": 0, **_of_client(config), "error_cb": errors.append}
        admin = AdminClient(settings)
    except (KafkaException, ValueError, TypeError) as error:
        yield Check("stream: broker", "fail", f"the client refuses its settings: {error}", "see --consumer-config")
        return
    began = time.monotonic()
    try:
        known = admin.list_topics(timeout=timeout_s)
    except KafkaException as error:
        admin.poll(1.0)  # the client's callbacks are called here
        yield _unreachable(servers, error.args[0], errors)
        return
    took = time.monotonic() - began
    yield Check("stream: broker", "ok", f"{servers}: {len(known.brokers)} brokers, answered within {took:.1f} s")
    who = config.get("sasl.username") or config.get("ssl.certificate.location")
    yield Check("stream: credentials", "ok", f"accepted, as {who}" if who else "none asked for")
    yield from _topics(config, admin, known, topics, timeout_s)


def _unreachable(servers: str, error: KafkaError, errors: Sequence[KafkaError]) -> Check:
    """What stands behind a time-out: the client tells the reason by its callback only."""
    from confluent_kafka import KafkaError

    for seen in reversed(errors):
        if seen.code() == KafkaError._AUTHENTICATION:
            hint = "check sasl.mechanism, sasl.username and sasl.password in the file of --consumer-config"
            return Check("stream: credentials", "fail", f"{servers} refuses them: {seen.str()}", hint)
        if seen.code() == KafkaError._SSL:
            hint = "check security.protocol and ssl.ca.location in the file of --consumer-config"
            return Check("stream: broker", "fail", f"{servers}: TLS: {seen.str()}", hint)
    said = "; ".join(dict.fromkeys(e.str() for e in errors)) or error.str()
    hint = "is the address right, is the port open from here, does it ask for TLS or SASL (security.protocol)?"
    return Check("stream: broker", "fail", f"{servers} does not answer: {said}", hint)


def _topics(
    config: Mapping[str, Any],
    admin: AdminClient,
    known: ClusterMetadata,
    topics: Sequence[str],
    timeout_s: float,
) -> Iterator[Check]:
    if not topics:
        yield Check("stream: topics", "note", "not asked", "say --topic NAME, or --topic '^PATTERN'")
        return
    names = sorted(name for name in known.topics if not name.startswith("__"))
    for asked in topics:
        is_wanted = wanted([asked])
        chosen = [name for name in names if is_wanted(name)]
        if not chosen:
            import difflib

            near = difflib.get_close_matches(asked, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the broker shows {len(names)} topics to this user"
            yield Check(f"stream: topic {asked}", "fail", "unknown", hint)
        for name in chosen:
            yield _topic(known, name)
            yield _retention(admin, name, timeout_s)
            yield _newest(config, known, name, timeout_s)


def _topic(known: ClusterMetadata, name: str) -> Check:
    topic = known.topics[name]
    if topic.error is not None:
        return Check(
            f"stream: topic {name}", "fail", topic.error.str(), "ask for the right to read it (READ, DESCRIBE)"
        )
    headless = [number for number, part in topic.partitions.items() if part.leader < 0]
    if headless:
        return Check(f"stream: topic {name}", "fail", f"partitions {headless} have no leader", "see the broker's log")
    return Check(f"stream: topic {name}", "ok", f"{len(topic.partitions)} partitions")


def _retention(admin: AdminClient, name: str, timeout_s: float) -> Check:
    """A cold start reads again what may not have been decided: the broker must still hold it."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource

    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    try:
        entries = admin.describe_configs([resource], request_timeout=timeout_s)[resource].result(timeout_s)
    except KafkaException as error:
        hint = "optional: the right DESCRIBE_CONFIGS shows it"
        return Check(f"stream: retention of {name}", "note", f"not shown: {error.args[0].str()}", hint)
    policy, kept = entries["cleanup.policy"].value or "", int(entries["retention.ms"].value or -1)
    if "compact" in policy:
        hint = "set cleanup.policy=delete: compaction drops messages that were not read yet"
        return Check(f"stream: retention of {name}", "fail", f"cleanup.policy={policy}", hint)
    if 0 <= kept < LEAST_RETENTION_S * 1000:
        hint = (
            f"keep messages for {LEAST_RETENTION_S / 3600:.0f} h at least: a restart goes back, an outage waits there"
        )
        return Check(f"stream: retention of {name}", "note", f"{kept / 1000:.0f} s", hint)
    return Check(f"stream: retention of {name}", "ok", "for ever" if kept < 0 else f"{kept / 3.6e6:.0f} h")


def _newest(config: Mapping[str, Any], known: ClusterMetadata, name: str, timeout_s: float) -> Check:
    """Reads the newest message of each partition: shows the right to read, and clocks that are ahead."""
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaException, TopicPartition

    title = f"stream: clock of {name}"
    consumer = Consumer(
        {"log_level": 0, **_of_client(config), "group.id": "faultbeam-doctor", "enable.auto.commit": False}
    )
    try:
        ends = []
        for number in known.topics[name].partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(name, number), timeout=timeout_s)
            if high > low:
                ends.append(TopicPartition(name, number, high - 1))
        if not ends:
            return Check(title, "ok", "no messages yet")
        consumer.assign(ends)
        stamps: list[tuple[int, int]] = []
        until = time.monotonic() + timeout_s
        while len(stamps) < len(ends) and time.monotonic() < until:
            for message in consumer.consume(len(ends), 0.5):
                if message.error() is None:
                    stamps.append((message.timestamp()[1], message.timestamp()[0]))
    except KafkaException as error:
        hint = "ask for the right to read it (READ on topic)"
        return Check(f"stream: topic {name}", "fail", f"cannot be read: {error.args[0].str()}", hint)
    finally:
        consumer.close()
    if not stamps:
        # the newest record may be a transaction marker, which no client is shown
        return Check(title, "note", f"the newest message was not read within {timeout_s:.0f} s", "try again later")
    newest, kind = max(stamps)
    ahead = newest / 1000 - time.time()
    whose = "the broker" if kind == TIMESTAMP_LOG_APPEND_TIME else "a producer"
    if ahead > SKEW_S:
        hint = "let all machines follow NTP: times ahead of ours are taken as now"
        return Check(
            title, "note", f"a message stamped by {whose} is {ahead:.0f} s ahead of this machine's clock", hint
        )
    return Check(title, "ok", f"not ahead; newest message {max(0.0, -ahead):.0f} s old, stamped by {whose}")


def _of_client(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that every kind of client takes."""
    return {name: value for name, value in config.items() if not name.startswith(("group.", "auto.", "enable.auto"))}
