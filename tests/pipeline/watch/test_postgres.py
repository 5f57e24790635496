"""Watching into PostgreSQL, whose server is stopped and killed under way."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from classifiers.knowledge import load_ruleset
from pipeline.warehouse.live import Decider
from pipeline.watch.session import Session
from pipeline.watch.watcher import Watcher
from sql.migrations import upgrade
from sql.store import open_store
from tests.pipeline.watch.rotating import Writer
from tests.pipeline.watch.site import SETTINGS, Folder, counted
from tests.services.postgres import PostgresServer

RULES = load_ruleset()


def test_a_server_that_goes_and_comes_back(tmp_path: Path, stream_postgres: PostgresServer) -> None:
    folder = Folder(tmp_path, url=stream_postgres.database())
    upgrade(folder.url)
    writer = Writer(folder.logs, seed=7, files=3)
    troubles: list[str] = []
    stop = threading.Event()
    with open_store(folder.url) as store, Watcher(folder.logs, store, SETTINGS, RULES) as watcher:
        session = Session(
            watcher, Decider(store, SETTINGS, RULES), store, tell=folder.told.append, trouble=troubles.append, stop=stop
        )
        worker = threading.Thread(target=session.run, args=(0.05,))
        worker.start()
        try:
            for n in range(120):
                writer.step()
                time.sleep(0.02)
                if n in (40, 80):
                    stream_postgres.restart(crash=n == 80, away_s=0.3)
            writer.end()
        finally:
            stop.set()
            worker.join()
    folder.finish()
    watched = folder.rows()
    assert counted(watched) == writer.lines
    assert watched == folder.ingested()
