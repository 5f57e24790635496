"""Where a line of a job was printed, and what a missing kernel log of that host takes away from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from classifiers.engine import decide
from classifiers.engine.first import host_of_rank, place_of
from schemas.settings import Settings
from schemas.subject import Coverage
from tests.classifiers.engine.build import run, said, subject

FOUR = run(scheduler="slurm", nodes=("a1", "a2", "a3", "a4"), n_nodes=4, n_gpus=32)


def test_ranks_are_laid_out_in_blocks_over_the_node_list() -> None:
    assert [host_of_rank(FOUR, r) for r in (0, 7, 8, 31)] == ["a1", "a1", "a2", "a4"]


@pytest.mark.parametrize(
    "other",
    [{"scheduler": ""}, {"scheduler": "k8s"}, {"n_gpus": None}, {"n_gpus": 33}, {"n_nodes": 5}, {"nodes": ()}],
)
def test_a_rank_has_no_host_where_the_layout_is_not_known(other: dict[str, Any]) -> None:
    assert host_of_rank(replace(FOUR, **other), 8) is None
    assert host_of_rank(FOUR, 32) is None


def test_a_line_that_names_its_host_is_believed_over_its_rank() -> None:
    assert place_of(said("x", "software.bug", rank=9), FOUR) == "a2"
    assert place_of(said("x", "software.bug", rank=9, host="a4"), FOUR) == "a4"
    assert place_of(said("x", "software.bug"), FOUR) is None


@pytest.mark.parametrize(
    ("seen", "component"), [(("a1", "a2"), "gpu.device"), ((), "gpu.device"), (("a1",), "unknown")]
)
def test_only_the_log_of_that_host_can_be_missed(seen: tuple[str, ...], component: str) -> None:
    rows = tuple(Coverage(h, "kernel log", 0, 1, h in seen) for h in FOUR.nodes)
    line = said("cuda_unk", "gpu.device", rank=9, role="either", fatal="maybe", alt="software.bug")
    assert decide(replace(subject(line, run=FOUR), coverage=rows), Settings(), 7).component == component
