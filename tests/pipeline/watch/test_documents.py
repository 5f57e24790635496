"""Documents that are written anew: lists of jobs, samples of telemetry, and what nobody understands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import func, select

from sql import models
from sql.store import open_store
from tests.pipeline.watch.site import Folder, xid

_HEAD = "JobID|JobName|Partition|User|State|ExitCode|Start|End|Elapsed|NNodes|NodeList|Reason\n"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def _job(number: int, state: str, end: str = "Unknown") -> str:
    return f"{number}|train|gpu|mira|{state}|1:0|2026-03-04T10:00:00|{end}|00:20:00|2|node[01-02]|None\n"


def _states(folder: Folder) -> dict[str, str]:
    with open_store(folder.warehouse) as store:
        return {f.job_id: f.state for f in store.read_fragments("default")}


def _rewrite(folder: Folder, text: str, how: str) -> None:
    if how == "in place":
        folder.write("sacct.txt", text, mode="w")
    else:
        folder.write("sacct.tmp", text)
        folder.rename("sacct.tmp", "sacct.txt")


@pytest.mark.parametrize("how", ["in place", "renamed over"])
def test_a_list_of_jobs_that_is_written_anew(folder: Folder, how: str) -> None:
    with folder.watching() as watcher:
        folder.write("sacct.txt", _HEAD + _job(1, "RUNNING") + _job(2, "RUNNING"))
        assert folder.poll(watcher).touched == set()  # it may still be being written
        folder.now += 6
        folder.poll(watcher)
        assert _states(folder) == {"1": "RUNNING", "2": "RUNNING"}
        _rewrite(folder, _HEAD + _job(2, "FAILED", "2026-03-04T10:20:00") + _job(3, "RUNNING"), how)
        folder.poll(watcher)
        folder.now += 6
        folder.poll(watcher)
        # job 1 has left the list; it was there
        assert _states(folder) == {"1": "RUNNING", "2": "FAILED", "3": "RUNNING"}
        _rewrite(folder, _HEAD + _job(3, "COMPLETED", "2026-03-04T10:30:00"), how)
        folder.poll(watcher)
        folder.now += 6
        folder.poll(watcher)
        assert _states(folder) == {"1": "RUNNING", "2": "FAILED", "3": "COMPLETED"}
    with open_store(folder.warehouse) as store:
        assert len(store.read_sources("default")) == 1
        assert len(store.read_fragments("default")) == 3
        assert store.stats()["quarantine"] == 0


def test_a_list_of_jobs_that_grows(folder: Folder) -> None:
    text = _HEAD
    with folder.watching() as watcher:
        folder.write("sacct.txt", text)
        for n in range(5):
            folder.write("sacct.txt", _job(n, "FAILED", "2026-03-04T10:20:00"))
            folder.poll(watcher)
            folder.now += 6
            folder.poll(watcher)
    folder.finish()
    assert folder.rows() == folder.ingested()
    assert len(folder.rows()["job_runs"]) == 5


def test_a_document_whose_first_line_changes_is_one_source(folder: Folder) -> None:
    with folder.watching() as watcher:
        for n in range(4):
            jobs = [
                {"job_id": i, "job_state": ["RUNNING"], "start_time": 1772618400, "nodes": "node01"}
                for i in range(n + 1)
            ]
            folder.write("squeue.json", json.dumps({"jobs": jobs, "meta": {"run": n}}), mode="w")
            folder.now += 6
            folder.poll(watcher)
            folder.now += 6
            folder.poll(watcher)
    with open_store(folder.warehouse) as store:
        assert len(store.read_sources("default")) == 1


def test_a_rotated_list_stays_beside_the_new_one(folder: Folder) -> None:
    with folder.watching() as watcher:
        for n in range(3):
            if n:
                for number in range(n, 0, -1):
                    old = "sacct.txt" if number == 1 else f"sacct.txt.{number - 1}"
                    folder.rename(old, f"sacct.txt.{number}")
            folder.write("sacct.txt", _HEAD + _job(n, "FAILED", "2026-03-04T10:20:00"))
            folder.now += 6
            folder.poll(watcher)
            folder.now += 6
            folder.poll(watcher)
    folder.finish()
    assert folder.rows() == folder.ingested()


def test_what_is_not_understood_is_quarantined_once_however_it_grows(folder: Folder) -> None:
    with folder.watching() as watcher:
        folder.write("app.log", bytes(range(256)))
        for n in range(4):
            folder.write("app.log", bytes([n, 0, 1, 2, 255]) * 100)
            folder.now += 6
            folder.poll(watcher)
            folder.now += 6
            folder.poll(watcher)
        with open_store(folder.warehouse) as store:
            assert store.stats()["quarantine"] == 1
        folder.write("app.log", "".join(xid(n) for n in range(50)), mode="w")
        folder.now += 6
        folder.poll(watcher)
        folder.now += 6
        folder.poll(watcher)
    folder.finish()
    with open_store(folder.warehouse) as store:
        assert store.stats()["quarantine"] == 1  # what had stood there was not read
    assert folder.rows() == folder.ingested()


def test_telemetry_that_grows(folder: Folder) -> None:
    head = "timestamp, uuid, temperature.gpu, power.draw [W]\n"
    rows = [
        f"2026/03/04 10:{n // 60:02d}:{n % 60:02d}.000, GPU-5c1e0c1e-aaaa-bbbb-cccc-0123456789ab, {40 + n % 9}, "
        f"{300 + n}.00 W\n"
        for n in range(300)
    ]
    with folder.watching() as watcher:
        folder.write("smi.csv", head)
        for at in range(0, 300, 100):
            folder.write("smi.csv", "".join(rows[at : at + 100]))
            folder.poll(watcher)
            folder.now += 6
            folder.poll(watcher)
    with open_store(folder.warehouse) as store, store.reading() as connection:
        counts = connection.execute(select(func.sum(models.telemetry_hourly.c.n))).scalar()
        metrics = connection.execute(select(func.count()).select_from(models.telemetry_hourly)).scalar()
    assert metrics
    assert counts == 300 * metrics
