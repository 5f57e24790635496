"""What happens to files between two polls, one kind at a time; the facts are those of one scan of all of it."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.watch.entries import Patience
from schemas.facts import CELL
from sql.store import open_store
from tests.pipeline.watch.site import Folder, counted, noise, xid


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def _block(n: int, minute: int = 0, lines: int = 20) -> str:
    """Noise with one line with a signal at its end."""
    return "".join(noise(n * 1000 + i, minute) for i in range(lines)) + xid(n, minute)


def _settled(folder: Folder, lines: int) -> None:
    """After a last look: every line once, and the facts of one scan of all files."""
    with folder.watching() as watcher:
        folder.poll(watcher, hurry=True)
    assert counted(folder.rows()) == lines
    stored, scanned = folder.stored(), folder.scanned()
    for kind, facts in scanned.items():
        assert stored[kind] == facts, kind


def test_growth_in_small_steps_over_borders_of_cells(folder: Folder) -> None:
    with folder.watching() as watcher:
        for n in range(25):
            folder.write("kern.log", _block(n, n, lines=80))
            done = folder.poll(watcher)
            assert done.read == 1
            assert done.touched
        assert folder.poll(watcher).read == 0
    assert (folder.logs / "kern.log").stat().st_size > 3 * CELL
    _settled(folder, 25)
    with open_store(folder.warehouse) as store:
        assert all(len(s.ranges) <= 2 for s in store.read_sources("default"))


def test_rename_and_create(folder: Folder) -> None:
    with folder.watching() as watcher:
        folder.write("kern.log", _block(1))
        folder.poll(watcher)
        folder.write("kern.log", _block(2, 1))
        folder.rename("kern.log", "kern.log.1")
        folder.write("kern.log", _block(3, 2))
        folder.poll(watcher)
        folder.write("kern.log.1", _block(4, 3))  # a writer that has not been told yet
        folder.poll(watcher)
        folder.rename("kern.log.1", "kern.log.2")
        folder.rename("kern.log", "kern.log.1")
        assert folder.poll(watcher).read == 0
    _settled(folder, 4)


def test_copytruncate(folder: Folder) -> None:
    with folder.watching() as watcher:
        folder.write("kern.log", _block(1))
        folder.poll(watcher)
        folder.write("kern.log", _block(2, 1))
        folder.copytruncate("kern.log", "kern.log.1")
        folder.write("kern.log", _block(3, 2))
        folder.poll(watcher)
    _settled(folder, 3)


def test_copytruncate_and_more_than_before_written_since(folder: Folder) -> None:
    with folder.watching() as watcher:
        folder.write("kern.log", _block(1))
        folder.poll(watcher)
        folder.copytruncate("kern.log", "kern.log.1")
        folder.write("kern.log", _block(2, 1, lines=2_000))
        folder.poll(watcher)
    _settled(folder, 2)


def test_truncated_and_written_anew(folder: Folder) -> None:
    with folder.watching() as watcher:
        folder.write("kern.log", _block(1, lines=100))
        folder.poll(watcher)
        folder.write("kern.log", _block(2, 1), mode="w")
        folder.poll(watcher)
    with folder.watching() as watcher:
        folder.poll(watcher, hurry=True)
    assert counted(folder.rows()) == 2


def test_deleted_with_lines_unread(folder: Folder) -> None:
    with folder.watching() as watcher:
        folder.write("kern.log", _block(1))
        folder.poll(watcher)
        folder.write("kern.log", _block(2, 1))
        (folder.logs / "kern.log").unlink()
        folder.write("kern.log", _block(3, 2))
        folder.poll(watcher)
    with folder.watching() as watcher:
        folder.poll(watcher, hurry=True)
    assert counted(folder.rows()) == 3


def test_packed_with_and_without_lines_unread(folder: Folder) -> None:
    with folder.watching() as watcher:
        folder.write("kern.log", _block(1, lines=900))
        folder.poll(watcher)
        folder.write("kern.log", _block(2, 1))
        folder.rename("kern.log", "kern.log.1")
        folder.pack("kern.log.1")
        watcher.close()  # as if the file had not been held open
        folder.poll(watcher)
        folder.now += 10
        assert folder.poll(watcher).signals == 2
        folder.rename("kern.log.1.gz", "kern.log.2.gz")
        folder.write("kern.log", _block(3, 2))
        folder.poll(watcher)
        folder.rename("kern.log", "kern.log.1")
        folder.pack("kern.log.1")
        folder.now += 10
        folder.poll(watcher)
        folder.now += 10
        done = folder.poll(watcher)
        assert (done.signals, done.touched) == (0, set())
    _settled(folder, 3)


def test_packed_file_that_grows(folder: Folder) -> None:
    whole = gzip.compress("".join(_block(n, n, lines=200) for n in range(10)).encode(), 1)
    with folder.watching() as watcher:
        for at in range(0, len(whole), len(whole) // 5 + 1):
            folder.write("kern.log.1.gz", whole[at : at + len(whole) // 5 + 1])
            assert folder.poll(watcher).signals == 0
        folder.now += 6
        assert folder.poll(watcher).signals == 10
    _settled(folder, 10)


def test_packed_file_that_never_rests_is_read_now_and_then(folder: Folder) -> None:
    whole = gzip.compress("".join(_block(n, n, lines=200) for n in range(30)).encode(), 1)
    step = len(whole) // 40 + 1
    read = []
    with folder.watching() as watcher:
        for at in range(0, len(whole), step):
            folder.write("kern.log.1.gz", whole[at : at + step])
            folder.now += 3
            read.append(folder.poll(watcher).signals)
        assert 1 <= sum(n > 0 for n in read) <= 4
        folder.now += 6
        folder.poll(watcher)
    _settled(folder, 30)
    with open_store(folder.warehouse) as store:
        assert store.stats()["quarantine"] == 0


def test_replaced_by_a_longer_copy_of_itself(folder: Folder) -> None:
    with folder.watching() as watcher:
        folder.write("kern.log", _block(1))
        folder.poll(watcher)
        text = (folder.logs / "kern.log").read_text()
        folder.write("new.tmp", text + _block(2, 1))
        folder.rename("new.tmp", "kern.log")
        folder.poll(watcher)
    _settled(folder, 2)


def test_half_lines(folder: Folder) -> None:
    line = xid(2, 1)
    with folder.watching(Patience(line_s=10)) as watcher:
        folder.write("kern.log", _block(1) + line[:90])
        assert folder.poll(watcher).signals == 1
        folder.write("kern.log", line[90:105])
        assert folder.poll(watcher).signals == 0
        folder.now += 10
        assert folder.poll(watcher).signals == 2  # the end of a torn line counts until it goes on
        assert counted(folder.rows()) == 2
        folder.write("kern.log", line[105:] + noise(3, 2))
        folder.poll(watcher)
        assert counted(folder.rows()) == 2
        folder.write("kern.log", xid(4, 3)[:-1])
    _settled(folder, 3)


def test_first_line_in_two_halves_is_one_source(folder: Folder) -> None:
    line = xid(1)
    with folder.watching() as watcher:
        folder.write("kern.log", line[:100])
        folder.poll(watcher)
        folder.now += 11
        folder.poll(watcher)
        folder.write("kern.log", line[100:] + _block(2, 1))
        folder.poll(watcher)
    _settled(folder, 2)


def test_files_that_begin_alike(folder: Folder) -> None:
    head = "2026-03-04T09:00:00.000000+00:00 node01 kernel: Linux version 5.15.0 (buildd@x) #1 SMP\n"
    shared = head + "".join(noise(i) for i in range(1500))  # more than a cell
    with folder.watching() as watcher:
        folder.write("kern.log", shared + _block(1, 1))
        folder.poll(watcher)
        folder.rename("kern.log", "kern.log.1")
        folder.write("kern.log", head)
        folder.poll(watcher)
        folder.write("kern.log", shared[len(head) :] + xid(7, 0))
        folder.poll(watcher)
        folder.write("kern.log", _block(2, 2))
        folder.poll(watcher)
    _settled(folder, 3)


def test_a_line_that_is_longer_than_any_buffer(folder: Folder) -> None:
    long = "2026-03-04T10:00:00.000000+00:00 node01 kernel: " + "x" * (3 << 20)
    with folder.watching() as watcher:
        folder.write("kern.log", _block(1) + long[: 1 << 19])
        folder.poll(watcher)
        folder.write("kern.log", long[1 << 19 : 2 << 20])
        folder.poll(watcher)
        folder.write("kern.log", long[2 << 20 :] + "\n" + _block(2, 1))
        folder.poll(watcher)
    _settled(folder, 2)


def test_links_loops_and_files_that_cannot_be_read(folder: Folder) -> None:
    outside = folder.top / "outside"
    outside.mkdir()
    (outside / "kern.log").write_text(_block(1))
    (folder.logs / "linked").symlink_to(outside)
    (folder.logs / "again.log").symlink_to("linked/kern.log")
    (folder.logs / "loop").symlink_to(".")
    (folder.logs / "nothing.log").symlink_to("not-there")
    os.mkfifo(folder.logs / "pipe")
    with folder.watching() as watcher:
        assert folder.poll(watcher).quarantined == 2
        assert folder.poll(watcher).quarantined == 0
        (folder.logs / "nothing.log").unlink()
        (folder.logs / "pipe").unlink()
        folder.poll(watcher)
        with (outside / "kern.log").open("a") as out:
            out.write(_block(2, 1))
        folder.poll(watcher)
    with folder.watching() as watcher:
        folder.poll(watcher, hurry=True)
    assert counted(folder.rows()) == 2
    with open_store(folder.warehouse) as store:
        assert store.stats()["quarantine"] == 0


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Root may read everything, so the test is somebody else meanwhile."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_file_without_permission_is_told_once_and_read_when_it_may_be() -> None:
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o777)
        with _as_nobody():
            folder = Folder(Path(top))
            path = folder.write("kern.log", _block(1))
            path.chmod(0)
            with folder.watching() as watcher:
                assert folder.poll(watcher).quarantined == 1
                assert folder.poll(watcher).quarantined == 0
                path.chmod(0o644)
                assert folder.poll(watcher).signals == 1
            with open_store(folder.warehouse) as store:
                assert store.stats()["quarantine"] == 0
            assert counted(folder.rows()) == 1


def test_a_folder_that_ingest_has_loaded_is_not_read_again(folder: Folder) -> None:
    from pipeline.warehouse.ingest import ingest
    from tests.pipeline.watch.site import SETTINGS

    folder.write("kern.log", _block(1, lines=900))
    ingest([folder.logs], folder.warehouse, SETTINGS)
    with folder.watching() as watcher:
        assert folder.poll(watcher).signals == 0
        folder.write("kern.log", _block(2, 1))
        folder.poll(watcher)
        ingest([folder.logs], folder.warehouse, SETTINGS)
        folder.write("kern.log", _block(3, 2))
        folder.poll(watcher)
    _settled(folder, 3)


@pytest.mark.skipif(
    shutil.which("logrotate") is None and not os.environ.get("CI"), reason="no logrotate on this machine"
)
@pytest.mark.parametrize("mode", ["create", "copytruncate", "compress", "compress\ndelaycompress", "dateext"])
def test_with_logrotate_itself(folder: Folder, mode: str) -> None:
    config = folder.top / "logrotate.conf"
    config.write_text(f"{folder.logs}/kern.log {{\nrotate 20\nmissingok\nsu root root\n{mode}\n}}\n")
    with folder.watching() as watcher:
        for n in range(6):
            folder.write("kern.log", _block(n, n))
            if n % 2:
                folder.poll(watcher)
            if mode == "dateext" and n:
                for old in folder.logs.glob("kern.log-????????"):
                    old.rename(f"{old}-{n}")
            command = ["logrotate", "--force", "--state", str(folder.top / "state"), str(config)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            folder.now += 3
            folder.poll(watcher)
    _settled(folder, 6)
