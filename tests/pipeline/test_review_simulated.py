"""A simulated cluster through ingest and review: what the review says is what the simulator planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.cli.main import cli
from pipeline.review import render, review
from pipeline.simulate.run import simulate
from pipeline.simulate.settings import load_settings
from sql.store import open_store

#: The 54 days of the founding story on few hosts: rates of the whole job do not depend on their number.
SMALL = {
    "hosts": 16, "spare_hosts": 4, "noise_hosts": 0.0, "recovered_faults": 2, "neighbour_faults": 0.0,
    "hosts_per_leaf": 8, "telemetry_hosts": 0, "teardown_lines": 2, "log_every": 60,
}  # fmt: skip


def _run(folder: Path, preset: str, **over: Any) -> tuple[str, dict[str, Any]]:
    """Simulate and ingest; the warehouse and the totals as planned."""
    simulate(folder / "sim", load_settings(preset, None, **over))
    url = f"sqlite:///{folder / 'w.db'}"
    result = CliRunner().invoke(
        cli, ["ingest", str(folder / "sim" / "logs"), "--warehouse", url], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return url, json.loads((folder / "sim" / "truth" / "totals.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    return _run(tmp_path_factory.mktemp("llama"), "llama3-54d", **SMALL)


def _close(found: float, wanted: float, share: float) -> bool:
    return abs(found - wanted) <= share * wanted


def test_54_days(llama: tuple[str, dict[str, Any]]) -> None:
    url, truth = llama
    with open_store(url) as store:
        doc = review(store, None, None, None)
    assert (doc["interruptions"], doc["unexpected"], doc["planned"]) == (466, 419, 47)
    assert round(doc["mttf_hours"]["value"], 2) == 3.09
    low, high = doc["mttf_hours"]["ci95"]
    assert (round(low, 2), round(high, 2)) == (2.81, 3.41)
    assert _close(doc["effective_training_time"]["value"], truth["effective_training_time"], 0.01)
    assert _close(doc["startup_seconds"]["median"], truth["startup_seconds"]["median"], 0.02)
    assert _close(doc["checkpoint_seconds"]["mean"], truth["checkpoint_seconds"]["mean"], 0.02)
    assert _close(doc["lost_work"]["hours"], truth["lost_work_hours"], 0.05)
    day = doc["diurnal"]
    assert day["verdict"] == "detectable"
    assert abs(day["slowest_hour"] - truth["day_effect"]["slowest_hour"]) < 1
    assert day["ci95"][0] <= truth["day_effect"]["peak_to_trough"] <= day["ci95"][1]
    assert day["ci95"][1] - day["ci95"][0] < 0.0005
    trend = doc["mttf_trend"]
    assert trend["verdict"] == "no trend seen; 419 failures in 54 days would show 4 % a week or more"
    assert sum(w["unexpected"] for w in trend["by_week"]) == 419
    assert sum(w["job_hours"] for w in trend["by_week"]) == pytest.approx(doc["mttf_hours"]["job_hours"], rel=1e-4)
    assert doc["projection"][-1]["gpus"] == 131_072
    low, high = doc["projection"][0]["expected_ettr_ci95"]
    assert low < doc["projection"][0]["expected_ettr"] < high
    assert doc["by_hour"]["verdict"].startswith("no cycle seen; 419 failures would show one of +-17 %")


def test_an_hour_between_checkpoints_shows_the_same_day_effect(tmp_path: Path) -> None:
    url, truth = _run(tmp_path, "llama3-54d", **SMALL, checkpoint_every_s=3600.0, seed=5)
    with open_store(url) as store:
        day = review(store, None, None, None)["diurnal"]
    assert day["verdict"] == "detectable"
    assert day["ci95"][0] <= truth["day_effect"]["peak_to_trough"] <= day["ci95"][1]


def test_five_days_show_no_day_effect(llama: tuple[str, dict[str, Any]]) -> None:
    url, _ = llama
    with open_store(url) as store:
        first = review(store, None, None, None)["since"]
        from sql.types import from_iso

        begin = from_iso(first)
        doc = review(store, None, begin, begin + 5 * 86_400_000_000)
    assert doc["diurnal"]["verdict"] == "not detectable with 5 days"
    assert "absent" not in render(doc, "md")


def test_command_writes_each_format(llama: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    url, _ = llama
    week = ["--warehouse", url, "--since", "2025-03-17", "--until", "2025-03-24"]
    for name, head in (("r.html", "<!doctype html>"), ("r.md", "# Reliability review"), ("r.json", "{")):
        path = tmp_path / name
        result = CliRunner().invoke(cli, ["review", *week, "-o", str(path)])
        assert result.exit_code == 0, result.output
        assert path.read_text(encoding="utf-8").startswith(head)
    doc = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert doc["since"] == "2025-03-17T00:00:00.000000Z"
    assert doc["previous"]["interruptions"] > 0
    printed = CliRunner().invoke(cli, ["review", *week])
    assert printed.output == (tmp_path / "r.md").read_text(encoding="utf-8")


def test_wrong_use_is_told(llama: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    url, _ = llama
    backwards = CliRunner().invoke(
        cli, ["review", "--warehouse", url, "--since", "2025-03-17", "--until", "2025-03-10"]
    )
    assert (backwards.exit_code, "--since must lie before --until" in backwards.output) == (2, True)
    missing = CliRunner().invoke(cli, ["review", "--warehouse", f"sqlite:///{tmp_path / 'none.db'}"])
    assert missing.exit_code == 2
    assert "no warehouse at" in missing.output


def test_small_preset_with_four_frameworks(tmp_path: Path) -> None:
    url, truth = _run(tmp_path, "small")
    with open_store(url) as store:
        doc = review(store, None, None, None)
    assert (doc["unexpected"], doc["planned"], doc["scheduler_stops"]) == (24, 2, 6)
    assert _close(doc["mttf_hours"]["value"], truth["mttf_hours"], 0.01)
    assert _close(doc["effective_training_time"]["value"], truth["effective_training_time"], 0.01)
    assert _close(doc["checkpoint_seconds"]["mean"], truth["checkpoint_seconds"]["mean"], 0.02)
    assert doc["power"]["mean_w"] > 0
