"""A simulated Kubernetes site read back: pods, events, journals, container logs and shipped lines give the causes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pipeline.diagnose import diagnose
from pipeline.simulate import load_settings, simulate
from schemas.settings import Settings

OTHER = {
    "completed": "none", "cancelled": "scheduler.cancelled", "timed_out": "scheduler.time_limit",
    "preempted": "scheduler.preempted",
}  # fmt: skip


@pytest.mark.parametrize("seed", [1, 12])
def test_jobs_of_a_kubernetes_site_are_attributed(seed: int, tmp_path: Path):
    simulate(tmp_path, load_settings("small", site="k8s", seed=seed))
    with (tmp_path / "truth" / "attempts.tsv").open() as rows:
        truth = {(row["job_id"], int(row["attempt"])): row for row in csv.DictReader(rows, delimiter="\t")}
    result = diagnose([tmp_path / "logs"], Settings())
    formats = {s.format for s in result.document.inputs}
    assert {"k8s.cri", "fluentbit", "joblog", "journal.json", "k8s.json"} <= formats
    found = {(i.job_id, i.attempt): i for i in result.document.incidents if i.kind == "job_interruption"}
    assert found.keys() <= truth.keys(), "an interruption of no known job"
    right = wrong = 0
    for key, row in truth.items():
        want = row["component"] if row["kind"] in ("unexpected", "planned") else OTHER[row["kind"]]
        answer = found[key].component if key in found else "none"
        if answer == want or answer in row["acceptable"].split(";"):
            right += 1
        else:
            wrong += 1
    assert right >= 0.9 * (right + wrong), (right, wrong)
    # every job whose log is there has its progress from it, shipped or not
    assert all(run.last_step is not None for run in result.analysis.runs if run.source_ids)
