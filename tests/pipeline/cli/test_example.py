"""The example archive: it is what its script makes, and every cause in it is found, in memory and in the warehouse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.pipeline.cli.conftest import EXAMPLE, Cause, run


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    result = run("diagnose", EXAMPLE, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_the_archive_is_what_the_script_makes(tmp_path: Path):
    """Same inputs in the archive (its compressed bytes may differ by the zlib at hand)."""
    import tarfile

    made = tmp_path / "made.tar.gz"
    subprocess.run([sys.executable, ROOT / "examples" / "make_example.py", made], check=True)

    def content(path: Path) -> dict[str, bytes]:
        with tarfile.open(path) as archive:
            files = [m for m in archive.getmembers() if m.isfile()]
            return {m.name: f.read() for m in files if (f := archive.extractfile(m)) is not None}

    assert content(made) == content(EXAMPLE)


def test_each_cause_is_found(document: dict[str, Any], causes: list[Cause]):
    got = {i["job_id"]: i["component"] for i in document["incidents"] if i["kind"] == "job_interruption"}
    assert {c.job_id: got.get(c.job_id, "none") for c in causes} == {c.job_id: c.component for c in causes}
    assert set(got) <= {c.job_id for c in causes}


def test_the_failing_host_is_named_where_there_is_one(document: dict[str, Any], causes: list[Cause]):
    got = {i["job_id"]: i["first_failing"]["host"] for i in document["incidents"]}
    assert {c.job_id: got[c.job_id] for c in causes if c.host} == {c.job_id: c.host for c in causes if c.host}


def test_a_job_that_ended_well_is_no_incident_though_its_host_corrected_errors(document: dict[str, Any]):
    assert all(i["job_id"] not in ("5108", "5115") for i in document["incidents"])
    assert any(e["component"] == "host.memory" and e["host"] == "hn13" for e in document["health_events"])


def test_only_broken_hosts_are_left_out_of_a_restart(document: dict[str, Any]):
    advice = {i["job_id"]: i["restart"] for i in document["incidents"]}
    assert (advice["5102"]["advice"], advice["5102"]["exclude_hosts"]) == ("restart_excluding", ["hn02"])
    assert advice["5105"]["advice"] == "do_not_restart"
    for job in ("5106", "5107", "5112", "5113"):
        assert advice[job]["exclude_hosts"] == []


def test_it_goes_on_from_the_last_checkpoint(document: dict[str, Any]):
    (first,) = [i for i in document["incidents"] if i["job_id"] == "5101"]
    assert first["restart"]["resume_from"]["step"] == 13800
    assert first["restart"]["resume_from"]["path"] == "/ckpt/gpt-27b"


def test_the_warehouse_holds_the_same_answers(document: dict[str, Any], loaded: Path):
    result = run("query", "incidents", "--format", "json", "--warehouse", f"sqlite:///{loaded}")
    rows = {
        row["incident_id"]: (row["component"], row["cause"], row["confidence"]) for row in json.loads(result.output)
    }
    seen = {i["incident_id"]: (i["component"], i["cause"], i["confidence"]) for i in document["incidents"]}
    assert rows == seen


def test_every_byte_is_accounted_for(document: dict[str, Any]):
    import tarfile

    with tarfile.open(EXAMPLE) as archive:
        sizes = {f"{EXAMPLE.name}!{m.name}": m.size for m in archive.getmembers() if m.isfile()}
    assert {i["source"]: i["bytes"] for i in document["inputs"]} == sizes
