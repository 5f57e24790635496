"""Killed at any point of a transaction, a process leaves all of it or nothing; writers at once lose nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from schemas.facts import Facts, SignalFact, Stamp
from sql.migrations import upgrade
from sql.same import same_bytes
from sql.store import Store, open_store
from tests.sql import child
from tests.sql.builders import T0, decision

ROOT = Path(__file__).parents[2]


def _run(url: str, what: str, after: int) -> str:
    """First words of the child; killed with SIGKILL as soon as it waits inside its transaction."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.sql.child", url, what, str(after)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if said == "waiting":
        process.send_signal(signal.SIGKILL)
    process.wait(60)
    process.stdout.close()
    assert process.returncode == (-signal.SIGKILL if said == "waiting" else 0)
    return said


def _rows(store: Store) -> tuple[dict[str, int], bytes]:
    return store.stats(), same_bytes(store)


@pytest.mark.parametrize(("what", "points"), [("facts", (1, 2, 4)), ("decisions", (1, 3, 5, 7, 9, 10))])
def test_all_or_nothing(url: str, what: str, points: tuple[int, ...]) -> None:
    upgrade(url)
    with open_store(url) as store:
        child.prepare(store)
        before = _rows(store)
        for point in points:
            assert _run(url, what, point) == "waiting", f"no statement {point} to be killed at"
            assert _rows(store) == before, f"killed after statement {point}"
        said = _run(url, what, 0)
        assert said.startswith("done")
        assert points[-1] <= int(said.split()[1])
        after = _rows(store)
        assert after != before
        # what was done whole is not done again
        child.work(store, what)
        assert _rows(store) == after


def test_a_load_that_fails_leaves_nothing(store: Store) -> None:
    stamp = Stamp("utc", T0)
    good = SignalFact("a", "s", "r", "", "h", "t", "b", stamp, 0, 1, stamp, 0, "x", (), (), ())
    too_big = SignalFact("b", "s", "r", "", "h", "t", "b", stamp, 2**70, 1, stamp, 0, "x", (), (), ())
    with pytest.raises(Exception, match=r"(?i)int|overflow|range"):
        store.load_facts(Facts(signals=(good, too_big)))
    assert store.stats()["signals"] == 0
    with pytest.raises(Exception, match=r"unknown component 'gpu\.nonsense'"):
        store.replace_decisions("alpha", [decision("a"), decision("b", component="gpu.nonsense")])
    assert store.stats()["decisions"] == 0


def test_writers_at_once_lose_nothing(url: str) -> None:
    """Each writer knows other cells of the same signals; at the end all cells must be there."""
    upgrade(url)
    stamp = Stamp("utc", T0)

    def view(writer: int, n: int) -> SignalFact:
        cells = ((writer, 1 + n),)
        return SignalFact(f"g{n}", f"s{n % 5}", "r", "", "h", "t", "b", stamp, 9, 1, stamp, 9, "x", (), (), cells)

    errors: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            with open_store(url) as store:
                for start in range(0, 60, 20):
                    store.load_facts(Facts(signals=tuple(view(writer, n) for n in range(start, start + 20))))
        except BaseException as error:  # noqa: BLE001 - told below, in the thread of the test
            errors.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert errors == []
    with open_store(url) as store:
        found = store.read_signals("default")
    assert len(found) == 60
    assert {s.counts for s in found if s.signal_id == "g7"} == {tuple((writer, 8) for writer in range(4))}
    assert all(len(s.counts) == 4 for s in found)


def test_deciders_at_once_keep_the_newest(url: str) -> None:
    upgrade(url)
    errors: list[BaseException] = []

    def write(revisions: list[int]) -> None:
        try:
            with open_store(url) as store:
                for revision in revisions:
                    many = [decision(f"k{n}", revision=revision, cause=f"c{revision}") for n in range(4)]
                    store.replace_decisions("alpha", many if revision % 2 else many[::-1])
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=write, args=(list(r),)) for r in ((1, 6, 3), (4, 2, 7), (5, 8, 0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert errors == []
    with open_store(url) as store:
        assert {d.revision for d in store.list_decisions("alpha")} == {8}
        assert store.stats()["evidence"] == 8
