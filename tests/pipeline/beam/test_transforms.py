"""Each transform alone: what it gives, and what it counts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from pipeline.beam.elements import RECEIPT, Element, collect, decode, fact_elements, merge_values
from pipeline.beam.errors import CodingError, ReceiptError
from pipeline.beam.shards import read_head, read_shard, shard_paths, write_shard
from pipeline.beam.transforms import ListRanges, MergeFacts, ScanRanges, WriteShards, shard_of
from schemas.facts import merge_facts
from tests.pipeline.beam import made_up
from tests.pipeline.beam.eager import run

WORK = tuple[str, bytes]
ELEMENT = tuple[str, tuple[str, int, bytes]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "a.log"
    path.write_text("noise\n!h1 boom\nnoise\n!h2 bang\n!h1 boom\n")
    return path


def test_list_ranges_gives_every_range_once(log: Path) -> None:
    out, counted = run(ListRanges(partial(made_up.make_split, 10)), made_up.inputs([log]), WORK)
    assert sorted(out) == sorted(made_up.split("a.log", str(log).encode(), size=10))
    assert counted["ListRanges.in"] == 1
    assert counted["ListRanges.out"] == len(out) == 4


def test_scan_ranges_gives_facts_and_one_receipt_a_range(log: Path) -> None:
    ranges = made_up.split("a.log", str(log).encode(), size=20)
    out, counted = run(ScanRanges(made_up.make_scan), ranges, WORK)
    assert sorted(out) == sorted(e for r in ranges for e in made_up.scan(*r))
    assert sum(value[0] == RECEIPT for _, value in out) == len(ranges) == counted["ScanRanges.in"]
    assert counted["ScanRanges.out"] == len(out)


def test_merge_facts_is_merge_facts(log: Path) -> None:
    ranges = made_up.split("a.log", str(log).encode(), size=16)
    elements = [e for r in ranges for e in made_up.scan(*r)]
    out, _ = run(MergeFacts(), elements, ELEMENT)
    assert len({key for key, _ in out}) == len(out)
    facts = merge_facts([collect((kind, payload) for _, (kind, _, payload) in out)])
    whole = made_up.facts_of(log, 0, log.stat().st_size)
    assert facts == whole
    assert sum(parts for _, (_, parts, _) in out) == len(elements)


def test_merging_values_ignores_order_and_repetition(log: Path) -> None:
    ranges = made_up.split("a.log", str(log).encode(), size=16)
    values = [v for r in ranges for _, v in made_up.scan(*r) if v[0] == "source"]
    assert len(values) > 1
    assert merge_values(values) == merge_values(values[::-1])
    assert merge_values([*values, *values])[2] == merge_values(values)[2]


def test_write_shards_keeps_every_element(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    elements = made_up.scan(*made_up.split("a.log", str(log).encode(), size=1000)[0])
    out, counted = run(WriteShards(str(folder), 3), list(elements), ELEMENT)
    held = [v for p in shard_paths(str(folder)) for v in read_shard(p)]
    assert sorted(held) == sorted(v for _, v in elements)
    assert sum(n for _, n in out) == len(held) == counted["WriteShards.out"]


def test_a_shard_depends_on_the_key_alone() -> None:
    one: Element = ("signal:x", ("signal", 1, b"[1]"))
    two: Element = ("signal:x", ("signal", 7, b"[2]"))
    assert shard_of(one, 8)[0] == shard_of(two, 8)[0]


def test_a_shard_that_is_written_again_replaces_itself(tmp_path: Path) -> None:
    for payload in (b"[1]", b"[2]"):
        write_shard(str(tmp_path), "00000-of-00001", [("signal", 2, payload)])
    [path] = shard_paths(str(tmp_path))
    assert list(read_shard(path)) == [("signal", 2, b"[2]")]
    assert read_head(path) == {"signal": (1, 2)}
    assert [p.name for p in tmp_path.iterdir()] == [Path(path).name]


def test_a_cut_shard_is_refused(tmp_path: Path) -> None:
    write_shard(str(tmp_path), "0", [("signal", 1, b"[1]"), ("signal", 1, b"[2]")])
    path = Path(shard_paths(str(tmp_path))[0])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(ReceiptError, match="without its trailer"):
        list(read_shard(str(path)))
    path.write_bytes(b"".join(lines[:1] + lines[2:]))
    with pytest.raises(ReceiptError, match="holds 1 rows and its trailer says 2"):
        list(read_shard(str(path)))


def test_fact_elements_round_trip(log: Path) -> None:
    facts = made_up.facts_of(log, 0, 1000)
    assert collect((kind, payload) for _, (kind, _, payload) in fact_elements(facts)) == facts


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(CodingError, match="'banana'"):
        decode("banana", b"[]")
