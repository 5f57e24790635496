"""What moves in the stream's graph: one payload a poll from the reader to the loader, and wakes from there on.

A payload has a coder of its own (`PolledCoder`): where reader and loader are fused, which is always so, it is handed on
as it is, and no byte of it is written. Keys are strings, so that any runner can carry them.
"""

# mypy: disallow-untyped-calls=False, disallow-subclassing-any=False
from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from apache_beam.coders import Coder, typecoders

from pipeline.beam.coders import pack, unpack
from schemas.facts import Facts

#: (key, payload).
Wake = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Polled:
    """The facts of a poll, and how far they make the partitions durable.

    positions: (topic, partition, next offset, event time in us or None). keys: (source id, wake key). event_us: event
    time of the arrival, of the newest message or the watermark. counted: (topic, what became of them, messages).
    sizes: (topic, bytes). stamps: (broker's stamp in whole seconds, messages), for the latency.
    """

    facts: Facts
    positions: tuple[tuple[str, int, int, int | None], ...]
    keys: tuple[tuple[str, str], ...] = ()
    event_us: int = 0
    counted: tuple[tuple[str, str, int], ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    stamps: tuple[tuple[int, int], ...] = ()


class PolledCoder(Coder):
    """Payloads as `pipeline.beam.coders` writes them, for runners that put something between reader and loader."""

    def encode(self, value: Polled) -> bytes:
        return pack(value)

    def decode(self, encoded: bytes) -> Polled:
        return unpack(Polled, encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type[Polled]:
        return Polled


typecoders.registry.register_coder(Polled, PolledCoder)


def wakes(polled: Polled, touched: Collection[str]) -> list[Wake]:
    """One wake for each key with touched sources."""
    keys = dict(polled.keys)
    gathered: dict[str, list[str]] = {}
    for source_id in sorted(touched):
        gathered.setdefault(keys.get(source_id, f"source:{source_id}"), []).append(source_id)
    return [(key, _wake(polled.event_us, ids)) for key, ids in sorted(gathered.items())]


def _wake(event_us: int, source_ids: Collection[str]) -> bytes:
    return json.dumps([event_us, list(source_ids)], separators=(",", ":")).encode()


def read_wake(data: bytes) -> tuple[int, list[str]]:
    """(event time in us, source ids)."""
    event_us, source_ids = json.loads(data)
    return event_us, source_ids


def encode_positions(positions: Mapping[tuple[str, int], int], *, ended: bool = False) -> str:
    """A restriction: where to go on, and whether that is where it ends."""
    return json.dumps([sorted([t, n, o] for (t, n), o in positions.items()), ended], separators=(",", ":"))


def decode_positions(text: str) -> tuple[dict[tuple[str, int], int], bool]:
    """What `encode_positions` wrote."""
    rows, ended = json.loads(text)
    return {(t, n): o for t, n, o in rows}, ended
