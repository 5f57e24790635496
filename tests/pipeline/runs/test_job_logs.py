"""What paths of job logs tell: job ids, array tasks, and which files are one run."""

from __future__ import annotations

import pytest

from pipeline.runs.job_logs import path_id, stem


@pytest.mark.parametrize(
    ("path", "job", "task"),
    [
        ("slurm-682842_1.out", "682842", 1),
        ("a.tar.gz!jobs/123/out.log", "123", -1),
        ("logs/train-123456.err", "123456", -1),
        ("run.o4242", "4242", -1),
        ("train-20260304.log", None, -1),
        ("result_1.log", None, -1),
        ("main.log", None, -1),
        ("out/12345.out", "12345", -1),
        ("out/20260304.out", None, -1),
    ],
)
def test_job_ids_in_paths(path: str, job: str | None, task: int) -> None:
    found = path_id(path)
    assert (found.job if found else None, found.task if found else -1) == (job, task)


def test_stems_take_ranks_and_streams_out_of_names_but_not_numbers_of_runs() -> None:
    assert stem("logs/rank-0.out") == stem("logs/rank-31.err")
    assert stem("t/attempt_0/3/stderr.log") == stem("t/attempt_0/7/stdout.log")
    assert stem("job.out") == stem("job.err.gz")
    assert stem("x/result_1.log") != stem("x/result_2.log")
    assert stem("job-a.log") != stem("job-b.log")
    assert stem("a/rank-0.log") != stem("b/rank-0.log")
    assert stem("pods/ml_a-worker-0_0a1b2c3d/t/0.log") == stem("pods/ml_a-worker-1_9f8e7d6c/t/0.log")
    assert stem("pods/ml_a-worker-0_0a1b2c3d/t/0.log") != stem("pods/ml_b-worker-0_0a1b2c3d/t/0.log")
