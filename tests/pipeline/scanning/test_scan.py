"""Scanning whole inputs: damage, odd line ends, encodings, secrets, accounting."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from dataclasses import astuple

import pytest
import zstandard

from pipeline.formats import base
from pipeline.scanning.scan import scan_paths
from schemas.facts import Facts, merge_facts
from schemas.settings import Settings
from tests.pipeline.scan_support import SETTINGS, job_log, ruleset, scan_cut, scan_file, source_of, syslog
from tests.pipeline.scanning.test_mask import SECRETS
from tests.pipeline.sources.test_discover import tar_of

XID = b"Mar  3 04:31:07 gx-01 kernel: [ 5000.000001] NVRM: Xid (PCI:0000:4d:00): 79, GPU has fallen off the bus.\n"
PACKERS = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}


def _texts(facts: Facts) -> str:
    return repr([astuple(x) for group in astuple_groups(facts) for x in group])


def astuple_groups(facts: Facts):
    return (facts.sources, facts.signals, facts.progress, facts.fragments, facts.quarantine)


class TestDamage:
    @pytest.mark.parametrize("ending", sorted(PACKERS))
    @pytest.mark.parametrize("share", [0.3, 0.8, 0.99])
    def test_a_torn_stream_keeps_its_last_lines(self, tmp_path, ending, share):
        rng = random.Random(7)
        noise = b"".join(b"Mar  3 04:31:07 gx-01 app[1]: %032x\n" % rng.getrandbits(128) for _ in range(40_000))
        packed = PACKERS[ending](XID + noise + XID)
        (tmp_path / "kern.log").write_bytes(packed[: int(len(packed) * share)])
        facts = scan_file(tmp_path)
        [source] = facts.sources
        [bad] = facts.quarantine
        assert "early" in bad.reason
        assert bad.offset == source.size
        assert source.size > 0 or ending == "bz2"  # a block of bz2 is 900 kB
        if ending == "gz":  # nothing that was packed is lost but the last window's bits
            assert source.size > len(XID + noise) * share - 2000
        assert (XID + noise).startswith((XID + noise)[: source.size])
        assert source.size == 0 or any(s.rule == "nv_xid" for s in facts.signals)

    @pytest.mark.parametrize("ending", ["gz", "xz", "bz2", "zst"])
    def test_a_flipped_byte_keeps_what_is_before_it(self, tmp_path, ending):
        rng = random.Random(3)
        text = b"".join(b"Mar  3 04:31:07 gx-01 app[1]: %032x\n" % rng.getrandbits(128) for _ in range(60_000))
        packed = bytearray(PACKERS[ending](XID + text))
        at = len(packed) * 3 // 4
        packed[at] ^= 0xFF
        packed[at + 1] ^= 0xFF
        (tmp_path / "kern.log").write_bytes(bytes(packed))
        facts = scan_file(tmp_path)
        assert facts.quarantine
        assert facts.sources[0].size > len(text) // 4
        assert any(s.rule == "nv_xid" for s in facts.signals)

    def test_a_wrong_checksum_loses_nothing(self, tmp_path):
        packed = bytearray(gzip.compress(syslog(1, 500) + XID))
        packed[-6] ^= 1
        (tmp_path / "kern.log.gz").write_bytes(bytes(packed))
        facts = scan_file(tmp_path)
        assert facts.sources[0].size == len(syslog(1, 500) + XID)
        assert any(s.last_offset == len(syslog(1, 500)) for s in facts.signals)
        assert len(facts.quarantine) == 1

    def test_rubbish_behind_a_gzip_is_noted(self, tmp_path):
        (tmp_path / "kern.log.gz").write_bytes(gzip.compress(XID) + b"rubbish behind it")
        facts = scan_file(tmp_path)
        assert facts.signals
        assert facts.quarantine

    def test_a_file_that_vanished(self, tmp_path):
        path = tmp_path / "kern.log"
        path.write_bytes(XID)
        source = source_of(path)
        path.unlink()
        facts = scan_cut(source)
        assert facts.sources == ()
        assert "No such file" in facts.quarantine[0].reason
        assert str(tmp_path) not in facts.quarantine[0].reason

    def test_a_file_that_shrank(self, tmp_path):
        path = tmp_path / "kern.log"
        path.write_bytes(XID * 100)
        source = source_of(path)
        path.write_bytes(XID * 40)
        facts = scan_cut(source)
        [bad] = facts.quarantine
        assert (bad.offset, bad.length) == (len(XID) * 40, len(XID) * 60)
        assert facts.sources[0].size == len(XID) * 100

    def test_binary_junk_is_quarantined_whole(self, tmp_path):
        junk = random.Random(1).randbytes(200_000)
        (tmp_path / "core").write_bytes(junk)
        (tmp_path / "core.gz").write_bytes(gzip.compress(junk))
        (tmp_path / "kern.log").write_bytes(XID)
        facts = scan_file(tmp_path)
        assert sorted((q.offset, q.length, q.reason) for q in facts.quarantine) == [
            (0, 200_000, "unknown format: binary")
        ] * len(facts.quarantine)
        assert {q.path for q in facts.quarantine} == {"core", "core.gz"}
        assert any(s.rule == "nv_xid" for s in facts.signals)

    def test_a_format_that_raises_is_a_quarantine(self, tmp_path, monkeypatch):
        class Broken:
            name, family = "broken", "scheduler"

            def sniff(self, head, inner_path):
                return 1.0 if head.startswith(b"BROKEN") else 0.0

            def parse(self, data, info, match):
                raise RuntimeError("no such column")

        formats = {**base.registry(), "broken": Broken()}
        monkeypatch.setattr(base, "registry", lambda: formats)
        monkeypatch.setattr("pipeline.scanning.scan.registry", lambda: formats)
        monkeypatch.setattr("pipeline.sources.model.registry", lambda: formats)
        (tmp_path / "x").write_bytes(b"BROKEN 1\nrow\n")
        facts = scan_paths([tmp_path], SETTINGS, ruleset())
        [bad] = facts.quarantine
        assert "no such column" in bad.reason
        assert facts.sources[0].size == bad.length == 13


class TestText:
    def test_only_carriage_returns(self, tmp_path):
        text = job_log(5, 3000, 0.02, end="\r")
        (tmp_path / "job.log").write_bytes(text)
        facts = scan_file(tmp_path)
        assert len(facts.signals) > 10
        assert all(len(s.text) < 400 for s in facts.signals)
        assert facts.progress

    def test_crlf_bom_and_single_byte_text(self, tmp_path):
        plain = syslog(6, 400, 0.05)
        for name, data in {
            "plain": plain,
            "crlf": plain.replace(b"\n", b"\r\n"),
            "bom": b"\xef\xbb\xbf" + plain,
        }.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "kern.log").write_bytes(data)
        texts = [
            sorted((s.rule, s.key, s.text, s.host, s.first) for s in scan_file(tmp_path / name).signals)
            for name in ("plain", "crlf", "bom")
        ]
        assert texts[0] == texts[1] == texts[2]
        (tmp_path / "latin.log").write_bytes(XID.replace(b"kernel:", b"kernel:") * 3 + "Gerät größer".encode("latin-1"))
        assert any(s.rule == "nv_xid" for s in scan_file(tmp_path / "latin.log").signals)

    def test_nul_runs_are_stripped_and_noted(self, tmp_path):
        begin = syslog(7, 100)
        (tmp_path / "kern.log").write_bytes(begin + b"\0" * 5000 + XID + syslog(8, 50))
        facts = scan_file(tmp_path)
        assert f"nul_run={len(begin)}" in facts.sources[0].facts
        xid = next(s for s in facts.signals if s.rule == "nv_xid" and s.first_offset == len(begin))
        assert "\0" not in xid.text
        assert xid.first.kind == "noyear"

    def test_unstamped_hits_borrow_the_nearest_earlier_stamp(self, tmp_path):
        (tmp_path / "job.log").write_bytes(
            b"[2026-03-03 04:31:07] iteration 1/ 10 | lm loss: 2.3E+00 |\n" + b"plain words\n" * 20
            + b"[2026-03-03 04:31:17] iteration 2/ 10 | lm loss: 2.3E+00 |\n" + b"plain words\n" * 20
            + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB.\n"
        )  # fmt: skip
        facts = scan_file(tmp_path)
        [oom] = [s for s in facts.signals if "out of memory" in s.text]
        assert oom.first.borrowed
        assert oom.first.us % 60_000_000 == 17_000_000

    def test_empty_files_are_sources(self, tmp_path):
        (tmp_path / "empty.log").touch()
        [source] = scan_file(tmp_path).sources
        assert (source.format, source.size, source.lines) == ("empty", 0, 0)


class TestSecrets:
    @pytest.mark.parametrize("name", ["job.log", "kern.log"])
    def test_no_fact_holds_one(self, tmp_path, name):
        lines = []
        for text, _ in SECRETS:
            lines.append(f"RuntimeError: CUDA error: device-side assert triggered {text}")
            lines.append(
                f"Mar  3 04:31:07 gx-01 kernel: [ 5.000001] NVRM: Xid (PCI:0000:4d:00): 79, pid=1, name={text}"
            )
            lines.append(f"SLURM_JOB_ID=77 {text}")
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        facts = scan_file(tmp_path)
        assert len(facts.signals) >= len(SECRETS)
        written = _texts(facts)
        for _, secret in SECRETS:
            assert secret not in written


class TestAccounting:
    def test_sizes_and_quarantine_cover_every_byte(self, tmp_path):
        texts = {
            "a/kern.log": syslog(1, 300),
            "b/job.log": job_log(2, 300),
            "c/junk.bin": random.Random(2).randbytes(9000),
        }
        (tmp_path / "x.tar.gz").write_bytes(tar_of(texts, "w:gz"))
        facts = scan_file(tmp_path)
        assert {s.inner_paths[0].split("!")[1]: s.size for s in facts.sources} == {n: len(t) for n, t in texts.items()}
        assert {s.inner_paths[0].split("!")[1]: s.lines for s in facts.sources if s.lines} == {
            n: t.count(b"\n") for n, t in texts.items() if n != "c/junk.bin"
        }

    def test_small_ranges_give_the_same_as_one(self, tmp_path):
        (tmp_path / "kern.log").write_bytes(syslog(3, 6000, 0.02))
        one = scan_file(tmp_path)
        many = scan_file(tmp_path, Settings(range_bytes=65536))
        assert one.signals == many.signals
        a, b = one.sources[0], many.sources[0]
        assert (a.size, a.lines, a.signal_lines, a.unparsed_lines) == (
            b.size,
            b.lines,
            b.signal_lines,
            b.unparsed_lines,
        )
        assert len(b.ranges) > 4

    def test_a_second_copy_adds_nothing(self, tmp_path):
        for root in ("one", "two"):
            (tmp_path / root / "hosts" / "gx-01").mkdir(parents=True)
            (tmp_path / root / "hosts" / "gx-01" / "kern.log").write_bytes(syslog(4, 500, 0.05))
        one = scan_paths([tmp_path / "one"], SETTINGS, ruleset())
        both = scan_paths([tmp_path / "one", tmp_path / "two"], SETTINGS, ruleset())
        assert one.signals == both.signals
        assert both == merge_facts([both, one])
        assert "path_host=gx-01" in both.sources[0].facts


def test_two_threads_give_the_same(tmp_path, monkeypatch):
    for i in range(4):
        (tmp_path / f"{i}.log").write_bytes(syslog(i, 1500, 0.02))
    (tmp_path / "x.tar.gz").write_bytes(tar_of({f"m{i}.log": syslog(i + 9, 900, 0.02) for i in range(4)}, "w:gz"))
    one = scan_file(tmp_path)
    monkeypatch.setattr("pipeline.scanning.scan._ONE_THREAD", 0)
    assert scan_file(tmp_path) == one
