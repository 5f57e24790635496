"""The shipped Grafana dashboard and Datasette metadata: their queries run on a filled warehouse, and find rows."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
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


def _answers(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20) as answer:
        return json.loads(answer.read())


@contextmanager
def _served(program: str, warehouse: Path, metadata_file: Path) -> Iterator[int]:
    """Datasette on a free port of this machine, until it answers."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    command = [program, "serve", str(warehouse), "--metadata", str(metadata_file), "--host", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            for _ in range(150):
                try:
                    _answers(port, "-/versions.json")
                    break
                except (urllib.error.URLError, ConnectionError):
                    assert server.poll() is None, "datasette ended before it answered"
                    time.sleep(0.2)
            yield port
        finally:
            server.terminate()


def test_datasette_itself_serves_every_query(tmp_path: Path, repository: Path) -> None:
    program = os.environ.get("FAULTBEAM_DATASETTE") or shutil.which("datasette")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("datasette is needed in CI: FAULTBEAM_DATASETTE names no program")
        pytest.skip("datasette is not installed: pip install it anywhere and set FAULTBEAM_DATASETTE to its path")
    url = f"sqlite:///{tmp_path / 'faultbeam.db'}"
    upgrade(url)
    with open_store(url) as store:
        fill(store)
    shipped = repository / "examples/dashboards/datasette.yaml"
    held = yaml.safe_load(shipped.read_text(encoding="utf-8"))["databases"]["faultbeam"]
    with _served(program, tmp_path / "faultbeam.db", shipped) as port:
        for name in held["queries"]:
            answer = _answers(port, f"faultbeam/{name}.json?cluster=alpha&job=700003&_shape=objects")
            assert answer["ok"], name
            assert answer["rows"], name
        for name in (*held["tables"], *views()):
            answer = _answers(port, f"faultbeam/{name}.json?_size=3&_shape=objects")
            assert answer["rows"], name


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
