"""Clusters that word their faults as no rule was written for: how far the answers carry. A floor, no accuracy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.measuring.simulated import SimulatedReport, read
from pipeline.simulate import load_settings, simulate
from schemas.settings import Settings

#: The published mixes on few hosts: causes, order and wording do not depend on their number.
FEW: dict[str, Any] = {"hosts": 48, "spare_hosts": 8, "noise_hosts": 0.3, "teardown_lines": 8, "log_every": 60}


@pytest.fixture(scope="module", params=["llama3-54d", "hsdp-mix"])
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("other") / "sim"
    simulate(out, load_settings(request.param, wording="other", seed=5, **FEW))
    return out


def _score(out: Path, withhold: float) -> SimulatedReport:
    return read(out, Settings(), withhold=withhold)[0].score


def test_causes_and_hosts_are_found_in_other_words(other: Path) -> None:
    found = _score(other, 0.0)
    assert found.accuracy.value is not None
    assert found.accuracy.value >= 0.95
    assert found.host_top1.value is not None
    assert found.host_top1.value >= 0.95
    assert found.wrong_sure <= 2


def test_where_a_fifth_of_the_host_logs_is_missing_answers_stay_right(other: Path) -> None:
    found = _score(other, 0.2)
    assert found.named.value is not None
    assert found.named.value >= 0.97
    assert found.hidden["abstained"] > found.hidden["wrong"]
