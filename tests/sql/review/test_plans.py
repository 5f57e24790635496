"""No plan on SQLite goes through a large table without an index, save where all of it is asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from benchmarks.review_views import whole_tables
from sql.dialect import expand
from sql.migrations import upgrade
from sql.saved import SavedQuery, list_queries
from sql.store import open_store
from sql.views import views
from tests.sql.test_queries import fill

#: These list a large table row by row: there is nothing to look up.
LISTS = {"review_job_evidence": ["evidence"], "review_throughput": ["training_progress"]}
#: The saved query orders what the view lists, and so goes along the key.
LISTED = {**LISTS, "review_throughput": []}
GIVEN = {
    "cluster": "alpha",
    "since": "2026-03-01T00:00:00.000000Z",
    "until": "2026-03-09T00:00:00.000000Z",
    "limit": 20,
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "w.db"
    upgrade(f"sqlite:///{path}")
    with open_store(f"sqlite:///{path}") as store:
        fill(store)
    connection = sqlite3.connect(path)
    yield connection
    connection.close()


@pytest.mark.parametrize("name", sorted(views()))
def test_views(warehouse: sqlite3.Connection, name: str) -> None:
    assert whole_tables(warehouse, f"SELECT * FROM {name}") == LISTS.get(name, [])


@pytest.mark.parametrize("query", list_queries(), ids=lambda q: q.name)
def test_saved_queries(warehouse: sqlite3.Connection, query: SavedQuery) -> None:
    given = {p.name: GIVEN.get(p.name, "x") for p in query.parameters}
    assert whole_tables(warehouse, expand(query.sql, "sqlite"), given) == LISTED.get(query.name, [])


def test_a_scan_would_be_seen(warehouse: sqlite3.Connection) -> None:
    assert whole_tables(warehouse, "SELECT * FROM signals s WHERE s.text = 'x'") == ["signals"]
    assert whole_tables(warehouse, "SELECT * FROM signals WHERE text = 'x'") == ["signals"]
    assert whole_tables(warehouse, "SELECT * FROM signals s WHERE s.cluster = 'x'") == []


def test_marks_of_checkpoints_have_an_index_of_their_own(warehouse: sqlite3.Connection) -> None:
    plan = [row[3] for row in warehouse.execute("EXPLAIN QUERY PLAN SELECT * FROM review_checkpoint_marks")]
    assert any("ix_signals_checkpoint" in step for step in plan)
    plan = [row[3] for row in warehouse.execute("EXPLAIN QUERY PLAN SELECT * FROM review_telemetry")]
    assert any("COVERING INDEX ix_telemetry_hourly_metric" in step for step in plan)
