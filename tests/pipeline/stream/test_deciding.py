"""Deciding in another process: answers, calls at once, a process that dies, a database that is away."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.stream.deciding import DecidingDied, DecidingProcess, Done
from schemas.settings import Settings
from sql.migrations import upgrade
from sql.store import open_store
from tests.pipeline.stream.archive import as_messages
from tests.pipeline.stream.test_reading import gather, site
from tests.services.postgres import PostgresServer


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A warehouse with the archive in it, undecided."""
    found = f"sqlite:///{tmp_path / 'w.db'}"
    with open_store(found, create=True) as store:
        store.load_facts(gather(as_messages(site())), mark=True)
    return found


@pytest.fixture
def decider(url: str) -> Iterator[DecidingProcess]:
    made = DecidingProcess(url, Settings())
    yield made
    made.close()


def _pid(decider: DecidingProcess) -> int:
    assert decider._process is not None
    return decider._process.pid


def test_it_says_what_changed(url: str, decider: DecidingProcess) -> None:
    with open_store(url) as store:
        first = decider.decide_pending(store.now_us())
        assert first.decided > 15
        assert {what for _, what, _ in first.changes} == {"new"}
        stored = {d.incident_id: d.component for d in store.list_decisions() if d.incident}
        assert {i: c for i, _, c in first.changes} == stored
        again = decider.decide_pending(store.now_us())
    assert (again.changes, again.away) == ((), "")


def test_calls_of_many_threads_are_answered_together(url: str, decider: DecidingProcess) -> None:
    with open_store(url) as store:
        ids = [s.source_id for s in store.read_sources("default")]
        done: list[Done] = []
        threads = [threading.Thread(target=lambda sid=sid: done.append(decider.decide([sid], 10**18))) for sid in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(done) == len(ids)
        assert sum(1 for d in done if d.seconds) < len(ids)
        decider.decide_pending(store.now_us())
        assert sum(1 for d in store.list_decisions() if d.incident) > 10


def test_a_process_that_dies_is_started_again(url: str, decider: DecidingProcess) -> None:
    decider.decide([], 0)
    assert decider.decide_pending(0).away == ""
    first = _pid(decider)
    os.kill(first, signal.SIGSTOP)
    killer = threading.Timer(0.5, os.kill, (first, signal.SIGKILL))
    killer.start()
    with pytest.raises(DecidingDied, match="-9"):
        decider.decide(["s"], 0)
    killer.join()
    with open_store(url) as store:
        assert decider.decide_pending(store.now_us()).away == ""
    assert _pid(decider) != first


def test_it_ends_with_who_started_it(decider: DecidingProcess) -> None:
    decider.decide_pending(0)
    process = decider._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()  # what the system does when the worker dies
    assert process.wait(30) == 0


def test_a_database_that_is_away_is_said(stream_postgres: PostgresServer) -> None:
    url = stream_postgres.database()
    upgrade(url)
    decider = DecidingProcess(url, Settings())
    try:
        assert decider.decide_pending(time.time_ns() // 1000).away == ""
        stream_postgres.stop()
        assert "cannot connect" in decider.decide_pending(time.time_ns() // 1000).away
        stream_postgres.start()
        assert decider.decide_pending(time.time_ns() // 1000).away == ""
    finally:
        decider.close()
