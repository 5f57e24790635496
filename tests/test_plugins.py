"""Plugins: the worked example of CONTRIBUTING as an installed package, and what is wrong with others."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from classifiers.knowledge import load_ruleset
from classifiers.lock import update_lock
from tests.conftest import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    (body,) = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return str(body).split("\n", 1)[1]  # without the line that names the file


def _run(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with the plugin's folder among the installed packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(where), str(ROOT)])}
    return subprocess.run(
        [sys.executable, "-m", "pipeline.cli.main", *words], capture_output=True, text=True, cwd=where, env=environment,
        check=False,
    )  # fmt: skip


def install(where: Path, entry_points: str) -> None:
    """What an installer leaves of a package's metadata."""
    info = where / "rack_faults-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rack-faults\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The package of CONTRIBUTING, made of the blocks that it shows."""
    setup = configparser.ConfigParser()
    setup.read_string("[x]\n" + _block("ini"))
    points = setup["options.entry_points"]
    knowledge = tmp_path / "rack_faults" / "knowledge"
    (knowledge / "rules" / "bmc").mkdir(parents=True)
    (tmp_path / "rack_faults" / "__init__.py").touch()
    (knowledge / "__init__.py").touch()
    (tmp_path / "rack_faults" / "rack_controller.py").write_text(_block("python"))
    (knowledge / "rules" / "bmc" / "pdu_breaker.toml").write_text(_block("toml"))
    install(tmp_path, "\n".join(f"[{group}]\n{points[group].strip()}\n" for group in points))
    update_lock(knowledge)
    return tmp_path


def test_the_package_of_contributing_brings_a_format_and_a_rule(plugin: Path):
    log = plugin / "rack7.log"
    log.write_text(_block("text"))
    done = _run(plugin, "diagnose", str(log), "--format", "json")
    document = json.loads(done.stdout)
    assert [i["format"] for i in document["inputs"]] == ["rack.controller"]
    (event,) = document["health_events"] or [e for i in document["incidents"] for e in i["evidence"]]
    assert event["signal"] == "pdu_breaker"
    number = load_ruleset().number
    assert f"{number + 1}" in _run(plugin, "version").stdout
    listed = json.loads(_run(plugin, "rules", "list", "--format", "json").stdout)
    assert len([r for r in listed if "pdu_breaker" in json.dumps(r)]) == 1


def test_a_rule_that_changed_raises_the_number_once_it_is_locked(plugin: Path):
    knowledge = plugin / "rack_faults" / "knowledge"
    rule = knowledge / "rules" / "bmc" / "pdu_breaker.toml"
    rule.write_text(rule.read_text().replace("a breaker of", "one breaker of"))
    stale = _run(plugin, "version")
    assert stale.returncode == 2
    assert "pdu_breaker changed since it was locked" in stale.stderr
    assert "rack = rack_faults.knowledge" in stale.stderr
    update_lock(knowledge)
    assert f"{load_ruleset().number + 2}" in _run(plugin, "version").stdout


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ("[faultbeam.formats]\nrack = rack_faults.nowhere\n", "rack = rack_faults.nowhere"),
        ("[faultbeam.formats]\nrack = rack_faults\n", "has no formats"),
        ("[faultbeam.formats]\nrack = pipeline.formats.df\n", "a format 'df' is there already"),
        ("[faultbeam.rules]\nrack = rack_faults.nowhere\n", "no package with a folder rules/"),
        ("[faultbeam.rules]\nrack = classifiers.knowledge\n", "is already taken"),
    ],
)
def test_a_wrong_plugin_stops_with_its_name(plugin: Path, points: str, says: str):
    install(plugin, points)
    (plugin / "a.log").write_text("hello\n")
    done = _run(plugin, "diagnose", str(plugin / "a.log"))
    assert done.returncode == 2, done.stdout
    assert says in done.stderr
    assert "Traceback" not in done.stderr
