"""The facts graph: inputs -> ranges -> scan -> merge -> shard files, and the proof that nothing was lost on the way.

    Create(inputs) | ListRanges | ScanRanges | MergeShards

The submitting process loads the shards (`read_facts`), because SQLite has one writer and because a runner gives back
no elements. Runners were seen to end without an error and without having run every sink, so the proof does not
ask the runner: ranges are counted beside the graph, every range leaves a receipt, and the rows that arrived must stand
for exactly as many as the receipts say were emitted.
"""

# mypy: disallow-untyped-calls=False
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import apache_beam as beam
from apache_beam.runners.runner import PipelineResult, PipelineState

from pipeline.beam.elements import RECEIPT, Receipt, Value, collect, decode
from pipeline.beam.errors import ReceiptError
from pipeline.beam.runners import DEFAULT_RUNNER, check_runner, start
from pipeline.beam.shards import read_head, read_shard, shard_paths
from pipeline.beam.transforms import Factory, ListRanges, MergeShards, ScanRanges, Splitter, Work
from schemas.facts import Facts

#: Facts handed over at once: one transaction of the store.
BATCH = 10_000


@dataclass(frozen=True, slots=True)
class GraphReport:
    """What a run gave: receipts by range, (rows, emitted rows) by kind, and Beam's counters where there are any."""

    receipts: tuple[Receipt, ...]
    rows: dict[str, tuple[int, int]]
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def scanned_bytes(self) -> int:
        return sum(r.bytes for r in self.receipts)

    @property
    def scan_cpu_s(self) -> float:
        return sum(r.seconds for r in self.receipts)


def run_facts_graph(
    inputs: Sequence[Work],
    *,
    list_ranges: Callable[[], Splitter],
    scan: Factory,
    expected: Sequence[str],
    folder: str,
    runner: str = DEFAULT_RUNNER,
    pipeline_args: Sequence[str] = (),
    shards: int = 1,
) -> GraphReport:
    """Runs the graph and checks it. `folder` must be empty and reachable for workers and for this process.

    expected: ids of all ranges, counted beside the graph. Raises ReceiptError where ranges or rows are missing,
    RunnerError for a runner that may not be used, and whatever a scan raised.
    """
    check_runner(runner, pipeline_args)
    if not inputs:
        return check(folder, expected)
    pipeline = start(runner, pipeline_args)
    (
        pipeline
        | "Inputs" >> beam.Create(list(inputs), reshuffle=False).with_output_types(tuple[str, bytes])
        | "ListRanges" >> ListRanges(list_ranges)
        | "ScanRanges" >> ScanRanges(scan, shards)
        | "MergeShards" >> MergeShards(folder)
    )
    result = pipeline.run()
    wait(result, runner)
    return check(folder, expected, counters(result))


def wait(result: PipelineResult, runner: str) -> None:
    """Blocks until the run is over. Raises ReceiptError for any other end than DONE."""
    state = result.wait_until_finish()
    if state not in (PipelineState.DONE, None):
        raise ReceiptError(f"runner {runner} ended in state {state}; see its log for the failing step")


def counters(result: PipelineResult) -> dict[str, int]:
    """Beam's counters as `namespace.name`; empty where the runner keeps none (the proof does not need them)."""
    try:
        found = result.metrics().query()["counters"]
    except (NotImplementedError, ValueError):
        return {}
    sums: dict[str, int] = {}
    for c in found:
        name = f"{c.key.metric.namespace}.{c.key.metric.name}"
        sums[name] = sums.get(name, 0) + int(c.result or 0)
    return sums


def check(folder: str, expected: Sequence[str], found_counters: dict[str, int] | None = None) -> GraphReport:
    """Compares receipts with ranges and rows with what was emitted. Raises ReceiptError with the difference."""
    paths = shard_paths(folder)
    receipts: list[Receipt] = []
    rows: dict[str, tuple[int, int]] = {}
    for path in paths:
        for kind, (n, parts) in read_head(path).items():
            had = rows.get(kind, (0, 0))
            rows[kind] = (had[0] + n, had[1] + parts)
            if kind == RECEIPT:
                receipts.extend(decode(k, p) for k, _, p in read_shard(path) if k == RECEIPT)
    got = {r.range_id for r in receipts}
    missing = sorted(set(expected) - got)
    if missing or len(set(expected)) != len(got):
        surplus = sorted(got - set(expected))
        raise ReceiptError(
            f"{len(got)} receipts for {len(set(expected))} ranges: missing {missing[:5]}, unknown {surplus[:5]} in "
            f"{folder}; the runner lost work or ran something else: nothing was loaded, run it again or on FnApiRunner"
        )
    emitted: dict[str, int] = {}
    for receipt in receipts:
        for kind, n in receipt.emitted:
            emitted[kind] = emitted.get(kind, 0) + n
    arrived = {kind: parts for kind, (_, parts) in rows.items() if kind != RECEIPT}
    if {k: n for k, n in emitted.items() if n} != arrived:
        raise ReceiptError(
            f"scans emitted {emitted} rows and the shards in {folder} stand for {arrived}: a sink did not run or "
            "wrote in part; nothing was loaded, run it again or on FnApiRunner"
        )
    return GraphReport(
        receipts=tuple(sorted(receipts, key=lambda r: r.range_id)), rows=rows, counters=found_counters or {}
    )


def count_rows(folder: str) -> int:
    """Rows of all shards but receipts, from their heads."""
    heads = [read_head(path) for path in shard_paths(folder)]
    return sum(rows for head in heads for kind, (rows, _) in head.items() if kind != RECEIPT)


def read_facts(folder: str, batch: int = BATCH) -> Iterator[Facts]:
    """The facts of all shards but telemetry, at most `batch` at once, sources before what hangs on them."""
    yield from _read(folder, (("source",), ("signal", "progress", "fragment", "quarantine")), batch)


def read_telemetry(folder: str, batch: int = BATCH) -> Iterator[Facts]:
    """The telemetry of all shards: read last, because its hours need the clocks of all sources."""
    yield from _read(folder, (("telemetry",),), batch)


def _read(folder: str, groups: Sequence[tuple[str, ...]], batch: int) -> Iterator[Facts]:
    for wanted in groups:
        held: list[tuple[str, bytes]] = []
        for path in shard_paths(folder):
            if not any(kind in wanted for kind in read_head(path)):
                continue
            for kind, payload in _of_kinds(read_shard(path), wanted):
                held.append((kind, payload))
                if len(held) >= batch:
                    yield collect(held)
                    held = []
        if held:
            yield collect(held)


def _of_kinds(values: Iterator[Value], wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    for kind, _, payload in values:
        if kind in wanted:
            yield kind, payload
