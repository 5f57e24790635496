"""A load reads what it may have changed and no more; what that retracts and keeps is as if it had read everything."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete

from pipeline.warehouse import redecide as module
from pipeline.warehouse.ingest import ingest
from pipeline.warehouse.reading import Reading, read_for_scope
from schemas.settings import Settings
from sql import models
from sql.store import open_store
from tests.pipeline.loading import decisions, same, site, url
from tests.pipeline.tiny_sites import Files, write


def _parts(day: int) -> tuple[Files, Files]:
    """(host logs, all else) of a site that many days from now, under names of its own."""
    files = {
        p.replace("510", f"{7000 + day}").replace("sacct", f"sacct{day}").replace("kern", f"kern{day}"): text.replace(
            "5101|", f"{7000 + day}1|"
        ).replace("5102|", f"{7000 + day}2|")
        for p, text in site("hbm", shift=timedelta(days=day)).items()
    }
    hosts = {p: text for p, text in files.items() if p.startswith("hosts/")}
    return hosts, {p: text for p, text in files.items() if p not in hosts}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Reading]:
    """What each load read."""
    out: list[Reading] = []

    def spy(*args: object) -> Reading:
        out.append(read_for_scope(*args))  # type: ignore[arg-type]
        return out[-1]

    monkeypatch.setattr(module, "read_for_scope", spy)
    return out


DAYS = (0, 40, 80, 120)


def _load(folder: Path, warehouse: str, name: str, files: Files) -> None:
    ingest([write(files, folder / warehouse / name)], url(folder, warehouse), Settings())


def test_old_episodes_stand_and_those_of_the_load_go(read: list[Reading], tmp_path: Path) -> None:
    for day in DAYS:
        _load(tmp_path, "steps", f"hosts{day}", _parts(day)[0])
    before = {d.subject_key for d in decisions(url(tmp_path, "steps")) if d.kind == "host_fault"}
    assert len(before) >= len(DAYS)
    read.clear()
    _load(tmp_path, "steps", "jobs80", _parts(80)[1])
    (mine,) = read
    with open_store(url(tmp_path, "steps")) as store:
        assert mine.window is not None
        assert 0 < len(mine.signals) < 0.6 * store.stats()["signals"]
        spans, unknown = store.read_episodes("default")
    after = {d.subject_key for d in decisions(url(tmp_path, "steps")) if d.kind == "host_fault"}
    assert before - after
    assert len(before & after) >= len(DAYS) - 1
    assert spans.keys() == after
    assert not unknown
    whole = [write(_parts(day)[0], tmp_path / "all" / f"hosts{day}") for day in DAYS]
    whole.append(write(_parts(80)[1], tmp_path / "all" / "jobs80"))
    ingest(whole, url(tmp_path, "whole"), Settings())
    assert same(url(tmp_path, "steps")) == same(url(tmp_path, "whole"))


def test_a_warehouse_that_does_not_know_its_episodes_times_learns_them(read: list[Reading], tmp_path: Path) -> None:
    for day in DAYS[:3]:
        _load(tmp_path, "old", f"hosts{day}", _parts(day)[0])
    with open_store(url(tmp_path, "old")) as store, store.writing() as connection:
        connection.execute(delete(models.episodes))
    before = {d.subject_key for d in decisions(url(tmp_path, "old"))}
    read.clear()
    _load(tmp_path, "old", "hosts120", _parts(120)[0])
    assert not read
    assert before <= {d.subject_key for d in decisions(url(tmp_path, "old"))}
    with open_store(url(tmp_path, "old")) as store:
        assert not store.read_episodes("default")[1]
