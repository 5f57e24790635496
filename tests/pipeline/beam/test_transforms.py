"""Each transform alone: what it gives, and what it counts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from pipeline.beam.elements import (
    RECEIPT,
    collect,
    decode,
    fact_rows,
    merge_blocks,
    merge_values,
    read_block,
    to_blocks,
)
from pipeline.beam.errors import CodingError, ReceiptError
from pipeline.beam.shards import read_head, read_shard, shard_paths, write_shard
from pipeline.beam.transforms import ListRanges, MergeShards, ScanRanges
from schemas.facts import merge_facts
from tests.pipeline.beam import made_up
from tests.pipeline.beam.eager import run

WORK = tuple[str, bytes]


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
    out, counted = run(ScanRanges(made_up.make_scan, 2), ranges, WORK)
    rows = [row for _, block in out for row in read_block(block)]
    assert sorted(rows) == sorted(e for r in ranges for e in made_up.scan(*r))
    assert sum(value[0] == RECEIPT for _, value in rows) == len(ranges) == counted["ScanRanges.in"]
    assert counted["ScanRanges.rows"] == len(rows)
    assert counted["ScanRanges.out"] == len(out)


def test_merge_shards_is_merge_facts_and_keeps_every_row(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    rows = [list(made_up.scan(*r)) for r in made_up.split("a.log", str(log).encode(), size=16)]
    blocks = [b for of_range in rows for b in to_blocks(of_range, 3)]
    out, counted = run(MergeShards(str(folder)), blocks, WORK)
    held = [v for p in shard_paths(str(folder)) for v in read_shard(p)]
    whole = made_up.facts_of(log, 0, log.stat().st_size)
    assert merge_facts([collect((kind, payload) for kind, _, payload in held)]) == whole
    assert sum(parts for _, parts, _ in held) == sum(map(len, rows))
    assert sum(n for _, n in out) == len(held) == counted["MergeShards.rows"]
    assert len(held) == len({key for of_range in rows for key, _ in of_range})


def test_merging_values_ignores_order_and_repetition(log: Path) -> None:
    ranges = made_up.split("a.log", str(log).encode(), size=16)
    values = [v for r in ranges for _, v in made_up.scan(*r) if v[0] == "source"]
    assert len(values) > 1
    assert merge_values(values) == merge_values(values[::-1])
    assert merge_values([*values, *values])[2] == merge_values(values)[2]


def test_the_blocks_of_a_range_do_not_depend_on_the_order_of_its_rows(log: Path) -> None:
    [work] = made_up.split("a.log", str(log).encode(), size=1000)
    rows = list(made_up.scan(*work))
    assert to_blocks(rows, 4) == to_blocks(rows[::-1], 4)
    assert sorted(r for _, b in to_blocks(rows, 4) for r in read_block(b)) == sorted(rows)


def test_merging_in_many_steps_is_merging_at_once(log: Path) -> None:
    [work] = made_up.split("a.log", str(log).encode(), size=1000)
    [(_, block)] = to_blocks([r for r in made_up.scan(*work) if r[1][0] != RECEIPT], 1)
    many = merge_blocks([block] * 200)
    assert [(k, p) for k, _, p in many] == [(k, p) for k, _, p in merge_blocks([block])]
    assert {parts for _, parts, _ in many} == {200}


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


def test_fact_rows_round_trip(log: Path) -> None:
    facts = made_up.facts_of(log, 0, 1000)
    assert collect((kind, payload) for _, (kind, _, payload) in fact_rows(facts)) == facts


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(CodingError, match="'banana'"):
        decode("banana", b"[]")
