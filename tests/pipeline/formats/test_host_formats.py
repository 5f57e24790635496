"""Reports of hosts and switches: pairs of samples, what is claimed, real files; hostile input of all formats."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.formats import LineFormat, RecordFormat, registry, sniff
from pipeline.formats.pstore import crashed_at
from tests.pipeline.formats import recording
from tests.pipeline.formats.recording import Recorder, parse

SAMPLES = Path(__file__).parent / "samples"
NAMES = (
    "dcgm", "dcgm.health.json", "dcgm.json", "dcgm_exporter", "ethtool", "fabricmanager", "ibstat", "lspci", "nhc",
    "nvidia_bug_report", "nvidia_smi", "nvidia_smi.csv", "nvidia_smi.xml", "perfquery", "pstore", "ras_mc_ctl",
    "rdma_statistic", "redfish.log", "smart.json", "sysfs_counters", "syslog.year",
)  # fmt: skip
PAIRS = sorted(path for name in NAMES for path in (SAMPLES / name).glob("*.in"))
ALL = sorted(SAMPLES.glob("*/*.in"))
DATA = Path(os.environ.get("FAULTBEAM_SHARED", Path(__file__).resolve().parents[4] / "shared")) / "data"


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def read(path: Path) -> Any:
    """What must come out of a sample: that of all formats, and the telemetry."""
    said = recording.read_sample(path.parent.name, path.read_bytes())
    if isinstance(said, list):
        return said
    facts = parse(path.parent.name, path.read_bytes(), path.stem)
    said["telemetry"] = [[t.host, t.device, t.metric, list(t.hour[:2]), *t.totals] for t in facts.telemetry]
    said["clocks"] = [list(clock) for clock in facts.sources[0].clocks]
    if path.parent.name == "pstore":  # its facts come from the name too
        said["facts"] = list(facts.sources[0].facts)
    return said


@pytest.mark.parametrize("path", PAIRS, ids=_id)
def test_sample(path: Path) -> None:
    assert read(path) == json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize("path", PAIRS, ids=_id)
def test_it_is_told_by_content_under_any_name(path: Path) -> None:
    for name in ("a.txt", "slurm-123.out", "kern.log", "events.json", "x.csv"):
        found = sniff(path.read_bytes(), name)
        assert found is not None
        assert found.name == path.parent.name


#: Sentences that no rule needs to know: nothing is wrong.
QUIET = ("Linux version ", "mlx5_core ", "redfish log: system: Successfully", "BUG: unable to handle page fault",
         "ipmi sel: Power Supply: The power input")  # fmt: skip


@pytest.mark.parametrize("path", [p for p in PAIRS if isinstance(registry()[p.parent.name], RecordFormat)], ids=_id)
def test_rules_know_every_sentence_of_a_report(path: Path) -> None:
    from classifiers.knowledge import load_ruleset

    said = Recorder()
    parse(path.parent.name, path.read_bytes(), path.stem, match=said)
    family = registry()[path.parent.name].family
    for sentence in said.said:
        if not sentence["text"].startswith(QUIET):
            assert load_ruleset().match(sentence["text"], family), sentence["text"]


def test_every_format_here_has_samples() -> None:
    assert {path.parent.name for path in PAIRS} == set(NAMES) <= set(registry())


def _hostile(data: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "torn": data[: len(data) * 2 // 3],
        "head cut": data[len(data) // 3 :],
        "nul": data.replace(b"\n", b"\n\0\0\0", 1) + b"\0" * 64,
        "latin-1": data.replace(b"e", b"\xe9", 40),
        "utf-16": data.decode("utf-8", "replace").encode("utf-16"),
        "crlf": data.replace(b"\n", b"\r\n"),
        "one line": data.replace(b"\n", b" "),
        "many times": data * 40,
        "digits": data.translate(bytes.maketrans(b"0123456789", b"9999999999")),
        "brackets": b"[" * 50_000 + data,
    }


@pytest.mark.parametrize("path", ALL, ids=_id)
def test_bad_input_ends_in_quarantine_or_a_right_parse(path: Path) -> None:
    """Whatever is done to a sample, its format neither raises nor loses a byte, and claims of heads never raise."""
    own = registry()[path.parent.name]
    for kind, data in _hostile(path.read_bytes()).items():
        claimed = sniff(data, "wrong.png")
        for fmt in {f.name: f for f in (own, claimed) if f is not None}.values():
            if isinstance(fmt, RecordFormat):
                facts = fmt.parse(data, recording.SourceInfo("s", "a.in", "r", len(data), None), Recorder())
                assert [s.size for s in facts.sources if s.source_id == "s"] == [len(data)], kind
                assert all(0 <= q.offset <= len(data) and q.offset + q.length <= len(data) for q in facts.quarantine)
            else:
                assert isinstance(fmt, LineFormat)
                for _, line, frame in recording.frames(fmt, data[:40_000]):
                    assert len(frame.text) <= len(line) + 16_384, kind


def test_a_report_with_entities_is_not_unfolded() -> None:
    bomb = b'<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY a "x"><!ENTITY b "&a;&a;">]><nvidia_smi_log/>'
    (bad,) = parse("nvidia_smi.xml", bomb).quarantine
    assert "entities" in bad.reason


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("dmesg-erst-7530486857247752194", 1753328102),
        ("dmesg-efi_pstore-171045876801001", 1710458768),
        ("dmesg-ramoops-0", None),
        ("dmesg-erst-12", None),
        ("kern.log", None),
    ],
)
def test_the_time_of_a_crash_is_in_the_name_of_its_record(name: str, seconds: int | None) -> None:
    assert crashed_at(f"var/lib/{name}") == (None if seconds is None else seconds * 1_000_000)


# --- real files -------------------------------------------------------------------------------------------------------


def _real(folder: str) -> Path:
    path = DATA / folder
    if not path.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"{path} is missing")
        pytest.skip(f"{folder} is not here")
    return path


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


@pytest.mark.parametrize(
    ("folder", "pattern", "name", "least"),
    [
        ("nvidia_smi", "*.xml", "nvidia_smi.xml", 12),
        ("nvidia_smi", "*.txt", "nvidia_smi", 5),
        ("smart_json", "*.json", "smart.json", 87),
        ("gcm_slurm", "**/smartctl_dumps/*/*.json", "smart.json", 40),
        ("azurehpc_health", "*.txt", "nvidia_smi", 4),
        ("azurehpc_health", "*flap_syslog", "syslog.rfc3164", 2),
        ("gpud_testdata", "**/fabricmanager.log", "fabricmanager", 1),
        ("gpud_testdata", "**/nvidia-smi.nvlink.status.a100", "nvidia_smi", 1),
        ("gpud_testdata", "**/lspci*", "lspci", 3),
        ("gpud_testdata", "**/7530486857247/*", "pstore", 3),
        ("amd_node_scraper", "*.log", "dmesg.iso", 3),
    ],
)
def test_real_files_are_recognised_and_read(folder: str, pattern: str, name: str, least: int) -> None:
    paths = sorted(_real(folder).glob(pattern))
    assert len(paths) >= least
    for path in paths:
        data = _content(path)
        found = sniff(data, path.name)
        assert found is not None
        assert found.name == name, path
        if isinstance(found, RecordFormat):
            assert not parse(name, data, path.name).quarantine, path


def test_real_reports_say_what_is_in_them() -> None:
    smi = _real("azurehpc_health")
    said = Recorder()
    parse("nvidia_smi", (smi / "bad_nvsmi8_output.txt").read_bytes(), match=said)
    pending = [s["text"] for s in said.said if "page retirement pending" in s["text"]]
    assert [t.split(": ")[1][:8] for t in pending] == ["00000002", "00000004", "00000006", "00000008"]
    clean = Recorder()
    parse("nvidia_smi", (smi / "orig_nvsmi8_output.txt").read_bytes(), match=clean)
    assert clean.said == []
    facts = parse("nvidia_smi.xml", (_real("nvidia_smi") / "a100-sxm4-v12.xml").read_bytes())
    assert {t.metric: t.totals[1] for t in facts.telemetry} == {
        "gpu_temperature_c": 27.0, "gpu_memory_temperature_c": 44.0, "gpu_power_w": 67.03, "gpu_sm_clock_mhz": 1275.0,
        "gpu_memory_clock_mhz": 1593.0,
    }  # fmt: skip


def test_the_two_clocks_of_a_real_crash_agree_with_a_stamp_inside_it() -> None:
    """The record's audit line prints epoch seconds at an uptime: the id's time and the last uptime fit it."""
    path = next(_real("gpud_testdata").rglob("7530486857247/dmesg.txt"))
    (source,) = parse("pstore", path.read_bytes(), path.name).sources
    ((kind, mono, wall),) = source.clocks
    assert kind == "utc"
    assert abs((wall - mono) / 1e6 - (1753325017.312 - 13.717)) < 2


def test_a_table_of_tab_separated_values_is_no_job_output() -> None:
    table = b"level\tclass\tcomponent\n" + b"hardware\tmemory\thost.memory\n" * 9
    found = sniff(table, "labels.tsv")
    assert found is not None
    assert found.name == "text"
    assert (sniff(b"step\tloss\n1\t2.5\n2\t2.4\n3\t2.3\nepoch 1 done\n", "train.txt") or found).name == "joblog"
