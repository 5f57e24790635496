"""Scanned files placed: what formats read on the way (hosts, serials, clocks, printed offsets) reaches the clocks."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.placing.clock import Clock
from pipeline.placing.place import place
from pipeline.scanning.scan import scan_paths
from schemas.facts import Facts, SourceFact
from schemas.settings import Settings

SETTINGS = Settings(tz="UTC", engine="re2")
SAMPLES = Path(__file__).parent / "formats" / "samples"


def scanned(root: Path) -> tuple[Facts, dict[str, Clock], dict[str, SourceFact]]:
    """(facts, clocks, sources), the last two by path inside the root."""
    facts = scan_paths([root], SETTINGS)
    clocks = place(facts.sources, facts.fragments, SETTINGS)
    paths = {s.source_id: s.inner_paths[0] for s in facts.sources}
    return facts, {paths[sid]: c for sid, c in clocks.items()}, {paths[s.source_id]: s for s in facts.sources}


def times(facts: Facts, clocks: dict[str, Clock], source: SourceFact, rule: str) -> list[str]:
    """UTC of the first hit of each signal of one rule in one source."""
    clock = clocks[source.inner_paths[0]]
    found = []
    for fact in facts.signals:
        if fact.source_id == source.source_id and fact.rule == rule:
            us, _ = clock.utc(fact.first)
            found.append(datetime.fromtimestamp((us or 0) / 1e6, UTC).isoformat(timespec="seconds"))
    return sorted(found)


def write(root: Path, name: str, text: str, mtime: str = "2030-01-01") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    when = datetime.fromisoformat(mtime).replace(tzinfo=UTC).timestamp()
    os.utime(path, (when, when))


def test_a_copied_dmesg_gives_host_uuid_and_serial(tmp_path: Path):
    write(tmp_path, "dmesg.txt", (SAMPLES / "dmesg.ctime" / "prompt_grep_and_serial.in").read_text())
    facts, clocks, sources = scanned(tmp_path)
    source = sources["dmesg.txt"]
    assert source.format == "dmesg.ctime"
    assert clocks["dmesg.txt"].host == "gpu-lab-4"
    assert "gpu_serial:0000:0a:00=1959080000000" in source.facts
    assert "gpu_uuid:0000:0a:00=GPU-725478f6-61be-81c7-78e6-d50974924c27" in source.facts
    assert "driver_version=535.183.01" in source.facts
    assert times(facts, clocks, source, "nv_xid_user") == ["2024-08-05T03:54:13+00:00"]


def test_a_job_log_with_offset_dates_and_zones_the_kernel_log_beside(tmp_path: Path):
    write(tmp_path, "job.log", "2024/11/26 09:36:21.884712 +0800 INFO step 118 done\n"
                               "2024/11/26 09:36:23.010331 +0800 ERROR sync /data/x: input/output error\n")  # fmt: skip
    write(tmp_path, "kern.log", "Nov 26 09:30:00 srv-28 kernel: docker0: port 2 entered disabled state\n"
                                "Nov 26 09:36:22 srv-28 kernel: NVRM: Xid (PCI:0000:4d:00): 79, GPU has fallen off\n"
                                "Nov 26 09:41:04 srv-28 kernel: docker0: port 7 entered blocking state\n")  # fmt: skip
    facts, clocks, sources = scanned(tmp_path)
    assert "utc_offset=+08:00" in sources["job.log"].facts
    assert clocks["kern.log"].zone.label == "+08:00"
    assert times(facts, clocks, sources["kern.log"], "nv_xid") == ["2024-11-26T01:36:22+00:00"]


def test_a_dmesg_is_dated_by_the_syslog_of_the_same_host(tmp_path: Path):
    write(tmp_path, "n7/dmesg.txt", "[  100.000000] NVRM: Xid (PCI:0000:4d:00): 79, GPU has fallen off the bus.\n")
    write(tmp_path, "n7/kern.log",
          "May  7 10:00:50 n7.example kernel: [   50.000000] NVRM: Xid (PCI:0000:4d:00): 13, pid=1, Graphics\n",
          "2026-05-08")  # fmt: skip
    facts, clocks, sources = scanned(tmp_path)
    assert clocks["n7/dmesg.txt"].host == "n7"
    assert clocks["n7/dmesg.txt"].method == "boot-relative"
    assert times(facts, clocks, sources["n7/dmesg.txt"], "nv_xid") == ["2026-05-07T10:01:40+00:00"]


@pytest.mark.parametrize("cut", [64 * 1024, 64 * 1024 * 1024])
def test_a_journal_export_is_framed_in_records(tmp_path: Path, cut: int):
    """The scanner's look back leaves blank lines out; ranges may begin inside a record."""
    record = (
        "__CURSOR=s=1;i={n}\n__REALTIME_TIMESTAMP={us}\n__MONOTONIC_TIMESTAMP={n}000000\n_BOOT_ID={boot}\n"
        "SYSLOG_IDENTIFIER=kernel\nPRIORITY=4\nMESSAGE={text}\n_HOSTNAME=node{host:03d}\n\n"
    )
    start = 1_772_512_267_000_000
    xid = "NVRM: Xid (PCI:0000:4d:00): 79, pid=1, GPU has fallen off the bus."
    text = "".join(
        record.format(n=n, us=start + n * 1_000_000, boot="ab" * 16, host=17, text=xid if n % 500 == 450 else "x" * 60)
        for n in range(1500)
    )
    write(tmp_path, "export.txt", text)
    facts = scan_paths([tmp_path], Settings(tz="UTC", engine="re2", range_bytes=cut))
    (source,) = facts.sources
    assert source.format == "journal.export"
    hits = sorted((f.first.us - start) // 1_000_000 for f in facts.signals if f.rule == "nv_xid")
    assert hits == [450, 950, 1450]
    assert {f.host for f in facts.signals} == {"node017"}
