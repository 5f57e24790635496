"""Prefixes of launchers and collectors: every kind, in stacks, and text that only looks like one."""

# ruff: noqa: E501 - sample lines are as long as logs print them

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.records.rank_prefix import clean, strip
from schemas.facts import NO_STAMP, Stamp

MARCH_3 = 1772512267_000_000  # 2026-03-03 04:31:07 as if UTC


@pytest.mark.parametrize(
    ("line", "text", "rank", "host", "extra"),
    [
        ("[rank3]: Traceback (most recent call last):", "Traceback (most recent call last):", 3, "", {}),
        ("[rank3]:   File \"a.py\", line 3", "  File \"a.py\", line 3", 3, "", {}),
        ("[default7]:loss is nan", "loss is nan", None, "", {"local_rank": "7"}),
        ("17: RuntimeError: x", "RuntimeError: x", 17, "", {"task": "17"}),
        (" 149: :::MLLOG {}", ":::MLLOG {}", 149, "", {"task": "149"}),
        ("[1,17]<stderr>:Segmentation fault", "Segmentation fault", 17, "", {}),
        ("[0]<stderr>:Missing ranks:", "Missing ranks:", 0, "", {}),
        ("[15]worker-23:83:2526 [0] misc/socket.cc:503 NCCL WARN x", "worker-23:83:2526 [0] misc/socket.cc:503 NCCL WARN x",
         15, "worker-23", {"pid": "83", "gpu": "0"}),
        ("(RayWorker pid=77, ip=10.0.0.4) boom", "boom", None, "10.0.0.4", {"actor": "RayWorker", "pid": "77"}),
        ("(head, rank=0, pid=2210) up", "up", 0, "", {"actor": "head", "pid": "2210"}),
        ("[node-1]:[rank11]:[E ProcessGroupNCCL.cpp:1025] x", "[E ProcessGroupNCCL.cpp:1025] x", 11, "node-1", {}),
        ("worker-1: Killing subprocess 88", "Killing subprocess 88", None, "worker-1", {}),
        ("node017: Killing subprocess 88", "Killing subprocess 88", None, "node017", {}),
        ("10.1.2.3: Killing subprocess 88", "Killing subprocess 88", None, "10.1.2.3", {}),
        ("[pod/trainer-0/pytorch] boom", "boom", None, "", {"pod": "trainer-0"}),
        ("trainer-1  | boom", "boom", None, "", {"container": "trainer-1"}),
        ("[177/train/578 (pid 31001)] [00000000-1111-4222-8333-444455556666] boom", "boom", None, "", {"pid": "31001"}),
        ("node017:88231:88911 [3] NCCL INFO x", "node017:88231:88911 [3] NCCL INFO x", None, "node017",
         {"pid": "88231", "gpu": "3"}),
        ("srun: error: tn-11: task 3: Exited with exit code 1", "srun: error: tn-11: task 3: Exited with exit code 1",
         None, "tn-11", {"task": "3"}),
        ("[E ProcessGroupNCCL.cpp:475] [Rank 16] Watchdog", "[E ProcessGroupNCCL.cpp:475] [Rank 16] Watchdog", 16, "", {}),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 7] failure", "[PG ID 0 PG GUID 0(default_pg) Rank 7] failure", 7, "", {}),
        ("failed (exitcode: 1) local_rank: 4 (pid: 906)", "failed (exitcode: 1) local_rank: 4 (pid: 906)", None, "",
         {"local_rank": "4"}),
    ],
)  # fmt: skip
def test_each_kind(line: str, text: str, rank: int | None, host: str, extra: dict[str, str]) -> None:
    out, found = strip(line)
    assert (out.text, out.rank, out.host, found) == (text, rank, host, extra)
    assert out.stamp == NO_STAMP


def test_a_label_is_a_task_and_the_text_knows_the_rank_better() -> None:
    """With one srun task a node the label is not the rank: what the text says of itself wins, NCCL lines get none."""
    assert strip("2: [E ProcessGroupNCCL.cpp:475] [Rank 16] Watchdog")[0].rank == 16
    out, extra = strip("1: r07n03:9007:9307 [7] NCCL WARN NET/IB : x")
    assert (out.rank, out.host, extra["task"]) == (None, "r07n03", "1")


@pytest.mark.parametrize(
    ("line", "text", "stamp", "rank"),
    [
        ("2026-03-03T04:31:07.100Z 2026-03-03 05:31:07,099 - root - INFO - Step 3: x", "root - INFO - Step 3: x",
         Stamp("utc", MARCH_3 + 100_000), None),
        ("2026-03-03T04:31:07Z stdout F [rank2]: boom", "boom", Stamp("utc", MARCH_3), 2),
        ("3: [2026-03-03 04:31:07] boom", "boom", Stamp("local", MARCH_3), 3),
        ("[default0]:2026-03-03 04:31:07,000 boom", "boom", Stamp("local", MARCH_3), None),
        ("[rank3]:[E303 04:31:07.000000001 a.cpp:629] boom", "[E303 04:31:07.000000001 a.cpp:629] boom",
         Stamp("noyear", (31 + 29 + 2) * 86_400_000_000 + MARCH_3 % 86_400_000_000), 3),
        ("ENDING TIMING RUN AT 2026-03-03 04:31:07 PM", "ENDING TIMING RUN AT 2026-03-03 04:31:07 PM",
         Stamp("local", MARCH_3 + 12 * 3600 * 1_000_000), None),
        ("RESULT,bert,,887,,2026-03-03 12:31:07 AM", "RESULT,bert,,887,,2026-03-03 12:31:07 AM",
         Stamp("local", MARCH_3 - 4 * 3600 * 1_000_000), None),
    ],
)  # fmt: skip
def test_stamps_between_prefixes(line: str, text: str, stamp: Stamp, rank: int | None) -> None:
    out, _ = strip(line)
    assert (out.text, out.stamp, out.rank) == (text, stamp, rank)


@pytest.mark.parametrize(
    "line",
    [
        " 8800: 1.900000, 1.950000 avg loss, 0.002610 rate, 4.10 seconds",  # darknet's counter is no task
        "8806: 1.84",
        "12: loss 2.31",
        "12:31 is not a label",
        "gpu0: busy",
        "epoch-3: done",
        "(see https://example.org for more)",
        "(step 3, loss=2.1)",
    ],
)
def test_what_is_no_prefix_stays(line: str) -> None:
    out, extra = strip(line)
    assert out.text == line
    assert (out.rank, out.host, extra) == (None, "", {})


def test_colours_are_removed_also_without_their_escape_byte() -> None:
    assert clean("\x1b[36m(W pid=3)\x1b[0m \x1b[1;31mERROR\x1b[0m") == "(W pid=3) ERROR"
    assert clean("\x1b]0;title\x07text#033[31m!") == "text!"
    assert clean("[36m(W pid=3)[0m boom[32m [repeated 2x]") == "(W pid=3) boom [repeated 2x]"
    assert strip("\x1b[36m(WorkerDict pid=27497)\x1b[0m boom")[1]["pid"] == "27497"


@given(st.text(max_size=300))
def test_strip_never_raises_and_only_takes_from_the_front(line: str) -> None:
    out, _ = strip(line)
    assert clean(line).rstrip("\r\n").endswith(out.text)


@given(
    st.lists(
        st.sampled_from(
            ["[rank3]:", "3: ", "[1,2]<stderr>:", "(A pid=1, ip=10.0.0.1) ", "[", "\x1b[0m", "2026-03-03 04:31:07 "]
        )
    )
)
def test_stacks_of_prefixes_end(parts: list[str]) -> None:
    strip("".join(parts) + "text")
