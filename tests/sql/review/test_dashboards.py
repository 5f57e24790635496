"""The shipped Grafana dashboard and Datasette metadata: their queries run on a filled warehouse, and find rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import text

from sql.migrations import upgrade
from sql.models import metadata
from sql.store import open_store
from sql.views import views
from tests.sql.test_queries import fill


def _grafana(sql: str) -> str:
    """A panel's query as Grafana would send it, for all of the time and one cluster."""
    sql = re.sub(r"\$__timeFilter\(([\w.]+)\)", r"\1 BETWEEN '2020-01-01T00:00:00Z' AND '2040-01-01T00:00:00Z'", sql)
    sql = sql.replace("$cluster", "'alpha'")
    assert "$" not in sql
    return sql


def test_panels_of_grafana_run_on_postgresql(postgres_url: str, repository: Path) -> None:
    board: dict[str, Any] = json.loads((repository / "examples/dashboards/grafana.json").read_text(encoding="utf-8"))
    upgrade(postgres_url)
    with open_store(postgres_url) as store:
        fill(store)
        for panel in board["panels"]:
            for target in panel["targets"]:
                with store.reading() as connection:
                    rows = connection.execute(text(_grafana(target["rawSql"]))).mappings().all()
                assert rows, panel["title"]
                if target["format"] == "time_series":
                    assert {"time", "metric", "value"} == set(rows[0]), panel["title"]
        with store.reading() as connection:
            names = connection.execute(text(board["templating"]["list"][1]["query"])).scalars().all()
    assert names == ["alpha"]
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    assert len(set(places)) == len({p["id"] for p in board["panels"]}) == len(places)


def test_queries_of_datasette_run_on_sqlite(tmp_path: Path, repository: Path) -> None:
    held = yaml.safe_load((repository / "examples/dashboards/datasette.yaml").read_text(encoding="utf-8"))
    database = held["databases"]["faultbeam"]
    url = f"sqlite:///{tmp_path / 'faultbeam.db'}"
    upgrade(url)
    with open_store(url) as store, store.reading() as connection:
        for query in database["queries"].values():
            connection.execute(text(query["sql"]), {"cluster": "alpha", "job": "700003"}).all()
    with open_store(url) as store:
        fill(store)
        for name, query in database["queries"].items():
            with store.reading() as connection:
                given = {"cluster": "alpha", "job": "700003"}
                assert connection.execute(text(query["sql"]), given).all(), name
    assert set(database["tables"]) <= set(metadata.tables) | set(views())
