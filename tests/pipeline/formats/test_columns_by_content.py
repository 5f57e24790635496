"""Tables of Slurm without a heading: read where the content leaves one meaning, left alone where it leaves several."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.formats import sniff
from pipeline.formats.squeue import heading
from pipeline.records.sacct_columns import told_by_content

ROW = ("700", "pretrain", "train", "COMPLETED", "2026-03-01T10:00:02", "2026-03-01T12:31:40", "0:0", "n[1-4]")


def rows(*changed: dict[int, str]) -> list[tuple[str, ...]]:
    return [tuple(change.get(i, cell) for i, cell in enumerate(ROW)) for change in changed]


def test_columns_are_told():
    assert told_by_content(rows({}, {0: "700.batch", 3: "FAILED"}, {0: "701", 5: "Unknown", 3: "RUNNING"})) == (
        "jobid", "", "", "state", "start", "end", "exitcode", "nodelist",
    )  # fmt: skip


@pytest.mark.parametrize(
    "table",
    [
        rows({}, {0: "701"}),  # too few
        rows({}, {0: "pretrain"}, {}),  # no job ids
        rows({}, {3: "Completed"}, {}),  # a state that Slurm does not print so
        rows({3: "7"}, {3: "8"}, {3: "9"}),  # no state
        rows({1: "FAILED"}, {1: "COMPLETED"}, {1: "FAILED"}),  # two columns of states
        rows({6: "x", 5: "2026-02-28T00:00:00"}, {6: "y"}, {6: "z"}),  # no exit code, and times out of order
    ],
)
def test_what_is_not_certain_is_no_table(table: list[tuple[str, ...]]):
    assert told_by_content(table) is None


def test_times_out_of_order_and_ambiguous_lists_are_no_columns():
    named = told_by_content(rows({5: "2026-02-28T00:00:00"}, {}, {}))
    assert named is not None
    assert {"start", "end"} & set(named) == set()
    plain = told_by_content(rows({7: "n1"}, {7: "n2"}, {7: "n3"}))  # could be a name as well
    assert plain is not None
    assert "nodelist" not in plain
    twice = told_by_content(rows({1: "a[1-2]"}, {1: "a3"}, {1: "a4"}))
    assert twice is not None
    assert "nodelist" not in twice


@given(st.lists(st.lists(st.text(max_size=12), min_size=1, max_size=6), max_size=6))
def test_any_table_gives_names_for_all_its_columns_or_none(table: list[list[str]]):
    named = told_by_content(table)
    assert named is None or len(named) == len(table[0])


@pytest.mark.parametrize(
    "text",
    [
        "1|2|3\n2|3|4\n3|4|5\n",
        "812345 train job mira X 1:00 4 rk1\n812346 train job mira X 1:00 4 rk1\n812347 train job mira X 1:00 4 rk1\n",
        "JOBID WEATHER ST\n1 sunny R\n",
        "2026-03-01 10:00:00 step 1 loss 2.1\n2026-03-01 10:00:01 step 2 loss 2.1\n",
    ],
)
def test_other_tables_are_not_taken(text: str):
    found = sniff(text.encode(), "x.txt")
    assert found is None or found.name not in ("sacct", "squeue", "ethtool", "rdma_statistic", "sysfs_counters")


def test_headings_of_squeue():
    assert heading("  JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)") is not None
    assert heading("JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON) WISHES") is None
    assert heading("JOBID PARTITION NAME USER") is None
