"""The example archive, loaded once into a warehouse of its own."""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipeline.cli.main import cli
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "example-site.tar.gz"


def run(*words: str | Path, stdin: bytes | None = None) -> Result:
    """One call of the command. An exception other than an exit is a failure of the test."""
    result = CliRunner().invoke(cli, [str(w) for w in words], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@dataclass(frozen=True)
class Cause:
    job_id: str
    component: str
    host: str


@pytest.fixture(scope="session")
def causes() -> list[Cause]:
    """How each job of the example really ended."""
    with (ROOT / "examples" / "causes.tsv").open(encoding="utf-8", newline="") as handle:
        rows = csv.DictReader(handle, dialect="excel-tab")
        return [Cause(row["job_id"], row["component"], row["host"]) for row in rows]


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file into which the example was loaded. Do not write to it: see `warehouse`."""
    file = tmp_path_factory.mktemp("warehouse") / "example.db"
    result = run("ingest", EXAMPLE, "--cluster", "example", "--warehouse", f"sqlite:///{file}")
    assert result.exit_code == 0, result.output
    return file


@pytest.fixture
def warehouse(loaded: Path, tmp_path: Path) -> str:
    """URL of a copy of the loaded warehouse that a test may change."""
    for part in loaded.parent.glob(f"{loaded.name}*"):
        shutil.copy2(part, tmp_path / part.name)
    return f"sqlite:///{tmp_path / loaded.name}"
