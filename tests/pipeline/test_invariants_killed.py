"""Atomicity: whatever kills an ingest, and wherever, loading the same files again gives the rows of a clean load."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from sql.store import open_store
from tests.pipeline.loading import EXAMPLES, load, same, site, url
from tests.pipeline.tiny_sites import write

POINTS = [
    ("begin_ingest", "after"),
    ("load_facts", "before"),
    ("load_facts", "after"),
    ("update_placements", "after"),
    ("replace_decisions", "before"),
    ("replace_decisions", "after"),
    ("replace_runs", "after"),
    ("finish_ingest", "before"),
]
ROOT = Path(__file__).resolve().parents[2]


def killed(warehouse: str, folder: Path, *point: str) -> int:
    command = [sys.executable, "-m", "tests.pipeline.killed_ingest", warehouse, str(folder), *point]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False).returncode


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("clean")
    load(url(folder), folder, site("hbm"))
    return same(url(folder))


@pytest.mark.parametrize("point", POINTS, ids="-".join)
def test_killed_and_loaded_again(point: tuple[str, str], clean: bytes, tmp_path: Path) -> None:
    logs = write(site("hbm"), tmp_path / "killed" / "logs")
    assert killed(url(tmp_path), logs, *point) == -signal.SIGKILL
    load(url(tmp_path), tmp_path, site("hbm"))
    assert same(url(tmp_path)) == clean
    with open_store(url(tmp_path)) as store:
        assert not store.pending("default")


@pytest.mark.parametrize(
    "point",
    [("update_placements", "before"), ("replace_decisions", "before"), ("replace_decisions", "after")],
    ids="-".join,
)
def test_what_a_killed_load_brought_is_decided_by_the_next_one(point: tuple[str, str], tmp_path: Path) -> None:
    """The next load brings nothing but one healthy host's log."""
    files = site("hbm", healthy=True)
    healthy = {p: text for p, text in files.items() if "ok9" in p}
    logs = write({p: text for p, text in files.items() if p not in healthy}, tmp_path / "killed" / "logs")
    assert killed(url(tmp_path), logs, *point) == -signal.SIGKILL
    load(url(tmp_path), tmp_path, healthy)
    whole = tmp_path / "whole"
    load(url(tmp_path, "whole"), whole, files)
    assert same(url(tmp_path)) == same(url(tmp_path, "whole"))


@hypothesis_settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(after=st.floats(0.0, 1.5))
def test_killed_at_any_time(after: float, clean: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("any")
    logs = write(site("hbm"), folder / "killed" / "logs")
    assert killed(url(folder), logs, "-", str(after)) in (0, -signal.SIGKILL)
    load(url(folder), folder, site("hbm"))
    assert same(url(folder)) == clean


def test_two_loads_at_once(clean: bytes, tmp_path: Path) -> None:
    """Accounting and job logs in one process, host logs in another, into one warehouse at the same time."""
    files = site("hbm")
    with open_store(url(tmp_path), create=True):
        pass
    started = []
    for number, mine in enumerate((True, False)):
        part = {p: text for p, text in files.items() if p.startswith("hosts/") is mine}
        logs = write(part, tmp_path / f"at-once-{number}" / "logs")
        command = [sys.executable, "-m", "tests.pipeline.killed_ingest", url(tmp_path), str(logs), "-", "100"]
        started.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE))
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    assert same(url(tmp_path)) == clean
