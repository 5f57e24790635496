"""Facts are loaded while decisions are written, by other connections: neither waits for the other for ever."""

from __future__ import annotations

import threading
import time

from benchmarks.stream_traffic import Traffic
from classifiers.knowledge import load_ruleset
from pipeline.stream.messages import Message
from pipeline.stream.reading import Reader, stream_engine
from pipeline.warehouse.live import Decider
from schemas.facts import Facts
from schemas.settings import Settings
from sql.migrations import upgrade
from sql.store import open_store
from tests.services.postgres import PostgresServer

HOSTS, ROUNDS, STEP_S = 48, 10, 0.4
FAR = 1 << 60


def _polls(settings: Settings) -> list[Facts]:
    """Facts of polls of a busy cluster, each of all hosts."""
    rules = load_ruleset()
    reader = Reader(rules, stream_engine(rules, settings))
    began = time.time() - 600
    traffic = Traffic(HOSTS, 2000, 500, 7, began)
    polls, offset = [], 0
    for n in range(1, ROUNDS + 1):
        now = began + n * STEP_S
        messages = []
        for _, value, headers in traffic.until(now):
            decoded = {name: text.decode() for name, text in headers}
            messages.append(Message("t", 0, offset, int(now * 1e6), value, decoded))
            offset += 1
        polls.append(reader.scan(messages, now).facts)
    return polls


def test_loads_and_decisions_of_the_same_sources_do_not_lock_each_other(stream_postgres: PostgresServer) -> None:
    url, settings, rules = stream_postgres.database(), Settings(), load_ruleset()
    upgrade(url)
    polls = _polls(settings)
    errors: list[BaseException] = []
    loaded = threading.Event()
    decided = 0

    def load() -> None:
        try:
            with open_store(url) as store:
                for facts in polls:
                    store.load_facts(facts, mark=True)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)
        finally:
            loaded.set()

    thread = threading.Thread(target=load)
    with open_store(url) as store:
        decider = Decider(store, settings, rules, settle_s=0.0)
        thread.start()
        while not loaded.is_set():
            decided += decider.decide_pending(0).decided
        thread.join()
        assert errors == []
        decider.decide_pending(FAR)
        assert decider.decide_pending(FAR).decided == 0
    assert decided > HOSTS  # deciding and loading did overlap
