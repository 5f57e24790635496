"""Job output: sample pairs, what is claimed, borrowed stamps, glued bars, boxes, marks, hostile input."""

# ruff: noqa: E501 - sample lines are as long as logs print them

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.formats import registry, sniff
from pipeline.formats.base import LineFormat
from pipeline.formats.joblog import BORROW_LINES, FORMATS
from schemas.facts import Stamp
from tests.pipeline.formats.framing import Before, frames, read_sample

PAIRS = sorted((Path(__file__).parent / "samples" / "joblog").glob("*.in"))
JOB = FORMATS[0]
NOBODY = Before([], 0)


@pytest.mark.parametrize("path", PAIRS, ids=lambda p: p.stem)
def test_sample(path: Path) -> None:
    assert read_sample("joblog", path.read_bytes()) == json.loads(path.with_suffix(".json").read_text())
    found = sniff(path.read_bytes(), "a.txt")
    assert found is not None
    assert found.name == "joblog"


def test_it_is_a_line_format_with_progress_and_rare_marks() -> None:
    assert isinstance(registry()["joblog"], LineFormat)
    assert JOB.progress
    assert all(len(mark) >= 6 for mark in JOB.marks)


@pytest.mark.parametrize(
    ("head", "least", "most"),
    [
        (b"[rank0]: Traceback (most recent call last):\nRuntimeError: CUDA error: x\nstep 3 loss 2.1\n", 0.6, 0.7),
        (b"hello\nworld\n", 0.3, 0.36),
        (b'{"a": 1}\n{"a": 2}\n', 0.0, 0.0),
        (b'{"namespace": "", "key": "x"}\n:::MLLOG {"key": "y"}\nepoch 3\nstep 4 loss 2\n', 0.5, 0.7),
        (b"<?xml version='1.0'?>\n", 0.0, 0.0),
        (b"\x7fELF\0\0\0\0", 0.0, 0.0),
        (bytes(range(1, 32)) * 40, 0.0, 0.0),
        (b"\n \n", 0.0, 0.0),
    ],
)
def test_how_surely_a_head_is_claimed(head: bytes, least: float, most: float) -> None:
    assert least <= JOB.sniff(head, "x") <= most


def test_records_and_kernel_logs_are_left_to_those_who_know_them() -> None:
    kernel = b"".join(
        b"[%5d.%06d] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n" % (i, i) for i in range(9)
    )
    table = b"JobID|JobName|Partition|User|State|ExitCode|Start|End|Elapsed|NNodes|NodeList\n1|a|g|u|COMPLETED|0:0|2031-04-29T20:28:38|2031-05-01T10:11:40|1|1|n1\n"
    assert (sniff(kernel, "job.log") or JOB).name == "dmesg.raw"
    assert (sniff(table, "job.log") or JOB).name == "sacct"


def test_a_line_without_a_stamp_borrows_the_nearest_earlier_one() -> None:
    lines = ["2026-03-03 04:31:07 INFO epoch", "                 step=3 loss=0.1"]
    frame = JOB.frame(lines[1], Before(lines, 1))
    assert frame.stamp == Stamp("local", 1772512267_000_000, borrowed=True)
    far = [lines[0], *["frame #1: 0x1"] * BORROW_LINES, "step"]
    assert JOB.frame("step", Before(far, len(far) - 1)).stamp.kind == "none"


def test_event_time_of_mllog_counts_before_a_borrowed_one() -> None:
    line = '3: text:::MLLOG {"namespace": "", "time_ms": 1714569853718, "key": "run_st'
    assert JOB.frame(line, NOBODY).stamp == Stamp("utc", 1714569853718_000)


def test_a_message_behind_progress_bars_is_the_text() -> None:
    bars = " 12%|█▏        | 2899/25120 [2:12:20<16:50:19,  2.70s/it] 12%|█▏        | 2900/25120 [2:12:23<16:51:19,  2.71s/it]"
    assert (
        JOB.frame(bars + "WARNING:agent:Received 1 death signal", NOBODY).text
        == "WARNING:agent:Received 1 death signal"
    )
    assert JOB.frame(bars, NOBODY).text == bars


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("╭───────────── Traceback (most recent call last) ─────────────╮", "Traceback (most recent call last)"),
        ("│ ❱ 1012 │   main(args)                                        │", "❱ 1012 │   main(args)"),
        ("╰───────────────────────────────────────────────────────────────╯", ""),
        ("[15:58:29] WARNING  Sending process 197 closing signal SIGTERM          api.py:699",
         "WARNING  Sending process 197 closing signal SIGTERM"),
    ],
)  # fmt: skip
def test_boxes_and_columns_are_unwrapped(line: str, text: str) -> None:
    assert JOB.frame(line, NOBODY).text == text


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("slurmstepd: error: *** STEP 1528763.0 ON vega-gp01 CANCELLED AT 2031-05-01T10:11:40 ***", {"job_id": "1528763"}),
        ("SLURM_JOB_ID=4242", {"job_id": "4242"}),
        ("export SLURM_JOBID: '4242'", {"job_id": "4242"}),
        ("srun: Force Terminated StepId=152.13", {"job_id": "152"}),
        (":::DLPAL /img/x.sqsh 2542 8 node[1-8] 'site' SYS", {"job_id": "2542", "n_nodes": "8", "nodelist": "node[1-8]"}),
        ("+ echo ':::DLPAL /img/x.sqsh 2542 8 node[1-8] site SYS'", {}),
        ("using world size: 384, data-parallel-size: 8", {"world_size": "384"}),
        ("Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1024", {"world_size": "1024"}),
        ("nd2.example.org:14159:14168 [0] NCCL INFO comm 0x55aa rank 3 nranks 16 cudaDev 0 busId 4c000 - Init COMPLETE",
         {"nranks": "16", "nccl_rank:16:nd2:0": "3", "nccl_gpu:nd2:0": "@0000:4c:00"}),
        ("3: nd2:14159:14168 [3] NCCL INFO comm 0x55aa rank 3 nranks 16 cudaDev 3 busId 4c000 - Init COMPLETE",
         {"nranks": "16", "rank_host": "3=nd2", "nccl_rank:16:nd2:3": "3", "nccl_gpu:nd2:3": "@0000:4c:00"}),
        ("SLURM_JOB_NODELIST=vega-gp[01-34,36]", {"nodelist": "vega-gp[01-34,36]"}),
        ("  min_nodes        : 4", {"n_nodes": "4"}),
        ("  nproc_per_node   : 8", {"nproc_per_node": "8"}),
        ("  run_id           : 17458", {"rdzv_id": "17458"}),
        ("  master_addr=test-master-0", {"master_addr": "test-master-0"}),
        ("training on 992 devices (GPUs/TPUs)", {"n_gpus": "992"}),
        ("NCCL version 2.25.1+cuda12.9", {"nccl_version": "2.25.1+cuda12.9"}),
        ("| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2 |",
         {"driver_version": "535.104.05", "cuda_version": "12.2"}),
        ("[setup] nothing here", {}),
    ],
)  # fmt: skip
def test_marks(line: str, facts: dict[str, str]) -> None:
    assert JOB.mark(line, JOB.frame(line, NOBODY)) == facts


def test_every_mark_of_a_line_is_one_that_the_scanner_looks_for() -> None:
    """A line that only `mark` reads must carry one of the literals, else it is never seen."""
    for line in ("SLURM_JOB_ID=4242", "slurmstepd: error: *** JOB 3 ON a CANCELLED", "NCCL version 2.1", "  run_id           : 1",
                 "using world size: 384", "x training on 8 GPUs", "  nproc_per_node   : 8"):  # fmt: skip
        assert any(mark in line.encode() for mark in JOB.marks), line


@given(st.text(max_size=400))
def test_no_line_is_too_odd(line: str) -> None:
    frame = JOB.frame(line, NOBODY)
    assert frame.ok
    JOB.mark(line, frame)


@given(st.binary(max_size=300))
def test_any_head_can_be_sniffed(head: bytes) -> None:
    assert 0.0 <= JOB.sniff(head, "x") <= 0.7


def test_real_job_logs_are_claimed(shared_cases: Path) -> None:
    """All job output among the cases is told from records and host logs by its content."""
    seen = 0
    for path in sorted(shared_cases.glob("*/*")):
        if path.name.startswith(("job", "main_log", "slurm-", "worker")) and path.suffix in (
            ".log",
            ".txt",
            ".out",
            ".err",
        ):
            found = sniff(path.read_bytes(), "x")
            assert found is not None, path
            assert found.name == "joblog", path
            assert all(frame.ok for _, _, frame in frames(JOB, path.read_bytes()))
            seen += 1
    assert seen >= 40
