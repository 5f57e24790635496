"""A simulated cluster read back: every attempt is a run, every interruption one incident, most causes are found.

What this can show is plumbing and robustness, no accuracy in the field (docs/simulate.md).
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pipeline.diagnose import diagnose
from pipeline.simulate import load_settings, simulate
from pipeline.warehouse.ingest import ingest
from schemas.diagnosis import IncidentDoc
from schemas.settings import Settings
from sql.store import open_store

ENDS = {
    "completed": "none",
    "cancelled": "scheduler.cancelled",
    "timed_out": "scheduler.time_limit",
    "preempted": "scheduler.preempted",
}


def _truth(out: Path) -> dict[tuple[str, int], dict[str, str]]:
    with (out / "truth" / "attempts.tsv").open(encoding="utf-8") as rows:
        return {(a["job_id"], int(a["attempt"])): a for a in csv.DictReader(rows, delimiter="\t")}


def _answers(out: Path) -> dict[tuple[str, int], IncidentDoc]:
    found = diagnose([out / "logs"], Settings()).document.incidents
    jobs = [i for i in found if i.kind == "job_interruption"]
    keyed = {(i.job_id or "", i.attempt): i for i in jobs}
    assert len(keyed) == len(jobs), "two incidents for one attempt"
    return keyed


def _right(truth: dict[str, str], answer: IncidentDoc | None) -> bool:
    wanted = ENDS.get(truth["kind"], truth["component"])
    got = answer.component if answer else "none"
    return got == wanted or got in truth["acceptable"].split(";")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("replay") / "sim"
    simulate(out, load_settings("small", seed=11))
    return out


def test_every_attempt_is_answered_and_nearly_all_are_right(small: Path) -> None:
    truth, answers = _truth(small), _answers(small)
    assert set(answers) <= set(truth), "incidents of jobs that never were"
    wrong = {k: (t["component"], answers.get(k)) for k, t in truth.items() if not _right(t, answers.get(k))}
    assert len(wrong) <= 0.1 * len(truth), wrong
    sure = [
        k
        for k in wrong
        if (a := answers.get(k)) is not None and a.confidence >= 0.8 and not a.component.startswith("unknown")
    ]
    assert len(sure) <= 1, sure


def test_the_host_is_named_where_the_fault_had_one(small: Path) -> None:
    truth, answers = _truth(small), _answers(small)
    hosts = [
        (t["host"], answers[k].first_failing.host)
        for k, t in truth.items()
        if t["host"] and k in answers and t["component"] not in ("net.fabric", "software.bug")
    ]
    assert len(hosts) >= 8
    assert sum(a == b for a, b in hosts) >= 0.95 * len(hosts), hosts


def test_withheld_logs_make_it_abstain_not_guess(tmp_path: Path) -> None:
    simulate(tmp_path / "sim", load_settings("small", seed=11, withheld=1.0))
    truth, answers = _truth(tmp_path / "sim"), _answers(tmp_path / "sim")
    named = [
        (k, a) for k, a in answers.items() if not a.component.startswith(("unknown", "scheduler.", "maintenance."))
    ]
    wrong = [(truth[k]["component"], a.component, a.confidence) for k, a in named if not _right(truth[k], a)]
    assert all(confidence < 0.8 for _, _, confidence in wrong), wrong


def test_ingest_gives_what_diagnose_gives(small: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'w.db'}"
    result = ingest([small / "logs"], url, Settings())
    assert not result.quarantine
    with open_store(url) as store:
        rows = {d.incident_id: d.component for d in store.list_decisions() if d.incident}
    found = diagnose([small / "logs"], Settings()).document.incidents
    assert rows == {i.incident_id: i.component for i in found}
