"""Folding: storms cost little and read the same as every line read in full."""

from __future__ import annotations

import pytest

from pipeline.scanning import line_scan
from pipeline.scanning.fold import TEXT, clip, shape
from schemas.facts import CELL, MAX_RANKS
from tests.pipeline.scan_support import scan_cut, source_of, syslog

_XID = "NVRM: Xid (PCI:0000:4d:00): 79, pid=4242, name=python3, GPU has fallen off the bus."


def _write(tmp_path, lines):
    path = tmp_path / "kern.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _slow(path, monkeypatch):
    """Facts with every line read in full."""
    with monkeypatch.context() as patch:
        patch.setattr(line_scan, "shape", lambda raw: None)
        return scan_cut(source_of(path))


STORMS = {
    "syslog, two clocks": lambda i: (
        f"Mar  3 {4 + i // 3600:02d}:{i // 60 % 60:02d}:{i % 60:02d} "
        f"gx-{i % 3} kernel: [{5000 + i}.{i % 10**6:06d}] {_XID}"
    ),
    "uptime only": lambda i: f"[{5000 + i * 0.25:12.6f}] {_XID}",
    "iso with microseconds": lambda i: (
        f"2026-03-03T04:{i // 60 % 60:02d}:{i % 60:02d}.{i * 7919 % 10**6:06d}+00:00 gx-1 kernel: {_XID}"
    ),
    "leap second and jumps back": lambda i: f"2026-03-03T23:59:{(i * 37) % 61:02d}+00:00 gx-1 kernel: {_XID}",
    "ranks in job output": lambda i: (
        f"[rank{i % 90}]:[E303 04:{i // 60 % 60:02d}:{i % 60:02d}.{i * 7919 % 10**9:09d} "
        f"ProcessGroupNCCL.cpp:629] [Rank {i % 90}] "
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
    ),
    "same text without a stamp": lambda i: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.",
    "seconds in the text as well": lambda i: (
        f"2026-03-03T04:31:{i % 60:02d}+00:00 gx-1 kernel: {_XID} at 04:31:{i % 60:02d}"
    ),
}


@pytest.mark.parametrize("kind", sorted(STORMS))
def test_fast_and_full_reading_agree(tmp_path, monkeypatch, kind):
    path = _write(tmp_path, ["[    0.000000] Linux version 6.8"] + [STORMS[kind](i) for i in range(4000)])
    fast = scan_cut(source_of(path))
    assert fast == _slow(path, monkeypatch)
    assert sum(s.count for s in fast.signals if s.rule in ("nv_xid", "pt_watchdog_timeout")) == 4000 or kind.startswith(
        "same"
    )


def test_a_storm_of_100_000_lines_is_few_facts(tmp_path):
    lines = [f"[{5000 + i / 1000:12.6f}] {_XID}" for i in range(100_000)]
    facts = scan_cut(source_of(_write(tmp_path, lines)))
    xids = [s for s in facts.signals if s.rule == "nv_xid"]
    assert len(xids) <= 3  # one a minute: 100 seconds
    assert sum(s.count for s in xids) == 100_000
    assert facts.sources[0].signal_lines == 100_000
    first = min(xids, key=lambda s: s.first.us)
    assert (first.first.us, first.first_offset, first.first_line) == (5_000_000_000, 0, 1)
    assert max(s.last.us for s in xids) == 5_099_999_000


def test_many_ranks_keep_the_first_ones(tmp_path):
    kind = STORMS["ranks in job output"]
    text = [
        kind(i).replace(f"rank{i % 90}]", f"rank{i}]").replace(f"[Rank {i % 90}]", f"[Rank {i}]") for i in range(1200)
    ]
    facts = scan_cut(source_of(_write(tmp_path, text)))
    timeouts = [s for s in facts.signals if s.rule == "pt_watchdog_timeout"]
    assert timeouts
    for signal in timeouts:
        assert len(signal.ranks) <= MAX_RANKS
        assert signal.ranks[0][0] == signal.first.us


def test_counts_are_kept_by_cell(tmp_path):
    path = tmp_path / "kern.log"
    path.write_bytes(syslog(3, 3000, 0.3))
    facts = scan_cut(source_of(path))
    assert {cell for s in facts.signals for cell, _ in s.counts} == set(range(path.stat().st_size // CELL + 1))


def test_shape_leaves_out_seconds_and_uptime_only():
    a = shape(b"Mar  3 04:31:07.25 gx kernel: [ 5000.000001] text 7")
    b = shape(b"Mar  3 04:31:59 gx kernel: [99.000009] text 7")
    assert a is not None
    assert b is not None
    assert (a[1], b[1], a[2]) == (7_250_000, 59_000_000, False)
    assert a[0].replace(b" ", b"") == b[0].replace(b" ", b"")
    other_minute = shape(b"Mar  3 04:32:07.25 gx kernel: [ 5000.000001] text 7")
    assert other_minute is not None
    assert other_minute[0] != a[0]
    assert shape(b"no clock at all") is None
    assert shape(b"Mar  3 04:31:60 gx leap second") is None


def test_long_texts_keep_the_part_that_matters():
    text = "x" * 5000 + " code 79 " + "y" * 5000
    assert len(clip(text, (("code", "code 79"),))) == TEXT
    assert "code 79" in clip(text, (("code", "code 79"),))
    assert clip(text, ()) == text[:TEXT]
    assert clip("short", ()) == "short"
