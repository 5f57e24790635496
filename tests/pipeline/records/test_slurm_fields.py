"""Single values as Slurm prints them."""

from __future__ import annotations

import hostlist
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records import slurm_fields as sf
from schemas.facts import NO_STAMP, Stamp


@pytest.mark.parametrize(
    ("text", "names", "whole"),
    [
        ("node[001-003,7]", ("node001", "node002", "node003", "node7"), True),
        ("rack[1-2]node[01-02]", ("rack1node01", "rack1node02", "rack2node01", "rack2node02"), True),
        ("a,b[1-2]-ib", ("a", "b1-ib", "b2-ib"), True),
        ("GPU-1.example.org", ("gpu-1",), True),
        ("node[009-011]", ("node009", "node010", "node011"), True),
        ("None assigned", (), True),
        ("(null)", (), True),
        ("", (), True),
        ("login1,node[001-0+", ("login1",), False),
        ("node[001-0+", (), False),
        ("node[1-999999999]", (), False),
        ("a[1-999]b[1-999]", (), False),
        ("node]1[", (), False),
        ("two words", (), False),
    ],
)
def test_nodes(text: str, names: tuple[str, ...], whole: bool):
    assert sf.nodes(text) == (names, whole)


@given(st.sets(st.integers(1, 400), min_size=1, max_size=40), st.sampled_from(["node", "gpu-a", "r1n"]))
def test_nodes_are_the_inverse_of_collecting(numbers: set[int], prefix: str):
    names = sorted(f"{prefix}{n:04d}" for n in numbers)
    assert sorted(sf.nodes(hostlist.collect_hostlist(names))[0]) == names


@pytest.mark.parametrize(
    ("text", "state", "extra"),
    [
        ("CANCELLED by 41077", "CANCELLED", {"cancelled_by": "41077"}),
        ("CANCELLED+", "CANCELLED", {}),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", {}),
        ("NF", "NODE_FAIL", {}),
        ("failed", "FAILED", {}),
        ("FAILED,REQUEUED", "FAILED", {"state_flags": "REQUEUED"}),
        ("", "", {}),
        ("BRAND_NEW", "BRAND_NEW", {}),
        ("RE+", "RE", {}),
    ],
)
def test_state(text: str, state: str, extra: dict[str, str]):
    assert sf.state(text) == (state, extra)


def test_every_state_is_known_by_word_and_by_code():
    assert all(sf.state(code)[0] == word == sf.state(word)[0] for code, word in sf.STATES.items())
    assert sf.OPEN_STATES < sf.STATE_WORDS


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("0:0", (0, None)),
        ("134:0", (134, None)),
        ("0:125", (0, 125)),
        ("137", (137, None)),
        ("", (None, None)),
        ("a:b", (None, None)),
    ],
)
def test_exit_pair(text: str, pair: tuple[int | None, int | None]):
    assert sf.exit_pair(text) == pair


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4242", ("4242", "")),
        ("4242.batch", ("4242", "batch")),
        ("4242_7.0", ("4242_7", "0")),
        ("4242_[1-3%1]", ("4242_[1-3%1]", "")),
        ("4242+1.extern", ("4242+1", "extern")),
        ("4242.0+1", ("4242", "0+1")),
        ("4242.nothing", None),
        ("x", None),
        ("12+34+", None),
    ],
)
def test_job_id(text: str, expected: tuple[str, str] | None):
    assert sf.job_id(text) == expected


@pytest.mark.parametrize(
    ("text", "stamp"),
    [
        ("2026-03-03T04:31:07", Stamp("local", 1_772_512_267_000_000)),
        ("2026-03-03T04:31:07+01:00", Stamp("utc", 1_772_508_667_000_000)),
        ("2026-03-03T04:31:07Z", Stamp("utc", 1_772_512_267_000_000)),
        ("1772512267", Stamp("utc", 1_772_512_267_000_000)),
        ("Unknown", NO_STAMP),
        ("None", NO_STAMP),
        ("N/A", NO_STAMP),
        ("", NO_STAMP),
    ],
)
def test_stamp(text: str, stamp: Stamp):
    assert sf.stamp(text) == stamp


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-00:15:56", 87_356), ("09:48:37", 35_317), ("00:23.779", 23), ("Partition_Limit", None), ("UNLIMITED", None)],
)
def test_seconds(text: str, seconds: int | None):
    assert sf.seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu=96,gres/gpu=8,gres/gpu:h100=8", 8),
        ("gres/gpu:a100=4,gres/gpu:h100=8", 12),
        ("gres/gpu:h100=64", 64),
        ("cpu=96,gres/gpumem=80G,gres/gpuutil=9", None),
        ("", None),
    ],
)
def test_tres_gpus(text: str, gpus: int | None):
    assert sf.tres_gpus(text) == gpus


def test_old_gres_counts_per_node():
    assert sf.gres_gpus("PER_NODE:gpu:8", 4) == 32
    assert sf.gres_gpus("PER_NODE:gpu:volta:8", 2) == 16
    assert sf.gres_gpus("PER_JOB:gpu:8", 4) is None
    assert sf.gres_gpus("PER_NODE:gpu:8", None) is None
