"""First and last offsets of the partitions of a stream at the broker: for lag, never for positions."""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from pipeline.stream.errors import BrokerError


class BrokerEnds:
    """Asks the broker anew with each call: partitions that were added are seen.

    config: settings of the client (`bootstrap.servers`, security). wanted: whether a topic is read by the stream.
    Safe to call from one thread at a time.
    """

    def __init__(self, config: Mapping[str, Any], wanted: Callable[[str], bool], timeout_s: float = 5.0) -> None:
        known = {k: v for k, v in config.items() if not k.startswith(("group.", "auto.", "enable.auto", "fetch."))}
        self._admin = AdminClient({"log_level": 0, "reconnect.backoff.max.ms": 2000, **known})
        self._wanted = wanted
        self._timeout_s = timeout_s

    def __call__(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(topic, partition) -> (first offset that is still there, offset after the last message).

        Raises BrokerError. A partition without a leader at this moment is left out.
        """
        try:
            topics = self._admin.list_topics(timeout=self._timeout_s).topics
            parts = [
                TopicPartition(name, number)
                for name, topic in topics.items()
                if topic.error is None and self._wanted(name)
                for number, partition in topic.partitions.items()
                if partition.leader >= 0
            ]
            first = self._offsets(parts, OffsetSpec.earliest())
            last = self._offsets(parts, OffsetSpec.latest())
        except KafkaException as error:
            raise BrokerError(f"no answer within {self._timeout_s:.0f} s: {error.args[0].str()}") from error
        return {key: (first[key], last[key]) for key in first.keys() & last.keys()}

    def _offsets(self, parts: list[TopicPartition], spec: OffsetSpec) -> dict[tuple[str, int], int]:
        if not parts:
            return {}
        asked = self._admin.list_offsets(dict.fromkeys(parts, spec), request_timeout=self._timeout_s)
        found = {}
        for part, future in asked.items():
            try:
                found[part.topic, part.partition] = int(future.result(self._timeout_s).offset)
            except KafkaException:  # its leader has just gone: the next call tells
                continue
        if not found:
            first = next(iter(asked.values())).exception()
            raise BrokerError(f"no offsets: {first}")
        return found
