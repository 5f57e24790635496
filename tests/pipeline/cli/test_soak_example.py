"""The example site under many seeds: other noise, other losses and step times, the same causes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.pipeline.cli.conftest import Cause


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(60))
def test_noise_does_not_change_the_causes(seed: int, tmp_path: Path, causes: list[Cause], monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    sys.modules.pop("make_example", None)
    import make_example  # type: ignore[import-not-found]

    from pipeline.diagnose import diagnose
    from schemas.settings import Settings

    for name, text in make_example.files(seed).items():
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    document = diagnose([tmp_path], Settings()).document
    got = {i.job_id: i.component for i in document.incidents if i.kind == "job_interruption"}
    assert {c.job_id: got.get(c.job_id, "none") for c in causes} == {c.job_id: c.component for c in causes}
