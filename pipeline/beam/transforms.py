"""The transforms of the batch graphs. Each wires one plain function and counts what goes in and out.

Functions come in as factories: a factory is pickled and called once per worker in `setup`, where it may compile
rules, open files or connect; what it returns stays in that process.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from pipeline.beam.elements import RECEIPT, Element, Value, merge_values
from pipeline.beam.shards import write_shard

#: An input or a range on its way: its id and its packed description.
Work = tuple[str, bytes]
#: What does the work of one input or range.
Worker = Callable[[str, bytes], Iterable[Any]]
Factory = Callable[[], Worker]


class _Apply(beam.DoFn):
    """One work item in, any number of elements out; the worker is built once per process and instance."""

    def __init__(self, factory: Factory, name: str) -> None:
        self._factory = factory
        self._worker: Worker | None = None
        self._in = Metrics.counter(name, "in")
        self._out = Metrics.counter(name, "out")

    def setup(self) -> None:
        self._worker = self._factory()

    def process(self, element: Work) -> Iterator[Any]:
        worker = self._worker
        if worker is None:
            raise RuntimeError("setup() was not called before process(); the runner breaks the DoFn contract")
        self._in.inc()
        n = 0
        for item in worker(*element):
            n += 1
            yield item
        self._out.inc(n)


class ListRanges(beam.PTransform[Any, Any]):
    """Inputs -> ranges, spread over the workers. Only ranges are reshuffled, never records (17 us an element)."""

    def __init__(self, factory: Factory) -> None:
        super().__init__()
        self._factory = factory

    def expand(self, inputs: PCollection[Any]) -> PCollection[Any]:
        split = beam.ParDo(_Apply(self._factory, "ListRanges")).with_output_types(tuple[str, bytes])
        ranges: PCollection[Any] = inputs | "Split" >> split | "Spread" >> beam.Reshuffle()
        return ranges


class ScanRanges(beam.PTransform[Any, Any]):
    """Ranges -> folded facts as elements, and one receipt a range."""

    def __init__(self, factory: Factory) -> None:
        super().__init__()
        self._factory = factory

    def expand(self, ranges: PCollection[Any]) -> PCollection[Any]:
        scan = beam.ParDo(_Apply(self._factory, "ScanRanges")).with_output_types(tuple[str, tuple[str, int, bytes]])
        elements: PCollection[Any] = ranges | "Scan" >> scan
        return elements


class _MergeFn(beam.CombineFn):
    """Merging of one key. The accumulator is the list of values met, merged when it grows."""

    def create_accumulator(self) -> list[Value]:
        return []

    def add_input(self, accumulator: list[Value], element: Value) -> list[Value]:
        accumulator.append(element)
        return accumulator if len(accumulator) < 16 else [merge_values(accumulator)]

    def merge_accumulators(self, accumulators: Iterable[list[Value]]) -> list[Value]:
        values = [v for acc in accumulators for v in acc]
        return [merge_values(values)] if values else []

    def extract_output(self, accumulator: list[Value]) -> Value:
        return merge_values(accumulator)


class MergeFacts(beam.PTransform[Any, Any]):
    """Elements of one key -> one: where the ranges of a source, and copies of a source, meet again."""

    def expand(self, elements: PCollection[Any]) -> PCollection[Any]:
        merge = beam.CombinePerKey(_MergeFn()).with_output_types(tuple[str, tuple[str, int, bytes]])
        merged: PCollection[Any] = elements | "Merge" >> merge
        return merged


class _WriteShard(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._in = Metrics.counter("WriteShards", "in")
        self._out = Metrics.counter("WriteShards", "out")

    def process(self, element: tuple[str, Iterable[Value]]) -> Iterator[tuple[str, int]]:
        number, values = element
        self._in.inc()
        n = write_shard(self._folder, number, sorted(values))
        self._out.inc(n)
        yield number, n


def shard_of(element: Element, shards: int) -> tuple[str, Value]:
    """The shard number of an element: from its key alone, so that a repeated bundle lands in the same file."""
    key, value = element
    if value[0] == RECEIPT:
        return "receipts", value
    return f"{zlib.crc32(key.encode()) % shards:05d}-of-{shards:05d}", value


class WriteShards(beam.PTransform[Any, Any]):
    """Elements -> shard files below `folder`; gives (shard number, rows) for each file written."""

    def __init__(self, folder: str, shards: int) -> None:
        super().__init__()
        self._folder = folder
        self._shards = shards

    def expand(self, elements: PCollection[Any]) -> PCollection[Any]:
        written: PCollection[Any] = (
            elements
            | "Shard" >> beam.Map(shard_of, self._shards).with_output_types(tuple[str, tuple[str, int, bytes]])
            | "Group" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_WriteShard(self._folder)).with_output_types(tuple[str, int])
        )
        return written
