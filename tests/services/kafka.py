"""A Kafka broker for tests: one KRaft node on 127.0.0.1, random ports, a data folder of its own.

It can be stopped, killed and started again with the same ports and data, as a broker that comes back is.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.services.cache import java, kafka_jars, tool
from tests.services.process import end, free_ports, leashed, tail

if TYPE_CHECKING:
    from confluent_kafka import Message
    from confluent_kafka.admin import AdminClient

#: The one user of the listener that asks for credentials (SASL/PLAIN).
USER, PASSWORD = "reader", "reader-secret"

#: Larger than the largest message that the stream must survive.
LARGEST_MESSAGE = 80 * 1024 * 1024

_STORE_PASSWORD = "only-for-tests"
_START_S = 60.0
_numbers = itertools.count()


class KafkaBroker:
    """A broker. `bootstrap`: its address without credentials; `sasl_bootstrap`: with them; `tls_bootstrap`: with them
    and encrypted, by a certificate for 127.0.0.1 that `ca_file` (PEM) vouches for."""

    def __init__(self, folder: Path, heap_mb: int = 512) -> None:
        self._folder = folder
        self._jars = kafka_jars()
        self._java = java()
        self._heap = heap_mb
        self._ports: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "broker.log"
        self.ca_file = folder / "ca.pem"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def sasl_bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports[2]}"

    @property
    def tls_bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports[3]}"

    @property
    def pid(self) -> int | None:
        """Process id while the broker runs."""
        return self._process.pid if self.running and self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the broker and wait until it answers. A first start chooses ports; a later one keeps ports and data."""
        if self.running:
            return
        for attempt in range(3):
            first = not self._ports
            if first:
                self._ports = free_ports(4)
                self._configure()
            try:
                self._launch()
            except RuntimeError:
                # another program may have taken a port meanwhile: only then, and only before anybody knows the ports
                if not first or attempt == 2 or "in use" not in tail(self.log, 200):
                    raise
                self._ports = []
            else:
                return

    def stop(self) -> None:
        """End the broker as an operator would (SIGTERM)."""
        if self._process is not None:
            end(self._process)

    def kill(self) -> None:
        """End the broker with SIGKILL."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def restart(self, *, killed: bool = False, away_s: float = 0.0) -> None:
        """Stop (or kill) the broker, stay away, start it again at the same address with the same data."""
        if killed:
            self.kill()
        else:
            self.stop()
        time.sleep(away_s)
        self.start()

    def admin(self) -> AdminClient:
        """A client for topics. It must not outlive a test."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def topic(self, name: str = "events", partitions: int = 1, **config: str) -> str:
        """A new topic whose name starts with `name` and is used by nobody else."""
        from confluent_kafka.admin import NewTopic

        unique = f"{name}-{next(_numbers)}"
        admin = self.admin()  # its answers die with it
        made = admin.create_topics([NewTopic(unique, partitions, 1, config=config)], operation_timeout=20)
        made[unique].result(30)
        self._await_partitions(unique, partitions)
        return unique

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have `total` partitions."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, total)], operation_timeout=20)[topic].result(30)
        self._await_partitions(topic, total)

    def send(
        self,
        topic: str,
        messages: Iterable[bytes | tuple[bytes | None, bytes] | dict[str, Any]],
        partition: Callable[[int], int] | None = None,
    ) -> int:
        """Send messages and wait for all: values, (key, value) pairs, or keywords of `Producer.produce`.

        `partition`: partition of the n-th message, else the client spreads them by key. Returns how many were sent.
        Raises AssertionError where the broker refuses one.
        """
        from confluent_kafka import Producer

        failed: list[str] = []

        def done(error: object, _message: object) -> None:
            if error is not None:
                failed.append(str(error))

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 20,
                "message.max.bytes": LARGEST_MESSAGE,
                "queue.buffering.max.kbytes": 1024 * 1024,
                "log_level": 0,
            }
        )
        count = 0
        for number, message in enumerate(messages):
            if isinstance(message, dict):
                fields = dict(message)
            elif isinstance(message, tuple):
                fields = {"key": message[0], "value": message[1]}
            else:
                fields = {"value": message}
            if partition is not None:
                fields.setdefault("partition", partition(number))
            while True:
                try:
                    producer.produce(topic, on_delivery=done, **fields)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
            count += 1
        left = producer.flush(60)
        assert not failed, f"{len(failed)} messages refused by the broker, first: {failed[0]}"
        assert not left, f"{left} messages were not delivered within 60 s"
        return count

    def read(self, topic: str, count: int | None = None, within_s: float = 30.0) -> list[Message]:
        """Messages of a topic from its beginning: `count` of them, else all that are there now.

        Raises AssertionError where fewer than `count` come in time.
        """
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"test-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "fetch.message.max.bytes": LARGEST_MESSAGE,
                "log_level": 0,
            }
        )
        try:
            parts = sorted(consumer.list_topics(topic, timeout=20).topics[topic].partitions)
            ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20) for p in parts]
            wanted = sum(high - low for low, high in ends) if count is None else count
            consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in parts])
            found: list[Message] = []
            until = time.monotonic() + within_s
            while len(found) < wanted and time.monotonic() < until:
                found += [m for m in consumer.consume(wanted - len(found), 0.5) if m.error() is None]
        finally:
            consumer.close()
        assert len(found) >= wanted, f"{len(found)} of {wanted} messages of {topic} within {within_s} s"
        return found

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Partition -> offset after its last message."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "test-ends", "log_level": 0})
        try:
            parts: Sequence[int] = sorted(consumer.list_topics(topic, timeout=20).topics[topic].partitions)
            return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1] for p in parts}
        finally:
            consumer.close()

    def _configure(self) -> None:
        plain, controller, sasl, tls = self._ports
        listeners = ",".join(
            f"{name}://127.0.0.1:{port}"
            for name, port in (("PLAINTEXT", plain), ("CONTROLLER", controller), ("SASL", sasl), ("TLS", tls))
        )
        login = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="broker" password="broker-secret" user_broker="broker-secret" user_{USER}="{PASSWORD}";'
        )
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": listeners,
            "advertised.listeners": ",".join(
                f"{name}://127.0.0.1:{port}" for name, port in (("PLAINTEXT", plain), ("SASL", sasl), ("TLS", tls))
            ),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL"
            ),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": login,
            "listener.name.tls.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.tls.plain.sasl.jaas.config": login,
            "listener.name.tls.ssl.keystore.location": str(self._certificate()),
            "listener.name.tls.ssl.keystore.type": "PKCS12",
            "listener.name.tls.ssl.keystore.password": _STORE_PASSWORD,
            "log.dirs": str(self._folder / f"data-{plain}"),
            "auto.create.topics.enable": "false",
            "message.max.bytes": str(LARGEST_MESSAGE),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.ms": "-1",
            "num.network.threads": "2",
            "num.io.threads": "2",
            "background.threads": "2",
            "log.cleaner.enable": "false",
            # a broker that comes back may register again only when its former session has run out
            "broker.session.timeout.ms": "1500",
            "broker.heartbeat.interval.ms": "300",
        }
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        self._settings.write_text(text, encoding="utf-8")
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = self._command("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings))
        done = subprocess.run(tool, capture_output=True, text=True, check=False, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"the broker's data folder was not formatted: {done.stdout} {done.stderr}")

    def _certificate(self) -> Path:
        """A key store with a certificate for 127.0.0.1 that vouches for itself; `ca_file` is written beside it."""
        store = self._folder / "broker.p12"
        if store.exists():
            return store
        keytool = tool("keytool", "makes the broker's certificate (comes with Java)")
        common = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", _STORE_PASSWORD, "-alias", "broker"]
        made = ["-genkeypair", "-keyalg", "EC", "-validity", "2", "-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1"]
        for arguments in (made, ["-exportcert", "-rfc", "-file", str(self.ca_file)]):
            subprocess.run([keytool, *arguments, *common], capture_output=True, check=True, timeout=60)
        return store

    def _launch(self) -> None:
        from confluent_kafka import KafkaException

        self._process = leashed(self._command("kafka.Kafka", str(self._settings)), self.log)
        until = time.monotonic() + _START_S
        admin = self.admin()
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"the broker ended with {self._process.returncode}: {tail(self.log)}")
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                pass
            if time.monotonic() > until:
                self.kill()
                raise RuntimeError(f"the broker did not answer within {_START_S:.0f} s: {tail(self.log)}")
            time.sleep(0.1)

    def _await_partitions(self, topic: str, total: int) -> None:
        """What a controller grants reaches the metadata of clients a little later."""
        admin, until = self.admin(), time.monotonic() + 20
        while time.monotonic() < until:
            known = admin.list_topics(timeout=5).topics.get(topic)
            if (
                known is not None
                and len(known.partitions) >= total
                and all(p.leader >= 0 for p in known.partitions.values())
            ):
                return
            time.sleep(0.1)
        raise AssertionError(f"topic {topic} has no {total} partitions within 20 s")

    @property
    def _settings(self) -> Path:
        return self._folder / "server.properties"

    def _command(self, main: str, *arguments: str) -> list[str]:
        options = [
            f"-Xmx{self._heap}m",
            f"-Xms{self._heap // 2}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            f"{self._jars}/*",
        ]
        return [self._java, *options, main, *arguments]
