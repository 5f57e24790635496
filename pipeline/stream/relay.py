"""Incidents out: rows of the outbox to a topic, keyed by incident, at least once."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.stream.client import producer_config
from schemas.errors import FaultbeamError

if TYPE_CHECKING:
    from sql.published import Outgoing
    from sql.store import Store

log = logging.getLogger(__name__)

_FLUSH_S = 30.0


class IncidentTopic:
    """Sends messages to a topic; tells which arrived."""

    def __init__(self, common: Mapping[str, Any], topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer = Producer({**producer_config(common), "acks": "all", "log_level": "0"})

    def __call__(self, messages: Sequence[Outgoing]) -> Collection[int]:
        arrived: list[int] = []

        def done(seq: int) -> Callable[[object, object], None]:
            return lambda error, _: arrived.append(seq) if error is None else None

        for message in messages:
            self._producer.produce(
                self._topic,
                message.message(),
                message.incident_id.encode(),
                on_delivery=done(message.seq),
            )
        self._producer.flush(_FLUSH_S)
        self._producer.purge()
        return arrived


class Relay:
    """Delivers what waits, every second, in a thread of its own. Use as a context manager."""

    def __init__(self, store: Store, cluster: str, send: IncidentTopic, every_s: float = 1.0) -> None:
        self._store, self._cluster, self._send, self._every_s = store, cluster, send, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream-relay", daemon=True)
        self._told = -60.0

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Delivers once more what the pipeline wrote while it ended."""
        self._stop.set()
        self._thread.join(2 * _FLUSH_S)
        self.deliver()

    def deliver(self) -> int:
        """Delivers what waits; returns how much. Never raises for the broker or the database."""
        from sql.published import relay

        try:
            return relay(self._store, self._send, cluster=self._cluster)
        except (FaultbeamError, BufferError) as error:
            now = time.monotonic()
            if now - self._told >= 60.0:
                self._told = now
                log.warning("incidents wait to be delivered: %s", error)
            return 0

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.deliver()
