"""Messages that nothing can be made of, put into a topic of their own: the bytes as they came, and why in headers.

A message may be put there twice (after a restart); its headers name topic, partition and offset. What is larger than a
broker takes by default is cut, and a header says how long it was.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.stream.client import producer_config
from pipeline.stream.reading import Dead

log = logging.getLogger(__name__)

#: Longest value that is sent. Bytes.
LONGEST = 900_000
_FLUSH_S = 30.0


class DeadLetters:
    """Writes to one topic. Never raises for the broker: what did not arrive is in `quarantine` all the same."""

    def __init__(self, common: Mapping[str, Any], topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer = Producer({**producer_config(common), "log_level": "0"})
        self._failed = 0

    def send(self, dead: Sequence[Dead]) -> int:
        """Sends them and waits; returns how many did not arrive."""
        self._failed = 0
        for one in dead:
            value = one.message.value or b""
            headers: list[tuple[str, str | bytes | None]] = [
                ("reason", one.reason.encode()),
                ("topic", one.message.topic.encode()),
                ("partition", str(one.message.partition).encode()),
                ("offset", str(one.message.offset).encode()),
            ]
            if len(value) > LONGEST:
                headers.append(("length", str(len(value)).encode()))
            try:
                self._producer.produce(
                    self._topic, value[:LONGEST], one.message.key, headers=headers, on_delivery=self._arrived
                )
            except BufferError:
                self._producer.flush(_FLUSH_S)
                self._failed += 1
        left = self._producer.flush(_FLUSH_S)
        lost = self._failed + left
        if lost:
            log.warning("%d of %d dead letters did not arrive in topic %s", lost, len(dead), self._topic)
        return lost

    def _arrived(self, error: object, _message: object) -> None:
        if error is not None:
            self._failed += 1
