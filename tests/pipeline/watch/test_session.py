"""The command and what it does beside reading: answers, their grace, stopping, a warehouse that is away, many files."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import event

from classifiers.knowledge import load_ruleset
from pipeline.cli.main import cli
from pipeline.warehouse.live import Decider
from pipeline.watch.entries import WatchError
from pipeline.watch.session import Session
from pipeline.watch.watcher import Watcher
from schemas.settings import Settings
from sql.published import Outgoing
from sql.store import open_store
from tests.pipeline.tiny_sites import SITES, Site, write
from tests.pipeline.watch.site import SETTINGS, Folder, counted, noise, xid

RULES = load_ruleset()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def _site(folder: Folder, minutes_ago: float) -> None:
    """A site whose job stopped so long ago."""
    end = datetime(2026, 3, 4, 10, 21, tzinfo=UTC)
    write(SITES["hbm"](Site(shift=datetime.now(UTC) - timedelta(minutes=minutes_ago) - end)), folder.logs)


def _command(folder: Folder, *more: str) -> list[str]:
    args = ["watch", str(folder.logs), "--warehouse", folder.warehouse, "--format", "json", *more]
    return [sys.executable, "-m", "pipeline.cli.main", *args]


def _until(true: Callable[[], Any], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_once_prints_incidents_as_lines_of_json_and_says_them_once(folder: Folder) -> None:
    write(SITES["hbm"](Site()), folder.logs)
    args = ["watch", str(folder.logs), "--warehouse", folder.warehouse, "--once"]
    first = CliRunner().invoke(cli, [*args, "--format", "json"])
    assert first.exit_code == 0, first.output
    messages = [json.loads(line) for line in first.stdout.splitlines()]
    assert [(m["what"], m["provisional"], m["incident"]["component"]) for m in messages] == [("new", False, "gpu.hbm")]
    assert messages[0]["incident"]["job_id"] == "5101"
    again = CliRunner().invoke(cli, [*args, "--format", "json"])
    assert (again.exit_code, again.stdout) == (0, "")
    people = CliRunner().invoke(cli, args)
    assert people.exit_code == 0
    assert "watched   5 files" in people.stdout


def test_what_cannot_be_read_makes_exit_code_3(folder: Folder) -> None:
    folder.write("broken.bin", bytes(range(256)))
    done = CliRunner().invoke(cli, ["watch", str(folder.logs), "--warehouse", folder.warehouse, "--once"])
    assert done.exit_code == 3
    assert "quarantine" in done.stderr


def test_a_folder_that_is_not_there_is_wrong_use(folder: Folder) -> None:
    done = CliRunner().invoke(cli, ["watch", str(folder.top / "nowhere"), "--warehouse", folder.warehouse])
    assert done.exit_code == 2
    assert "nowhere: it is not a folder" in done.output
    assert not (folder.top / "watched.db").exists()
    with open_store(folder.warehouse, create=True) as store, pytest.raises(WatchError, match="nowhere"):
        Watcher(folder.top / "nowhere", store, SETTINGS, RULES)


def test_an_answer_is_provisional_until_the_grace_is_over(folder: Folder) -> None:
    _site(folder, minutes_ago=1)
    told: list[Outgoing] = []
    now = [datetime.now(UTC)]
    settings = Settings(grace_s=600)
    with (
        open_store(folder.warehouse, create=True, clock=lambda: now[0]) as store,
        Watcher(folder.logs, store, settings, RULES) as watcher,
    ):
        session = Session(watcher, Decider(store, settings, RULES), store, tell=told.append)
        session.once()
        assert [(m.what, m.provisional) for m in told] == [("new", True)]
        now[0] += timedelta(minutes=5)
        session.once()
        assert len(told) == 1
        now[0] += timedelta(minutes=5)
        session.once()
        assert [(m.what, m.provisional) for m in told] == [("new", True), ("changed", False)]
    assert folder.rows()["incidents"] == folder.ingested()["incidents"]


def test_a_source_that_gets_another_id_is_decided_again(folder: Folder) -> None:
    """Two files that begin alike are one source until they part; then what was decided of the first moves."""
    head = "2026-03-04T09:00:00.000000+00:00 node01 kernel: Linux version 5.15.0 (buildd@x) #1 SMP\n"
    with (
        open_store(folder.warehouse, create=True) as store,
        Watcher(folder.logs, store, SETTINGS, RULES) as watcher,
    ):
        session = Session(watcher, Decider(store, SETTINGS, RULES), store, tell=folder.told.append)
        folder.write("kern.log", head + xid(1, 1) + xid(2, 30))
        session.once()
        folder.rename("kern.log", "kern.log.1")
        folder.write("kern.log", head)
        session.once()
        folder.write("kern.log", noise(3, 40) + xid(4, 50))
        session.once()
        assert folder.rows() == folder.ingested()
    alive = {m.incident_id: m.what for m in folder.told}
    assert sum(what != "retracted" for what in alive.values()) == 3


def test_a_running_watch_answers_and_ends_when_it_is_told_to(folder: Folder) -> None:
    out = folder.top / "out.jsonl"
    with out.open("wb") as stream:
        process = subprocess.Popen(_command(folder, "--interval", "0.2"), stdout=stream)
    try:
        _until(lambda: (folder.top / "watched.db").exists())
        _site(folder, minutes_ago=0.5)
        _until(lambda: out.read_text().endswith("\n"))
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
    assert code == 0
    messages = [json.loads(line) for line in out.read_text().splitlines()]
    assert messages[0]["what"] == "new"
    assert messages[0]["provisional"] is True


def test_a_warehouse_that_is_locked_is_waited_for(folder: Folder) -> None:
    folder.write("kern.log", xid(1))
    file = folder.top / "watched.db"
    troubles: list[str] = []
    stop = threading.Event()
    with (
        open_store(folder.warehouse, create=True) as store,
        Watcher(folder.logs, store, SETTINGS, RULES) as watcher,
    ):
        event.listen(store.engine, "checkout", _impatient)
        session = Session(
            watcher, Decider(store, SETTINGS, RULES), store, tell=folder.told.append, trouble=troubles.append, stop=stop
        )
        blocker = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        blocker.execute("BEGIN IMMEDIATE")
        worker = threading.Thread(target=session.run, args=(0.1,))
        worker.start()
        try:
            _until(lambda: troubles)
            blocker.execute("ROLLBACK")
            _until(lambda: counted(folder.rows()) == 1)
        finally:
            stop.set()
            worker.join()
            blocker.close()


def _impatient(connection: sqlite3.Connection, *_: object) -> None:
    """Waits 0.2 s for a lock instead of a minute."""
    connection.execute("PRAGMA busy_timeout = 200")


class _Killed(BaseException):
    """Ends a poll where a kill would."""


def test_a_kill_before_any_statement_of_the_transaction(folder: Folder) -> None:
    """The process dies before the first, the second, ... statement that writes; the next one makes it whole."""
    written = 0
    for attempt in range(400):
        folder.write("kern.log", "".join(noise(attempt * 10 + i) for i in range(3)) + xid(attempt, attempt % 60))
        written += 1
        if attempt == 3:
            folder.rename("kern.log", "kern.log.1")
        with open_store(folder.warehouse, create=True) as store:
            left = [attempt]

            def count(*_: object, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise _Killed

            event.listen(store.engine, "before_cursor_execute", count)
            try:
                with Watcher(folder.logs, store, SETTINGS, RULES) as watcher:
                    watcher.poll(hurry=True)
            except _Killed:
                continue
            break
    else:
        pytest.fail("no attempt came through")
    assert attempt > 10
    assert counted(folder.rows()) == written


def test_ten_thousand_files_cost_a_look_each(folder: Folder) -> None:
    text = noise(1)
    for n in range(10_000):
        name = folder.logs / f"{n % 100:02d}"
        name.mkdir(exist_ok=True)
        (name / f"host{n}.log").write_text(text)
    with folder.watching() as watcher:
        for key, listed in _listed(folder).items():
            watcher._entries[key] = _read_entry(listed)
        begun = time.process_time()
        for n in range(5):
            folder.write(f"{n:02d}/host{n}.log", xid(n))
            assert folder.poll(watcher).read == 1
        took = (time.process_time() - begun) / 5
    assert took < 1.5  # 0.1 s on a machine at rest


def _listed(folder: Folder) -> dict[str, Any]:
    from pipeline.watch.listing import list_folder

    return list_folder(os.path.realpath(folder.logs)).files


def _read_entry(listed: Any) -> Any:
    from pipeline.watch.entries import Entry
    from sql.watched import WatchedFile

    row = WatchedFile(listed.key, listed.shown, "", 0, 0, "", listed.size, listed.mtime_ns)
    return Entry(row, seen=listed.signature)
