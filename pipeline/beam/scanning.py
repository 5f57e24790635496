"""The workers of the facts graph: how inputs are split and ranges scanned, built once per process.

Plain functions around `pipeline.sources` and `pipeline.scanning.scan`; Hyperscan databases cannot be pickled, so the
ruleset
and the engine are made where they are used. Plain files travel range by range; the members of a packed archive travel
together and in order, so that it is unpacked once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from pipeline.beam.coders import pack, unpack
from pipeline.beam.elements import RECEIPT, Receipt, Row, fact_rows, row
from pipeline.beam.transforms import Splitter, Work, Worker
from pipeline.scanning.scan import scan_engine, scan_range
from pipeline.sources import Range, Source, ranges
from pipeline.sources.streams import close_kept
from schemas.facts import Facts
from schemas.settings import Settings

if TYPE_CHECKING:
    from classifiers.knowledge.ruleset import RulesetImpl
    from classifiers.matching.engines import BlockEngine


@dataclass(frozen=True, slots=True)
class Together:
    """Sources that one worker takes in order: a plain file, or all members of one packed archive."""

    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Ranges that one worker scans in order."""

    ranges: tuple[Range, ...]


def group_sources(sources: Sequence[Source]) -> list[Work]:
    """Inputs of the graph, numbered in order of discovery."""
    groups: list[list[Source]] = []
    for source in sources:
        if groups and source.compressed and groups[-1][0].compressed and groups[-1][0].path == source.path:
            groups[-1].append(source)
        else:
            groups.append([source])
    return [(f"{n:07d}", pack(Together(tuple(group)))) for n, group in enumerate(groups)]


def _split(name: str, data: bytes, settings: Settings) -> Iterator[Work]:
    # Numbers say which input of the call it was: the same file met twice gives two ranges and two receipts.
    sources = unpack(Together, data).sources
    cut = [rng for source in sources for rng in ranges(source, settings)]
    if sources[0].compressed:
        yield name, pack(Piece(tuple(cut)))
        return
    for n, rng in enumerate(cut):
        yield f"{name}.{n}", pack(Piece((rng,)))


def make_splitter(settings: Settings) -> Splitter:
    """Splits packed `Together`s into packed `Piece`s."""
    return partial(_split, settings=settings)


def receipt_ids(work: Sequence[Work], settings: Settings) -> list[str]:
    """Ids of the receipts that scanning these inputs must leave: one for each range."""
    return [
        f"{name}.{n}.{rng.range_id}"
        for name, data in (piece for item in work for piece in _split(*item, settings))
        for n, rng in enumerate(unpack(Piece, data).ranges)
    ]


@cache
def _ruleset() -> RulesetImpl:
    from classifiers.knowledge import load_ruleset

    return load_ruleset()


def _scanned(facts: Facts) -> int:
    return sum(end - start for s in facts.sources for start, end, *_ in s.ranges)


def _scan(name: str, data: bytes, ruleset: RulesetImpl, engine: BlockEngine, settings: Settings) -> Iterator[Row]:
    try:
        for n, rng in enumerate(unpack(Piece, data).ranges):
            began = time.thread_time()
            facts = scan_range(rng, ruleset, engine, settings)
            emitted: dict[str, int] = {}
            for item in fact_rows(facts):
                kind = item[1][0]
                emitted[kind] = emitted.get(kind, 0) + 1
                yield item
            used = round(time.thread_time() - began, 6)
            range_id = f"{name}.{n}.{rng.range_id}"
            yield row(RECEIPT, range_id, Receipt(range_id, _scanned(facts), used, tuple(sorted(emitted.items()))))
    finally:
        close_kept()


def make_scanner(settings: Settings) -> Worker:
    """Scans a packed `Piece`; one engine (and its scratch memory) for each DoFn instance, so for each thread."""
    ruleset = _ruleset()
    return partial(_scan, ruleset=ruleset, engine=scan_engine(ruleset, settings), settings=settings)
