"""What the distribution holds: metadata, and every data file of the packages."""

from __future__ import annotations

import configparser
import subprocess
from pathlib import Path

PACKAGES = ("pipeline", "classifiers", "schemas", "sql")


def _setup(repository: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(repository / "setup.cfg", encoding="utf-8")
    return parser


def _tracked(repository: Path) -> list[Path]:
    done = subprocess.run(["git", "ls-files", *PACKAGES], cwd=repository, capture_output=True, text=True, check=True)
    return [Path(line) for line in done.stdout.splitlines() if (repository / line).exists()]


def test_every_data_file_is_packaged(repository: Path):
    packaged = {
        found
        for package, patterns in _setup(repository)["options.package_data"].items()
        for pattern in patterns.split()
        for found in (repository / package).glob(pattern)
    }
    data = [path for path in _tracked(repository) if path.suffix != ".py"]
    assert len(data) > 100
    assert [str(path) for path in data if repository / path not in packaged] == []


def test_every_folder_with_python_files_is_a_package(repository: Path):
    folders = {path.parent for path in _tracked(repository) if path.suffix == ".py"}
    assert [str(f) for f in sorted(folders) if not (repository / f / "__init__.py").exists()] == []


def test_every_test_folder_is_a_package(repository: Path):
    folders = {path.parent for path in (repository / "tests").rglob("test_*.py")}
    assert [str(f) for f in sorted(folders) if not (f / "__init__.py").exists()] == []


def test_the_command_and_the_licence_are_declared(repository: Path):
    setup = _setup(repository)
    assert setup["metadata"]["name"] == "faultbeam"
    assert setup["metadata"]["license"] == "Apache-2.0"
    assert "Apache License" in (repository / "LICENSE").read_text()
    assert setup["options.entry_points"]["console_scripts"].strip() == "faultbeam = pipeline.cli.main:main"
    assert set(setup["options.extras_require"]) == {"stream", "postgres", "dask", "report", "test"}


def test_no_machine_path_or_registry_is_in_the_project_files(repository: Path):
    for name in ("setup.cfg", "pyproject.toml", "Makefile", ".ci/run", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        text = (repository / name).read_text(encoding="utf-8")
        for word in ("/work/", "/root/", "pypi.org", "index-url", "/home/"):
            assert word not in text, f"{name}: {word}"
