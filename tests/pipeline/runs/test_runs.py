"""Job runs from real scans of small inputs: ties, attempts, flags, requeues, hangs, and that order never shows."""

# ruff: noqa: E501 - sample lines are as long as logs print them

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from classifiers.knowledge import load_ruleset
from classifiers.knowledge.ruleset import RulesetImpl
from pipeline.placing.place import place
from pipeline.runs.assemble import assemble
from pipeline.scanning.scan import scan_paths
from schemas.facts import Facts, merge_facts
from schemas.identity import log_run_key, run_key
from schemas.settings import Settings
from schemas.subject import JobRun

SETTINGS = Settings()
HEAD = "JobID|JobName|Partition|User|State|ExitCode|Start|End|Elapsed|NNodes|NodeList\n"


@cache
def rules() -> RulesetImpl:
    return load_ruleset()


def facts_of(folder: Path, files: Mapping[str, str]) -> Facts:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return scan_paths([folder], SETTINGS, rules())


def runs_of(facts: Facts) -> list[JobRun]:
    return assemble(facts, place(facts.sources, facts.fragments, SETTINGS), rules(), SETTINGS)


def runs(folder: Path, files: Mapping[str, str]) -> list[JobRun]:
    return runs_of(facts_of(folder, files))


def only(found: list[JobRun]) -> JobRun:
    (run,) = found
    return run


def steps(first: int, last: int, minute: int = 0) -> str:
    """Lines of training, one step a second from a minute past ten."""
    return "".join(
        f"2026-03-04 10:{minute + i // 60:02d}:{i % 60:02d},000 INFO step {first + i} loss 2.1\n"
        for i in range(last - first + 1)
    )


def sacct(*rows: str) -> str:
    return HEAD + "".join(row + "\n" for row in rows)


def row(
    job: str, state: str, code: str = "0:0", start: str = "10:00:00", end: str = "10:30:00", nodes: str = "n[1-2]"
) -> str:
    day = "2026-03-04T"
    last = end if end == "Unknown" else day + end
    return f"{job}|llm|gpu|ada|{state}|{code}|{day}{start}|{last}|00:30:00|2|{nodes}"


CRASH = (
    "2026-03-04 10:05:00,000 ERROR rank 3 failed\n"
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n'
    "RuntimeError: CUDA error: an illegal memory access was encountered\n"
)


# --- a log alone


def test_a_log_that_just_stops_is_cut(tmp_path: Path) -> None:
    run = only(runs(tmp_path, {"job.log": steps(1, 30)}))
    assert run.truncated
    assert (run.success, run.end_known, run.state, run.scheduler, run.job_id) == (False, False, "", "", None)
    assert (run.first_step, run.last_step, run.step_s) == (1, 30, 1.0)
    assert run.last_progress_us == run.log_end_us


def test_a_crash_is_no_cut(tmp_path: Path) -> None:
    run = only(runs(tmp_path, {"job.log": steps(1, 30) + CRASH}))
    assert (run.truncated, run.success, run.still_running) == (False, False, None)


def test_success_and_exit_by_duration(tmp_path: Path) -> None:
    done = only(runs(tmp_path / "a", {"job.log": steps(1, 30) + "2026-03-04 10:05:00,000 INFO Training completed.\n"}))
    assert (done.success, done.planned_end, done.end_known) == (True, False, True)
    left = only(
        runs(
            tmp_path / "b",
            {
                "job.log": steps(1, 30)
                + "  successfully saved checkpoint at iteration   30 to /ckpt/a\n"
                + "[exiting program after 1190.03 minutes] datetime: 2026-03-04 10:05:00\n"
            },
        )
    )
    assert (left.success, left.planned_end, left.end_known) == (False, True, True)
    assert (left.resume_step, left.resume_path) == (30, "/ckpt/a")


@pytest.mark.parametrize(("saved", "planned"), [(True, True), (False, False)])
def test_an_exit_on_a_signal_is_by_plan_only_behind_a_save(tmp_path: Path, saved: bool, planned: bool) -> None:
    save = "saving checkpoint at iteration   30 to /ckpt/a\n" if saved else ""
    run = only(runs(tmp_path, {"job.log": steps(1, 30) + save + "exiting program after receiving SIGTERM.\n"}))
    assert run.planned_end is planned


def test_a_restart_in_the_job_makes_two_attempts(tmp_path: Path) -> None:
    text = (
        steps(1, 30)
        + CRASH
        + "I0304 10:05:02.100000 411 torch/distributed/elastic/agent/server/api.py:910] [default] Worker group FAILED."
        + " 3/3 attempts left; will restart worker group\n  restart_count=1\n"
        + steps(21, 60, 6)
        + "I0304 10:08:05.000000 411 torch/distributed/elastic/agent/server/api.py:899] [default] worker group"
        + " successfully finished. Waiting 300 seconds for other agents to finish.\n"
    )
    first, second = runs(tmp_path, {"job.log": text})
    assert (first.attempt, first.in_job_attempt, first.success, first.last_step) == (0, True, False, 30)
    assert (second.attempt, second.in_job_attempt, second.success, second.first_step) == (1, False, True, 21)
    assert first.spans[0][2] == second.spans[0][1]
    assert first.run_key == log_run_key(first.source_ids[0], 0)
    assert second.run_key != first.run_key


def test_a_benchmark_without_its_own_end_has_ended(tmp_path: Path) -> None:
    head = ':::MLLOG {"namespace": "", "time_ms": 1772618400000, "event_type": "INTERVAL_START", "key": "run_start", "value": null, "metadata": {"file": "a.py", "lineno": 1}}\n'
    end = ':::MLLOG {"namespace": "", "time_ms": 1772618500000, "event_type": "INTERVAL_END", "key": "run_stop", "value": null, "metadata": {"file": "a.py", "lineno": 2, "status": "STATUS"}}\n'
    missing = only(runs(tmp_path / "a", {"r.log": head + steps(1, 5)}))
    assert (missing.success, missing.truncated, missing.end_known) == (False, False, True)
    assert "end_marker=missing" in missing.extra
    for status in ("success", "aborted"):
        run = only(runs(tmp_path / status, {"r.log": head + steps(1, 5) + end.replace("STATUS", status)}))
        assert (run.success, run.end_known, run.end_us) == (True, True, 1772618500_000_000)


def test_only_a_log_that_is_written_on_for_long_hangs_without_a_record(tmp_path: Path) -> None:
    soon = only(runs(tmp_path / "a", {"job.log": steps(1, 30) + "2026-03-04 10:09:00,000 INFO step_timer alive\n"}))
    late = only(runs(tmp_path / "b", {"job.log": steps(1, 30) + "2026-03-04 11:09:00,000 INFO heartbeat alive\n"}))
    assert soon.still_running is None
    assert late.still_running is True


# --- with a scheduler's record


def test_record_and_log_are_one_run(tmp_path: Path) -> None:
    run = only(runs(tmp_path, {"sacct.txt": sacct(row("77", "FAILED", "1:0")), "job.log": steps(1, 30) + CRASH}))
    assert (run.job_id, run.state, run.exit_code, run.nodes, run.user) == ("77", "FAILED", 1, ("n1", "n2"), "ada")
    assert (run.last_step, run.end_known, run.truncated) == (30, True, False)
    assert "job log tied by: it is the only job here" in run.assumed
    assert run.run_key == run_key("slurm", "", "77", f"local:{1772618400}")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("slurm-77.out", "", "job id in its path"),
        ("logs/77/x.log", "SLURM_JOB_ID=77\n", "job id in its text"),
        ("train.log", "n1:88231:88911 [3] NCCL INFO comm 0x5 rank 0 nranks 16 cudaDev 3 - Init COMPLETE\n", "hosts and time"),
    ],
)  # fmt: skip
def test_how_a_log_is_tied_to_one_of_many_jobs(tmp_path: Path, name: str, text: str, words: str) -> None:
    table = sacct(row("77", "FAILED", "1:0"), row("78", "COMPLETED", nodes="n[7-8]"), row("79", "FAILED", nodes="n9"))
    found = {r.job_id: r for r in runs(tmp_path, {"sacct.txt": table, name: text + steps(1, 30)})}
    assert set(found) == {"77", "78", "79"}
    assert found["77"].last_step == 30
    assert f"job log tied by: {words}" in found["77"].assumed
    assert not found["78"].source_ids


def test_a_log_that_names_another_job_is_not_given_to_the_only_record(tmp_path: Path) -> None:
    files = {"sacct.txt": sacct(row("77", "COMPLETED")), "slurm-77.out": steps(1, 9), "slurm-91.out": steps(1, 30)}
    found = {r.job_id: r for r in runs(tmp_path, files)}
    assert found["77"].last_step == 9
    assert (found["91"].last_step, found["91"].scheduler) == (30, "")


def test_a_log_alone_is_adopted_when_its_record_turns_up(tmp_path: Path) -> None:
    log = facts_of(tmp_path / "site", {"slurm-77.out": steps(1, 30)})
    (tmp_path / "site" / "slurm-77.out").unlink()
    record = facts_of(tmp_path / "site", {"sacct.txt": sacct(row("77", "NODE_FAIL"))})
    before, after = only(runs_of(log)), only(runs_of(merge_facts([record, log])))
    assert (before.job_id, before.scheduler) == ("77", "")
    assert (after.job_id, after.state, after.last_step) == ("77", "NODE_FAIL", 30)
    assert after == only(runs_of(merge_facts([log, record])))


def test_a_requeued_job_has_an_attempt_for_each_start(tmp_path: Path) -> None:
    table = sacct(row("77", "NODE_FAIL", end="10:03:00"), row("77", "COMPLETED", start="10:10:00"))
    log = (
        steps(1, 60)
        + "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-03-04T10:02:50 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
        + "Starting training\n"
        + steps(41, 90, 12)
    )
    first, second = runs(tmp_path, {"sacct.txt": table, "slurm-77.out": log})
    assert [(r.attempt, r.state, r.success) for r in (first, second)] == [
        (0, "NODE_FAIL", False),
        (1, "COMPLETED", True),
    ]
    assert (first.last_step, second.first_step, second.last_step) == (60, 41, 90)
    assert first.run_key != second.run_key


def test_the_word_of_the_scheduler_belongs_to_the_last_attempt(tmp_path: Path) -> None:
    log = steps(1, 30) + CRASH + "Worker group FAILED. 1/3 attempts left; will restart worker group\n" + steps(1, 20, 9)
    first, second = runs(tmp_path, {"sacct.txt": sacct(row("77", "COMPLETED")), "slurm-77.out": log})
    assert (first.state, first.in_job_attempt, first.success) == ("", True, False)
    assert (second.state, second.in_job_attempt, second.success) == ("COMPLETED", False, True)
    assert (first.start_us, second.end_us) == (1772618400_000_000, 1772620200_000_000)


def test_steps_of_a_job_merge_into_it(tmp_path: Path) -> None:
    table = sacct(
        row("77", "OUT_OF_MEMORY", "0:125"),
        row("77.batch", "OUT_OF_MEMORY", "0:125", nodes="n1"),
        row("77.0", "FAILED", "1:0"),
    )
    run = only(runs(tmp_path, {"sacct.txt": table}))
    assert (run.state, run.exit_signal, run.nodes) == ("OUT_OF_MEMORY", 125, ("n1", "n2"))
    assert "step.0=FAILED:1:0" in run.extra


def test_a_running_job_hangs_when_its_steps_stop(tmp_path: Path) -> None:
    table = sacct(row("77", "RUNNING", end="Unknown"))
    quiet = steps(1, 30) + "2026-03-04 10:20:00,000 INFO heartbeat alive\n"
    hung = only(runs(tmp_path / "a", {"sacct.txt": table, "slurm-77.out": quiet}))
    busy = only(runs(tmp_path / "b", {"sacct.txt": table, "slurm-77.out": steps(1, 30)}))
    ended = only(runs(tmp_path / "c", {"sacct.txt": sacct(row("77", "FAILED")), "slurm-77.out": quiet}))
    assert (hung.still_running, busy.still_running, ended.still_running) == (True, None, None)
    assert hung.last_progress_us is not None


# --- several logs of one run


def test_ranks_and_streams_of_one_job_are_one_run(tmp_path: Path) -> None:
    files = {f"logs/rank-{i}.log": steps(1, 30) for i in range(4)} | {"logs/rank-2.err": CRASH}
    files["logs/rank-2.log"] = files["logs/rank-2.log"] + "x\n"
    run = only(runs(tmp_path, files))
    assert len(run.source_ids) == 5
    assert not run.truncated


def test_two_jobs_in_one_folder_are_two_runs(tmp_path: Path) -> None:
    found = runs(tmp_path, {"job-a.log": steps(1, 30), "job-b.log": steps(5, 20) + CRASH})
    assert sorted(r.last_step or 0 for r in found) == [20, 30]


def test_array_tasks_one_after_the_other_are_attempts_of_one_job(tmp_path: Path) -> None:
    files = {"slurm-77_1.out": steps(1, 30) + CRASH, "slurm-77_2.out": steps(20, 40, 30)}
    first, second = runs(tmp_path, files)
    assert [(r.job_id, r.attempt, r.last_step) for r in (first, second)] == [("77", 0, 30), ("77", 1, 40)]
    beside = runs(tmp_path / "b", {"slurm-77_1.out": steps(1, 30), "slurm-77_2.out": steps(20, 40)})
    assert [(r.job_id, r.attempt) for r in beside] == [("77_1", 0), ("77_2", 0)]


def test_numbered_attempts_of_a_launcher_follow_each_other(tmp_path: Path) -> None:
    files = {f"r_x/attempt_0/{rank}/stderr.log": steps(1, 9) + CRASH for rank in (0, 1)}
    files |= {f"r_x/attempt_1/{rank}/stderr.log": steps(8, 20, 30) for rank in (0, 1)}
    first, second = runs(tmp_path, files)
    assert [(r.attempt, r.in_job_attempt, r.last_step, len(r.source_ids)) for r in (first, second)] == [
        (0, True, 9, 2),
        (1, False, 20, 2),
    ]


def test_small_numbers_in_names_are_jobs_only_if_a_record_says_so(tmp_path: Path) -> None:
    files = {"out/77.out": steps(1, 30), "out/78.out": steps(1, 20)}
    assert len(only(runs(tmp_path / "ranks", files)).source_ids) == 2
    table = sacct(row("77", "FAILED", nodes="n1"), row("78", "COMPLETED", nodes="n2"))
    found = runs(tmp_path / "jobs", {**files, "sacct.txt": table})
    assert [(r.job_id, r.last_step) for r in found] == [("77", 30), ("78", 20)]


def test_evidence_beside_a_training_log_is_no_run(tmp_path: Path) -> None:
    files = {
        "job.log": steps(1, 30),
        "df.txt": "tmpfs  94G  336K   94G   1% /dev/shm\n",
        "notes.log": "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error\n",
    }
    assert only(runs(tmp_path, files)).last_step == 30


def test_sizes_come_from_what_launchers_print(tmp_path: Path) -> None:
    text = "  min_nodes        : 4\n  nproc_per_node   : 8\n" + steps(1, 5)
    run = only(runs(tmp_path, {"job.log": text}))
    assert (run.n_nodes, run.n_gpus) == (4, 32)


def _pod(name: str, job: str, node: str, start: str, end: str) -> dict[str, object]:
    ended = {"exitCode": 1, "reason": "Error", "startedAt": start, "finishedAt": end}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "labels": {"training.kubeflow.org/job-name": job},
            "ownerReferences": [{"kind": "PyTorchJob", "name": job}],
        },
        "spec": {"nodeName": node, "containers": [{"name": "t", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
        "status": {
            "phase": "Failed",
            "startTime": start,
            "containerStatuses": [{"name": "t", "restartCount": 0, "state": {"terminated": ended}}],
        },
    }


def test_logs_of_pods_belong_to_the_job_of_the_pods(tmp_path: Path) -> None:
    pods = [
        _pod(f"{job}-worker-{i}", job, f"k{n + i}", "2026-03-04T10:00:00Z", "2026-03-04T10:30:00Z")
        for job, n in (("llm-a", 1), ("llm-b", 5))
        for i in range(2)
    ]
    files = {"pods.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})}
    for job, last in (("llm-a", 30), ("llm-b", 20)):
        files[f"logs/{job}-worker-0.log"] = "".join(
            f"2026-03-04T10:00:{i:02d}.000000001Z step {i} loss 2.1\n" for i in range(last + 1)
        )
    found = runs(tmp_path, files)
    assert [(r.job_id, r.last_step, r.state) for r in found] == [("llm-a", 30, "FAILED"), ("llm-b", 20, "FAILED")]
    assert all("job log tied by: pod name in its path" in r.assumed for r in found)


# --- order never shows


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """A site with a requeue, an in-job restart, ranks, a log alone, and a running job."""
    table = sacct(
        row("77", "NODE_FAIL", end="10:03:00"), row("77", "COMPLETED", start="10:10:00"), row("77.0", "COMPLETED", start="10:10:05"),
        row("80", "RUNNING", end="Unknown", nodes="n5"), row("81", "CANCELLED by 7", nodes="n6"),
    )  # fmt: skip
    restart = "Worker group FAILED. 1/3 attempts left; will restart worker group\n"
    files = {
        "sacct.txt": table,
        "slurm-77.out": steps(1, 60) + CRASH + "Starting elastic_operator with launch configs\n" + steps(41, 90, 12),
        "slurm-80.out": steps(1, 30) + "2026-03-04 10:40:00,000 INFO heartbeat\n",
        "x/rank-0.log": steps(1, 30) + CRASH + restart + steps(20, 40, 9),
        "x/rank-1.log": steps(1, 30) + CRASH + restart + steps(20, 39, 9),
        "x/rank-1.err": CRASH,
    }
    return facts_of(tmp_path_factory.mktemp("mixed"), files)


def test_the_mixed_site_is_what_it_should_be(mixed: Facts) -> None:
    found = [(r.job_id, r.attempt, r.state, r.last_step, r.in_job_attempt) for r in runs_of(mixed)]
    assert found == [
        ("77", 0, "NODE_FAIL", 60, True),
        ("77", 1, "COMPLETED", 90, False),
        ("80", 0, "RUNNING", 30, False),
        ("81", 0, "CANCELLED", None, False),
        (None, 0, "", 30, True),
        (None, 1, "", 40, False),
    ]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), parts=st.integers(1, 4))
def test_order_and_split_of_facts_never_show(mixed: Facts, seed: int, parts: int) -> None:
    rng = random.Random(seed)
    pieces: list[Facts] = []
    fields = ("sources", "signals", "progress", "fragments")
    shares: list[dict[str, list[object]]] = [{f: [] for f in fields} for _ in range(parts)]
    for name in fields:
        items = list(getattr(mixed, name))
        rng.shuffle(items)
        for item in items:
            for share in rng.sample(shares, rng.randint(1, parts)):
                share[name].append(item)
    for share in shares:
        pieces.append(Facts(**{k: tuple(v) for k, v in share.items()}))  # type: ignore[arg-type]
    rng.shuffle(pieces)
    assert runs_of(merge_facts(pieces)) == runs_of(mixed)
    loose = Facts(**{f: tuple(rng.sample(list(getattr(mixed, f)), len(getattr(mixed, f)))) for f in fields})
    assert runs_of(loose) == runs_of(mixed)


# --- real benchmark logs


def test_healthy_benchmark_runs_reach_their_end(shared_data: Path) -> None:
    """Every one of the 336 healthy logs is one run that reached its own end; none is cut, restarted or hanging."""
    paths = sorted((shared_data / "mlperf_bulk").glob("*.gz"))
    assert len(paths) == 336
    bad = {}
    for path in paths:
        found = runs_of(scan_paths([path], SETTINGS, rules()))
        flags = [(r.success, r.truncated, r.in_job_attempt, r.still_running) for r in found]
        if flags != [(True, False, False, None)]:
            bad[path.name] = flags
    assert bad == {}


def test_labelled_benchmark_runs(shared_data: Path) -> None:
    """Success, aborted (an own end), silent end (the end marker is missing) and death, as labelled."""
    folder = shared_data / "mlperf_runs"
    with (folder / "labels_dev.tsv").open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    assert len(rows) >= 30
    for label in rows:
        found = runs_of(scan_paths([folder / label["file"]], SETTINGS, rules()))
        run = only(found)
        assert run.success is (label["outcome"] in ("success", "aborted")), label["file"]
        assert not run.in_job_attempt, label["file"]
        if label["outcome"] == "incomplete":
            assert run.end_known, label["file"]
            assert "end_marker=missing" in run.extra, label["file"]


@pytest.mark.parametrize(
    ("saved", "step", "path"),
    [
        ("  successfully saved checkpoint at iteration   30 to /ckpt/a\n", 30, "/ckpt/a"),
        ("Saving model checkpoint to /ckpt/checkpoint-30\nstep 31 loss 2.0\n", 30, "/ckpt/checkpoint-30"),
        ("Saving model checkpoint to /ckpt/checkpoint-30\n", None, None),  # nothing says that it was finished
        ("Async checkpoint save for step 29 (/ckpt/x.ckpt) finalized successfully.\n", 29, "/ckpt/x.ckpt"),
        ("Global Checkpoint Save : Rank: 0 : Iteration: 28 : Start time: 1744408121.151s : Save duration: 4.389s\n", 28, None),
        ("Checkpoint saved to /ckpt/last.pt\n", 30, "/ckpt/last.pt"),
    ],
)  # fmt: skip
def test_the_checkpoint_to_go_back_to(tmp_path: Path, saved: str, step: int | None, path: str | None) -> None:
    run = only(runs(tmp_path, {"job.log": steps(1, 30) + saved + CRASH}))
    assert (run.resume_step, run.resume_path) == (step, path)


def test_ray_restarts_its_worker_group(tmp_path: Path) -> None:
    group = "(TrainController pid=9) Attempting to start training worker group of size 16 with the following resources: [{'GPU': 1}] * 16\n"
    first, second = runs(tmp_path, {"job.log": group + steps(1, 30) + CRASH + group + steps(20, 40, 9)})
    assert (first.in_job_attempt, first.last_step, second.first_step, second.truncated) == (True, 30, 20, True)
