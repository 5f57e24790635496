"""Counts of the stream's workers, and how they reach the supervisor."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stream.stats import HISTOGRAMS, Totals, WorkerRow, WorkerStats, fold_ended, read_rows, sum_of
from sql.migrations import upgrade
from sql.store import Store, open_store
from sql.streamstats import PAST, read_stats


class Clock:
    """A clock that moves when told, for both the wall and the process."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s

    def wall(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=self.s)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'w.db'}"
    upgrade(url)
    with open_store(url, clock=clock.wall) as opened:
        yield opened


def _rows(store: Store) -> dict[str, WorkerRow]:
    with store.reading() as connection:
        return read_rows(read_stats(connection, "c"))


def test_counts_of_two_workers_add_up(store: Store) -> None:
    for worker, n in (("a", 3), ("b", 4)):
        stats = WorkerStats(worker)
        stats.count("messages", n, topic="t", what="noise")
        stats.count("messages", 1, topic="u", what="noise")
        stats.observe("kafka_to_row", 0.3, n)
        assert stats.flush(store, "c", now=True)
    totals = sum_of(_rows(store).values())
    assert totals.counters == {("messages", "t", "noise"): 7, ("messages", "u", "noise"): 2}
    assert totals.of("messages") == 9
    held = totals.histograms["kafka_to_row"]
    assert (held.count, held.quantile(HISTOGRAMS["kafka_to_row"], 0.95)) == (7, 0.5)
    assert held.total == pytest.approx(2.1)


def test_a_row_is_written_when_due_and_holds_all_since_the_start(store: Store, clock: Clock) -> None:
    stats = WorkerStats("a", clock)
    assert not stats.flush(store, "c")  # nothing counted
    stats.count("loads")
    assert stats.flush(store, "c")
    stats.count("loads")
    assert not stats.flush(store, "c")  # too early
    clock.s += 2
    assert stats.flush(store, "c")
    assert _rows(store)["a"].totals.of("loads") == 2
    assert _rows(store)["a"].memory > 1_000_000


def test_a_database_that_is_away_costs_no_count(store: Store, clock: Clock, tmp_path: Path) -> None:
    stats = WorkerStats("a", clock)
    stats.count("loads")
    with open_store(f"sqlite:///{tmp_path / 'gone.db'}", create=True) as gone:
        gone.close()
        (tmp_path / "gone.db").unlink()
        (tmp_path / "gone.db").mkdir()
        assert not stats.flush(gone, "c")
    clock.s += 2
    assert stats.flush(store, "c")
    assert _rows(store)["a"].totals.of("loads") == 1


@pytest.mark.parametrize(("name", "labels"), [("no_such", {}), ("messages", {}), ("loads", {"topic": "t"})])
def test_a_count_that_nobody_shows_is_refused(name: str, labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=name):
        WorkerStats("a").count(name, 1, **labels)


def test_threads_lose_no_count() -> None:
    stats = WorkerStats("a")

    def many() -> None:
        for _ in range(5000):
            stats.count("loads")
            stats.observe("load", 0.01)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    totals = stats.row(0).totals
    assert (totals.of("loads"), totals.histograms["load"].count) == (20000, 20000)


def test_rows_of_ended_workers_are_folded_and_nothing_is_lost(store: Store, clock: Clock) -> None:
    def worker(name: str, submission: str) -> None:
        stats = WorkerStats(name, clock)
        stats.submission = submission
        stats.count("loads", 5)
        stats.observe("load", 0.2)
        stats.flush(store, "c", now=True)

    worker("old", "s1")
    worker("older", "s0")
    clock.s = 700
    worker("silent-for-a-moment", "s1")
    worker("mine", "s2")
    fold_ended(store, "c", "s2")
    assert set(_rows(store)) == {PAST, "silent-for-a-moment", "mine"}
    clock.s = 1400
    fold_ended(store, "c", "s2")
    assert set(_rows(store)) == {PAST, "mine"}  # mine is of this submission, however silent
    totals = sum_of(_rows(store).values())
    assert (totals.of("loads"), totals.histograms["load"].count) == (20, 4)


@given(st.lists(st.floats(0, 1e5), max_size=50), st.floats(0.01, 1))
def test_a_quantile_bounds_what_was_observed(seconds: list[float], q: float) -> None:
    stats = WorkerStats("a")
    for one in seconds:
        stats.observe("kafka_to_row", one)
    row = WorkerRow.of(stats.row(7).text())
    held = row.totals.histograms.get("kafka_to_row")
    if not seconds:
        assert held is None
        return
    assert held is not None
    bound = held.quantile(HISTOGRAMS["kafka_to_row"], q)
    assert bound is not None
    below = sum(one <= bound for one in seconds)
    assert below >= q * len(seconds) - 1e-9


def test_rows_survive_being_written_and_a_histogram_with_other_bounds_is_left_out() -> None:
    stats = WorkerStats("a")
    stats.submission = "s"
    stats.count("incidents", 2, component="gpu", provisional="true", what="new")
    stats.observe("load", 99)
    row = stats.row(123)
    again = WorkerRow.of(row.text())
    assert (again.totals, again.submission, again.at_us) == (row.totals, "s", 123)
    old = row.text().replace('"load":[[', '"load":[[1,')
    assert WorkerRow.of(old).totals == Totals(row.totals.counters, {})
