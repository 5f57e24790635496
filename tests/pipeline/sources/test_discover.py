"""Finding inputs: files, folders, archives, links; identity; limits."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from pipeline.sources import Source, discover, open_source, read_exactly
from schemas.facts import Quarantine
from schemas.settings import Settings
from tests.pipeline.scan_support import job_log, syslog

SETTINGS = Settings()
TEXT = syslog(1, 40)
PACKERS = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}


def tar_of(files: dict[str, bytes], mode: str = "w") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_772_512_267
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def found(*paths: Path, settings: Settings = SETTINGS) -> tuple[list[Source], list[Quarantine]]:
    everything = list(discover(paths, settings))
    return [f for f in everything if isinstance(f, Source)], [f for f in everything if isinstance(f, Quarantine)]


def content(source: Source) -> bytes:
    stream = open_source(source)
    try:
        return read_exactly(stream, 1 << 30)
    finally:
        stream.close()


def test_one_file_has_its_folder_as_root(tmp_path):
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "kern.log").write_bytes(TEXT)
    [source], bad = found(folder / "kern.log")
    [again], _ = found(folder)
    assert (source.root, source.inner_path, source.size, bad) == ("case", "kern.log", len(TEXT), [])
    assert source.source_id == again.source_id
    assert source.format == "syslog.rfc3164"


@pytest.mark.parametrize("ending", sorted(PACKERS))
def test_packed_files_are_told_by_content_and_keep_the_id(tmp_path, ending):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kern.log").write_bytes(TEXT)
    [plain], _ = found(tmp_path / "a")
    for name in (f"kern.log.{ending}", f"kern.log.2.{ending}", "kern.log"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(PACKERS[ending](TEXT))
        [source], bad = found(folder)
        assert content(source) == TEXT
        assert source.source_id == plain.source_id
        assert source.compressed
        assert not bad


@pytest.mark.parametrize("ending", sorted(PACKERS))
def test_chains_of_members_and_padding(tmp_path, ending):
    pack = PACKERS[ending]
    (tmp_path / "kern.log").write_bytes(pack(TEXT) + pack(b"second\n") + pack(b"") + pack(b"third\n"))
    [source], bad = found(tmp_path)
    assert content(source) == TEXT + b"second\nthird\n"
    assert not bad


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_an_unpacked_or_moved_archive_gives_the_same_ids(tmp_path, mode):
    files = {"hosts/gx-01/kern.log": TEXT, "hosts/gx-02/kern.log": syslog(2, 30), "job.log": job_log(1, 50)}
    first, second, third = (tmp_path / n for n in ("first", "second", "third"))
    for folder in (first, second, third):
        folder.mkdir()
    (first / "bundle.tar").write_bytes(tar_of(files, mode))
    (second / "other-name.tar.gz").write_bytes(tar_of(files, mode))
    for name, data in files.items():
        (third / name).parent.mkdir(parents=True, exist_ok=True)
        (third / name).write_bytes(data)
    ids = [{s.source_id for s in found(folder)[0]} for folder in (first, second, third)]
    assert ids[0] == ids[1] == ids[2]
    assert len(ids[0]) == 3
    sources, bad = found(first)
    assert not bad
    assert {s.inner_path for s in sources} == {f"bundle.tar!{name}" for name in files}
    assert {s.inner_path.split("!")[1]: content(s) for s in sources} == files
    assert {s.mtime_us for s in sources} == {1_772_512_267_000_000}


def test_members_can_be_read_in_any_order(tmp_path):
    files = {f"{i}.log": syslog(i, 200) for i in range(6)}
    (tmp_path / "a.tar.gz").write_bytes(tar_of(files, "w:gz"))
    sources, _ = found(tmp_path)
    for source in [*sources, *reversed(sources)]:
        assert content(source) == files[source.identity]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_zip_and_nesting(tmp_path, method):
    inner = tar_of({"deep/kern.log.1.gz": gzip.compress(TEXT), "note.txt": b"plain words\n"}, "w:gz")
    (tmp_path / "a.zip").write_bytes(zip_of({"x/bundle.tgz": inner, "y/job.log": job_log(3, 40)}, method))
    (tmp_path / "b.tar.gz").write_bytes(tar_of({"z/inner.zip": zip_of({"q.log": TEXT}, method)}, "w:gz"))
    sources, bad = found(tmp_path)
    assert not bad
    assert {s.inner_path: content(s)[:20] for s in sources} == {
        "a.zip!x/bundle.tgz!deep/kern.log.1.gz": TEXT[:20],
        "a.zip!x/bundle.tgz!note.txt": b"plain words\n",
        "a.zip!y/job.log": job_log(3, 40)[:20],
        "b.tar.gz!z/inner.zip!q.log": TEXT[:20],
    }
    assert {s.identity for s in sources} == {"x/deep/kern.log.1.gz", "x/note.txt", "y/job.log", "z/q.log"}


def test_depth_is_limited(tmp_path):
    data = tar_of({"kern.log": TEXT})
    for level in range(6):
        data = tar_of({f"level{level}.tar": data})
    (tmp_path / "deep.tar").write_bytes(data)
    sources, bad = found(tmp_path)
    assert not sources
    assert [q for q in bad if "FAULTBEAM_MAX_DEPTH" in q.reason]
    assert len(found(tmp_path, settings=Settings(max_depth=9))[0]) == 1


def test_hostile_names_stay_inside(tmp_path):
    (tmp_path / "evil.tar").write_bytes(
        tar_of({"../../etc/kern.log": TEXT, "/abs/kern.log": TEXT, "a/./b/../k.log": TEXT})
    )
    sources, _ = found(tmp_path)
    assert {s.identity for s in sources} == {"etc/kern.log", "abs/kern.log", "a/b/k.log"}


def test_a_bomb_is_stopped(tmp_path):
    (tmp_path / "bomb.log.gz").write_bytes(gzip.compress(b"0" * (8 << 20)))
    [source], _ = found(tmp_path)
    stream = open_source(source, max_bytes=1 << 20)
    assert len(read_exactly(stream, 1 << 30)) == 1 << 20
    assert "MAX_INFLATED" in (stream.damage or "")


def test_a_torn_tar_keeps_what_came_before(tmp_path):
    files = {f"{i}.log": syslog(i, 100) for i in range(4)}
    whole = tar_of(files)
    (tmp_path / "torn.tar").write_bytes(whole[: int(len(whole) * 0.6)])
    sources, bad = found(tmp_path)
    assert content(sources[0]) == files["0.log"]
    assert any("torn.tar" in q.path for q in bad)


def test_a_zip_without_directory_gives_its_first_members(tmp_path):
    files = {"a.log": syslog(1, 100), "b.log": syslog(2, 100)}
    whole = zip_of(files)
    (tmp_path / "torn.zip").write_bytes(whole[: whole.index(b"PK\x01\x02")])
    sources, bad = found(tmp_path)
    assert {s.identity: content(s) for s in sources} == files
    assert any("directory" in q.reason for q in bad)


def test_encrypted_and_unread_packings_are_named(tmp_path):
    packed = bytearray(zip_of({"secret.log": TEXT}))
    packed[6] |= 1
    at = packed.index(b"PK\x01\x02")
    packed[at + 8] |= 1
    (tmp_path / "locked.zip").write_bytes(bytes(packed))
    (tmp_path / "x.lz4").write_bytes(b"\x04\x22\x4d\x18" + b"\0" * 40)
    sources, bad = found(tmp_path)
    assert not sources
    assert sorted(q.reason.split(":")[0] for q in bad) == ["not read", "packed with lz4, which is not read"]


def test_links_loops_and_what_is_no_file(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "kern.log").write_bytes(TEXT)
    (logs / "latest.log").symlink_to("kern.log")
    (logs / "again").symlink_to(tmp_path)
    (logs / "gone.log").symlink_to("nowhere")
    outside = tmp_path.parent / f"{tmp_path.name}-outside.log"
    outside.write_bytes(syslog(5, 20))
    (logs / "outside.log").symlink_to(outside)
    os.mkfifo(logs / "pipe")
    sources, bad = found(tmp_path)
    assert sorted(s.inner_path for s in sources) == ["logs/kern.log", "logs/outside.log"]
    assert {q.path: q.reason for q in bad}.keys() == {"logs/again", "logs/gone.log", "logs/pipe"}


def test_a_path_inside_another_is_read_once(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "kern.log").write_bytes(TEXT)
    one = found(tmp_path)[0]
    assert found(tmp_path / "d" / "kern.log", tmp_path, tmp_path / "d")[0] == one


def test_a_missing_path_is_reported(tmp_path):
    sources, [bad] = found(tmp_path / "no-such.log")
    assert not sources
    assert "no-such.log" in bad.path
    assert "No such file" in bad.reason


def test_order_of_paths_does_not_matter(tmp_path):
    paths = []
    for i in range(4):
        (tmp_path / f"r{i}").mkdir()
        (tmp_path / f"r{i}" / "job.log").write_bytes(b"same first line\n" + job_log(i % 2, 300))
        paths.append(tmp_path / f"r{i}")
    assert found(*paths) == found(*reversed(paths))


class TestIdentity:
    """Two different files never share an id; copies and growth do."""

    HEAD = b"+ srun python train.py\n"

    def roots(self, tmp_path, *bodies):
        for i, body in enumerate(bodies):
            (tmp_path / f"run{i}").mkdir(exist_ok=True)
            (tmp_path / f"run{i}" / "job.log").write_bytes(self.HEAD + body)
        return {s.root: s.source_id for s in found(*(tmp_path / f"run{i}" for i in range(len(bodies))))[0]}

    def test_equal_copies_share(self, tmp_path):
        ids = self.roots(tmp_path, job_log(1, 300), job_log(1, 300))
        assert len(set(ids.values())) == 1

    def test_a_grown_copy_shares(self, tmp_path):
        text = job_log(1, 3000)
        ids = self.roots(tmp_path, text[:3000], text, text[:90000])
        assert len(set(ids.values())) == 1

    def test_different_contents_do_not(self, tmp_path):
        common = job_log(1, 200)
        ids = self.roots(tmp_path, common + job_log(2, 900), common + job_log(3, 900), job_log(4, 900))
        assert len(set(ids.values())) == 3

    def test_a_beginning_of_several_goes_to_one_of_them_and_changes_no_id(self, tmp_path):
        common = job_log(1, 400)
        ids = self.roots(tmp_path, common + job_log(2, 900), common + job_log(3, 900), common)
        assert ids["run0"] != ids["run1"]
        assert ids["run2"] in (ids["run0"], ids["run1"])
        (tmp_path / "run2" / "job.log").write_bytes(self.HEAD + common[:5000])
        sources, _ = found(*(tmp_path / f"run{i}" for i in range(3)))
        assert {s.root: s.source_id for s in sources} == ids

    def test_growth_of_a_file_that_differs_keeps_its_id(self, tmp_path):
        a, b = job_log(2, 3000), job_log(3, 3000)
        early = self.roots(tmp_path, a[:20000], b[:20000])
        assert early == self.roots(tmp_path, a, b)


def test_stdin_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(TEXT))))
    [source], bad = found(Path("-"))
    assert not bad
    assert content(source) == TEXT
    assert source.inner_path == "stdin"
