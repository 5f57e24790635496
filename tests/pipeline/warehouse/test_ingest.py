"""What `ingest` and `reattribute` tell, refuse and leave behind."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.beam.errors import RunnerError
from pipeline.warehouse.ingest import _is_dead, ingest, reattribute
from schemas.settings import Settings
from sql.store import open_store
from tests.pipeline.loading import decisions, load, site, url
from tests.pipeline.tiny_sites import write


def test_the_result_accounts_for_the_input(tmp_path: Path) -> None:
    files = site("hbm")
    result = load(url(tmp_path), tmp_path, files)
    assert (result.sources, result.ranges) == (len(files), len(files))
    assert result.bytes == sum(len(text) for text in files.values())
    assert result.components == {"gpu.hbm": 1}
    assert [(c.what, c.before, c.after) for c in result.changed] == [("new", None, "gpu.hbm")]
    assert {"discover", "scan", "load", "decide", "write"} <= result.seconds.keys()
    with open_store(url(tmp_path)) as store:
        row = store.latest_ingest("default")
    assert row is not None
    assert row["stats"]["signals"] == result.signals > 0


def test_progress_is_told_by_stage(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    root = write(site("bug"), tmp_path / "logs")
    ingest([root], url(tmp_path), Settings(), progress=lambda *step: told.append(step))
    assert list(dict.fromkeys(stage for stage, _, _ in told)) == ["scan", "load", "decide"]
    assert all(done <= of for _, done, of in told)
    assert [(done, of) for stage, done, of in told if stage == "load"][-1][0] > 0


def test_a_refused_runner_leaves_no_warehouse(tmp_path: Path) -> None:
    root = write(site("bug"), tmp_path / "logs")
    with pytest.raises(RunnerError, match="differs by machine"):
        ingest([root], url(tmp_path), Settings(), runner="DirectRunner")
    assert not (tmp_path / "warehouse.db").exists()


def test_nothing_stays_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    load(url(tmp_path), tmp_path, site("bug"))
    assert not list((tmp_path / "tmp").glob("faultbeam-*"))


def test_reattribute_keeps_to_its_period_and_tells_what_changed(tmp_path: Path) -> None:
    load(url(tmp_path), tmp_path, site("idle"))
    with open_store(url(tmp_path)) as store:  # a decision that nobody would make
        wrong = [replace(d, component="host.memory") for d in store.list_decisions() if d.component == "gpu.nvlink"]
        store.replace_decisions("default", wrong)
        end = wrong[0].run.end_us if wrong[0].run else None
    assert end is not None
    day = 86_400_000_000
    assert reattribute(url(tmp_path), Settings(), since_us=end + day).decided == 0
    assert len(reattribute(url(tmp_path), Settings(), until_us=end - day)) == 0
    result = reattribute(url(tmp_path), Settings(), since_us=end - day, until_us=end + day)
    assert [(c.what, c.before, c.after) for c in result] == [("changed", "host.memory", "gpu.nvlink")]
    assert "host.memory" not in {d.component for d in decisions(url(tmp_path))}


def test_when_a_load_is_taken_for_dead() -> None:
    here = os.uname().nodename
    hour = 3_600_000_000
    assert _is_dead(0, {"host": here, "pid": 2**22 + 1}, hour)
    assert not _is_dead(0, {"host": here, "pid": os.getppid()}, 1000 * hour)
    assert not _is_dead(0, {"host": "elsewhere", "pid": 1}, hour)
    assert _is_dead(0, {"host": "elsewhere", "pid": 1}, 72 * hour)
