"""The transforms of the batch graphs. Each wires one plain function and counts what goes in and out.

Functions come in as factories: a factory is pickled and called once per worker in `setup`, where it may compile
rules, open files or connect; what it returns stays in that process.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection

from pipeline.beam.elements import Element, Row, merge_blocks, to_blocks
from pipeline.beam.shards import write_shard

#: An input or a range on its way: its id and its packed description.
Work = tuple[str, bytes]
#: Splits one input into ranges.
Splitter = Callable[[str, bytes], Iterable[Work]]
#: Scans one range; gives the rows of its facts and its receipt.
Worker = Callable[[str, bytes], Iterable[Row]]
Factory = Callable[[], Worker]
#: Rows that are held before they are packed: a whole archive may be one piece of work.
_ROWS = 20_000


class _Split(beam.DoFn):
    """One input in, its ranges out."""

    def __init__(self, factory: Callable[[], Splitter]) -> None:
        self._factory = factory
        self._split: Splitter | None = None
        self._in = Metrics.counter("ListRanges", "in")
        self._out = Metrics.counter("ListRanges", "out")

    def setup(self) -> None:
        self._split = self._factory()

    def process(self, element: Work) -> Iterator[Work]:
        if self._split is None:
            raise RuntimeError("setup() was not called before process(); the runner breaks the DoFn contract")
        self._in.inc()
        ranges = list(self._split(*element))
        self._out.inc(len(ranges))
        yield from ranges


class ListRanges(beam.PTransform[Any, Any]):
    """Inputs -> ranges, spread over the workers. Only ranges are reshuffled, never records (17 us an element)."""

    def __init__(self, factory: Callable[[], Splitter]) -> None:
        super().__init__()
        self._factory = factory

    def expand(self, inputs: PCollection[Any]) -> PCollection[Any]:
        split = beam.ParDo(_Split(self._factory)).with_output_types(tuple[str, bytes])
        ranges: PCollection[Any] = inputs | "Split" >> split | "Spread" >> beam.Reshuffle()
        return ranges


class _Scan(beam.DoFn):
    """One range in, its facts out as one block a shard. Rows are counted too: elements alone would hide them."""

    def __init__(self, factory: Factory, shards: int) -> None:
        self._factory = factory
        self._shards = shards
        self._worker: Worker | None = None
        self._in = Metrics.counter("ScanRanges", "in")
        self._rows = Metrics.counter("ScanRanges", "rows")
        self._out = Metrics.counter("ScanRanges", "out")

    def setup(self) -> None:
        self._worker = self._factory()

    def process(self, element: Work) -> Iterator[Element]:
        worker = self._worker
        if worker is None:
            raise RuntimeError("setup() was not called before process(); the runner breaks the DoFn contract")
        self._in.inc()
        rows = iter(worker(*element))
        while portion := list(islice(rows, _ROWS)):
            blocks = to_blocks(portion, self._shards)
            self._rows.inc(len(portion))
            self._out.inc(len(blocks))
            yield from blocks


class ScanRanges(beam.PTransform[Any, Any]):
    """Ranges -> folded facts in blocks, and one receipt a range."""

    def __init__(self, factory: Factory, shards: int) -> None:
        super().__init__()
        self._factory = factory
        self._shards = shards

    def expand(self, ranges: PCollection[Any]) -> PCollection[Any]:
        scan = beam.ParDo(_Scan(self._factory, self._shards)).with_output_types(tuple[str, bytes])
        blocks: PCollection[Any] = ranges | "Scan" >> scan
        return blocks


class _WriteShard(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._in = Metrics.counter("MergeShards", "in")
        self._out = Metrics.counter("MergeShards", "rows")

    def process(self, element: tuple[str, Iterable[bytes]]) -> Iterator[tuple[str, int]]:
        shard, blocks = element
        self._in.inc()
        n = write_shard(self._folder, shard, merge_blocks(blocks))
        self._out.inc(n)
        yield shard, n


class MergeShards(beam.PTransform[Any, Any]):
    """Blocks -> shard files below `folder`, one row a key; gives (shard, rows) for each file written.

    Here the ranges of a source, and copies of a source, meet again.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def expand(self, blocks: PCollection[Any]) -> PCollection[Any]:
        write = beam.ParDo(_WriteShard(self._folder)).with_output_types(tuple[str, int])
        written: PCollection[Any] = blocks | "Group" >> beam.GroupByKey() | "Write" >> write
        return written
