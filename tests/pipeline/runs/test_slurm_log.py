"""Runs out of controller logs: through the real rules, in any order, cut into attempts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from classifiers.knowledge import load_ruleset
from pipeline.formats import LineFormat, registry
from pipeline.runs.slurm_log import slurm_fragments
from pipeline.scanning.record_scan import Matcher
from schemas.facts import RunFragment, SignalFact
from tests.pipeline.formats.framing import frames


def signals(text: str) -> list[SignalFact]:
    """What the rules fold out of these lines of a controller log."""
    fmt = registry()["slurm_daemon"]
    assert isinstance(fmt, LineFormat)
    match = Matcher("s", fmt.family, load_ruleset())
    offset = 0
    for number, line, frame in frames(fmt, text.encode()):
        match(frame.text, offset=offset, line=number, stamp=frame.stamp)
        offset += len(line) + 1
    return list(match.fold.facts())


def line(clock: str, text: str) -> str:
    return f"[2026-03-03T{clock}] {text}\n"


def runs(*lines: tuple[str, str]) -> list[RunFragment]:
    return slurm_fragments(signals("".join(line(*x) for x in lines)))


START = ("03:31:07.100", "sched: Allocate JobId=4242 NodeList=node[017-018] #CPUs=384 Partition=train")


def test_a_failed_node_ends_the_attempt_and_the_requeued_one_follows():
    first, second = runs(
        START,
        ("04:31:07.413", "Requeuing JobId=4242 due to failure of node node017"),
        ("04:40:00.000", "sched: Allocate JobId=4242 NodeList=node[019-020] #CPUs=384 Partition=train"),
        ("06:00:00.000", "_job_complete: JobId=4242 WEXITSTATUS 0"),
        ("06:00:00.001", "_job_complete: JobId=4242 done"),
    )
    assert (first.state, first.nodes, first.offset) == ("NODE_FAIL", ("node017", "node018"), 0)
    assert "failed_node=node017" in first.extra
    assert first.end.us - first.start.us == 3_600_313_000
    assert (second.state, second.exit_code, second.nodes) == ("COMPLETED", 0, ("node019", "node020"))
    assert second.end.us - second.start.us == 4_800_000_000


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (("_job_complete: JobId=4242 WEXITSTATUS 134",), "FAILED"),
        (("_job_complete: JobId=4242 WTERMSIG 9",), "FAILED"),
        (("_job_complete: JobId=4242 OOM failure",), "OUT_OF_MEMORY"),
        (("Killing JobId=4242 on failed node node018",), "NODE_FAIL"),
        (
            ("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=4242 uid 1002", "_job_complete: JobId=4242 WTERMSIG 15"),
            "CANCELLED",
        ),
        (("_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=4242 uid 1002",), "CANCELLED"),
        (("Time limit exhausted for JobId=4242", "_job_complete: JobId=4242 WTERMSIG 15"), "TIMEOUT"),
        (("preempted job JobId=4242 has been killed to reclaim resources for JobId=5000",), "PREEMPTED"),
        ((), "RUNNING"),
    ],
)
def test_state(said: tuple[str, ...], state: str):
    (run,) = runs(START, *((f"04:31:0{i}.000", text) for i, text in enumerate(said)))
    assert run.state == state
    assert (run.end.kind == "none") == (state == "RUNNING")


def test_who_cancelled_is_kept_and_the_end_is_when_it_was_over():
    (run,) = runs(
        START,
        ("04:31:00.000", "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=4242 uid 1002"),
        ("04:31:31.000", "_job_complete: JobId=4242 WTERMSIG 9"),
    )
    assert "cancelled_by=1002" in run.extra
    assert run.exit_signal == 9
    assert run.end.us % 60_000_000 == 31_000_000


def test_jobs_of_one_second_do_not_fold_together():
    lines = [
        ("03:31:07.100", f"sched: Allocate JobId={n} NodeList=node{n} #CPUs=1 Partition=p") for n in range(100, 140)
    ]
    found = runs(*lines)
    assert {(f.job_id, f.nodes) for f in found} == {(str(n), (f"node{n}",)) for n in range(100, 140)}


def test_array_tasks_keep_both_numbers_and_submission_its_time():
    (run,) = runs(
        ("03:30:00.000", "_slurm_rpc_submit_batch_job: JobId=100_3(103) InitPrio=4294901759 usec=512"),
        ("03:31:07.100", "sched/backfill: _start_job: Started JobId=100_3(103) in train on node[017-018]"),
    )
    assert (run.job_id, run.state) == ("100_3", "RUNNING")
    assert run.start.us - run.submit.us == 67_100_000
    assert set(run.extra) == {"job_id_raw=103", "partition=train"}


def test_without_an_allocation_line_the_failed_node_is_all_that_is_known():
    (run,) = runs(("04:31:07.413", "Killing JobId=4242 on failed node node018"))
    assert (run.nodes, run.n_nodes) == (("node018",), None)
    assert "nodes_cut=1" in run.extra


def test_a_node_list_longer_than_the_kept_text_is_whole():
    nodes = ",".join(f"n{i:04d}x" for i in range(0, 1200))
    (run,) = runs(("03:31:07.100", f"sched: Allocate JobId=7 NodeList={nodes} #CPUs=1 Partition=p"))
    assert len(run.nodes) + ("nodes_cut=1" in run.extra) >= 1
    assert run.nodes[:2] == ("n0000x", "n0001x")


def test_order_does_not_matter(shared_cases: Path):
    (path,) = shared_cases.glob("h028-*/slurmctld.log")
    found = signals(path.read_text())
    expected = slurm_fragments(found)
    assert {f.job_id: f.state for f in expected} == {
        "141220": "NODE_FAIL",
        "141233": "NODE_FAIL",
        "141190": "NODE_FAIL",
    }
    for seed in range(5):
        random.Random(seed).shuffle(found)
        assert slurm_fragments(found) == expected
