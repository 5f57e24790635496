"""The stream's graph.

    Create(shards) | ReadKafka | LoadFacts | Gather | Decide

Step names and timer ids are part of a savepoint: they never change.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from pipeline.beam.stream_elements import Polled, encode_positions
from pipeline.beam.stream_reader import ReaderOptions, ReadKafka
from pipeline.beam.stream_steps import Decide, Gather, LoadFacts
from pipeline.stream.client import Partition
from pipeline.stream.shard import shard_of
from schemas.settings import Settings


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the graph is made of. positions: where reading begins."""

    reader: ReaderOptions
    warehouse: str
    settings: Settings
    positions: Mapping[Partition, int]


def shards(positions: Mapping[Partition, int], number: int) -> list[tuple[int, str]]:
    """Elements of the reader: each shard with the first positions of its partitions."""
    return [
        (n, encode_positions({p: at for p, at in positions.items() if shard_of(p, number) == n})) for n in range(number)
    ]


class Stream(beam.PTransform[Any, Any]):
    """The whole stream on an empty pipeline."""

    def __init__(self, options: StreamOptions) -> None:
        super().__init__()
        self._options = options

    def expand(self, pipeline: Any) -> PCollection[Any]:  # noqa: ANN401 - a pipeline's begin
        o = self._options
        read = beam.ParDo(ReadKafka(o.reader, o.settings)).with_output_types(Polled)
        load = beam.ParDo(LoadFacts(o.warehouse, o.settings, o.reader.submission)).with_output_types(tuple[str, bytes])
        gather = beam.ParDo(Gather(o.settings.grace_s)).with_output_types(tuple[int, list[str]])
        decided: PCollection[Any] = (
            pipeline
            | "Shards" >> beam.Create(shards(o.positions, o.reader.shards), reshuffle=False)
            | "ReadKafka" >> read
            | "LoadFacts" >> load
            | "Gather" >> gather
            | "Decide" >> beam.ParDo(Decide(o.warehouse, o.settings))
        )
        return decided
