"""Clocks that are off, through a warehouse: late evidence moves what was decided; the rows are those of one load."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cli.timeline import explain_lines
from pipeline.diagnose import diagnose
from schemas.settings import Settings
from sql.store import open_store
from tests.pipeline.loading import decisions, load, same, shape, url
from tests.pipeline.placing.test_skew import SKEWS, site

SETTINGS = Settings(tz="UTC")


def read(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): p.read_text() for p in sorted(root.rglob("*")) if p.is_file()}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    site(tmp_path / "site", SKEWS)
    return read(tmp_path / "site")


def test_ingest_is_diagnose_and_explain_tells_the_clock(files: dict[str, str], tmp_path: Path):
    load(url(tmp_path), tmp_path, files, SETTINGS)
    stored = decisions(url(tmp_path))
    assert shape(stored) == shape(diagnose([tmp_path / "input-0" / "logs"], SETTINGS).analysis.decisions)
    with open_store(url(tmp_path)) as store:
        (incident,) = (d for d in stored if d.kind == "job_interruption" and d.incident)
        lines = list(explain_lines(store.read_decision(incident.incident_id, SETTINGS.cluster)))
    assert incident.first_host == "n3"
    assert any(line.strip().startswith("clock of n3 taken to be 240 s fast") for line in lines)


def test_pairs_that_come_later_move_what_was_decided(files: dict[str, str], tmp_path: Path):
    load(url(tmp_path, "one"), tmp_path, files, SETTINGS)
    late = {name for name in files if name.endswith("slurmd.log")}
    load(url(tmp_path, "two"), tmp_path, {n: t for n, t in files.items() if n not in late}, SETTINGS)
    first = decisions(url(tmp_path, "two"))
    load(url(tmp_path, "two"), tmp_path, {n: t for n, t in files.items() if n in late}, SETTINGS)
    assert same(url(tmp_path, "two")) == same(url(tmp_path, "one"))
    assert shape(first) != shape(decisions(url(tmp_path, "two")))
