"""Imports point one way, and heavy libraries are loaded only by what needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LINT_IMPORTS = (
    "import sys; from importlinter.cli import lint_imports_command as run; sys.argv[1:] = ['--no-cache']; run()"
)


def _lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.path.insert(0, '.'); {LINT_IMPORTS}"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def _skeleton(repository: Path, folder: Path) -> None:
    """Empty packages of our names under the project's own settings."""
    for package in ("schemas", "classifiers", "classifiers/models", "sql", "pipeline", "pipeline/beam"):
        (folder / package).mkdir(exist_ok=True)
        (folder / package / "__init__.py").touch()
    (folder / "setup.cfg").write_text((repository / "setup.cfg").read_text())


def test_the_layers_hold(repository: Path):
    done = subprocess.run(
        [sys.executable, "-c", LINT_IMPORTS], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("place", "line", "broken"),
    [
        ("schemas/api_sneaks.py", "import pipeline", "imports point one way"),
        ("sql/sneaks.py", "import classifiers", "imports point one way"),
        ("classifiers/sneaks.py", "import sql", "imports point one way"),
        ("pipeline/sneaks.py", "import apache_beam", "apache_beam is imported by pipeline.beam only"),
        ("pipeline/sneaks.py", "def f():\n    import sklearn", "scikit-learn is imported by classifiers.models only"),
        ("classifiers/sneaks.py", "import sqlalchemy", "no database and no terminal"),
    ],
)
def test_a_broken_layer_is_seen(repository: Path, tmp_path: Path, place: str, line: str, broken: str):
    """The contracts can fail: the same settings over a skeleton of the packages with one wrong import."""
    _skeleton(repository, tmp_path)
    (tmp_path / place).write_text(line + "\n")
    done = _lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout
    assert any(broken[:40] in text and "BROKEN" in text for text in done.stdout.splitlines()), done.stdout


def test_the_allowed_places_may_import_them(repository: Path, tmp_path: Path):
    _skeleton(repository, tmp_path)
    (tmp_path / "pipeline/beam/graph.py").write_text("import apache_beam\n")
    (tmp_path / "classifiers/models/fit.py").write_text("import sklearn.linear_model\n")
    done = _lint_imports(tmp_path)
    assert done.returncode == 0, done.stdout


def test_diagnose_loads_neither_beam_nor_scikit_learn_nor_a_database(tmp_path: Path):
    log = tmp_path / "kern.log"
    log.write_text(
        "2026-03-09T04:19:24+00:00 hn03 kernel: NVRM: Xid (PCI:0000:52:00): 79, GPU has fallen off the bus.\n"
    )
    code = (
        "import sys\nfrom pipeline.cli.main import cli\n"
        f"try:\n    cli(['diagnose', {str(log)!r}])\n"
        "except SystemExit as e:\n    assert e.code == 0, e.code\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'apache_beam', 'sklearn', 'sqlalchemy', 'scipy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
