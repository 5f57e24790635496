"""Migrations on both databases: from the first revision to the head, models equal to the schema, views repeatable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import insert, inspect, select, text, update
from sqlalchemy.exc import DBAPIError

from schemas.taxonomy import components as taxonomy
from sql import migrations, models
from sql.engine import make_engine, parse_url
from sql.errors import CannotConnect, DriverMissing, SchemaBehind
from sql.migrations import check, head, upgrade, upgrade_engine
from sql.store import Store, open_store
from sql.views import view_statements, views

REVISIONS = ["0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010"]


def _views(connection) -> set[str]:
    return set(inspect(connection).get_view_names())


def test_revisions_are_one_line_and_end_at_the_head() -> None:
    scripts = migrations._scripts()[1]
    found = [script.revision for script in scripts.walk_revisions()]
    assert found[::-1] == REVISIONS
    assert head() == REVISIONS[-1]


def test_from_the_first_revision_to_the_head(url: str) -> None:
    engine = make_engine(parse_url(url))
    for revision in REVISIONS:
        upgrade_engine(engine, revision)
        with engine.connect() as connection:
            assert MigrationContext.configure(connection).get_current_revision() == revision
            assert bool(_views(connection)) is (revision == REVISIONS[-1])
    engine.dispose()
    assert check(url).ok


def test_models_and_migrated_schema_are_equal(url: str) -> None:
    upgrade(url)
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, models.metadata) == []
        tables = set(inspect(connection).get_table_names())
        missing_keys = {
            name: inspect(connection).get_pk_constraint(name)["constrained_columns"]
            for name in models.metadata.tables
            if inspect(connection).get_pk_constraint(name)["constrained_columns"]
            != [c.name for c in models.metadata.tables[name].primary_key]
        }
    engine.dispose()
    assert tables == {*models.metadata.tables, "alembic_version"}
    assert missing_keys == {}


def test_rows_survive_a_migration(url: str) -> None:
    engine = make_engine(parse_url(url))
    upgrade_engine(engine, "0001")
    with engine.begin() as connection:
        connection.execute(insert(models.meta), {"name": "ruleset", "value": "7"})
    engine.dispose()
    with pytest.raises(SchemaBehind, match="at 0001, this program needs 0010: run faultbeam db upgrade"):
        open_store(url)
    upgrade(url)
    with open_store(url) as store:
        assert store.get_meta("ruleset") == "7"


def test_upgrade_again_changes_nothing(url: str) -> None:
    first = upgrade(url)
    assert first.ok
    assert upgrade(url) == first
    with open_store(url) as store, store.reading() as connection:
        assert _views(connection) == set(views())
        rows = connection.execute(select(models.components.c.component).order_by(models.components.c.position))
        assert [c for (c,) in rows] == list(taxonomy())


def test_views_of_another_version_are_made_again(url: str) -> None:
    upgrade(url)
    engine = make_engine(parse_url(url))
    with engine.begin() as connection:
        connection.execute(text("CREATE VIEW review_of_old AS SELECT incident_id FROM incidents"))
        connection.execute(update(models.meta).where(models.meta.c.name == "definitions").values(value="older"))
    state = check(url)
    assert not state.ok
    assert "views" in state.advice
    assert "faultbeam db upgrade" in state.advice
    assert upgrade(url).ok
    with engine.connect() as connection:
        assert _views(connection) == set(views())
    engine.dispose()


def test_a_failing_upgrade_leaves_all_as_it_was(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine(parse_url(url))
    upgrade_engine(engine, "0002")
    broken = ["CREATE VIEW review_x AS SELECT 1 AS a", "INSERT INTO no_such_table VALUES (1)"]
    monkeypatch.setattr(migrations, "view_statements", lambda _: broken)
    with pytest.raises(DBAPIError, match="no_such_table"):
        upgrade_engine(engine)
    monkeypatch.undo()
    with engine.connect() as connection:
        assert MigrationContext.configure(connection).get_current_revision() == "0002"
        assert _views(connection) == set()
        assert not inspect(connection).has_table("labels")
    engine.dispose()
    assert upgrade(url).ok


def test_a_newer_schema_is_refused(url: str) -> None:
    upgrade(url)
    engine = make_engine(parse_url(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    assert "newer faultbeam" in check(url).advice
    for opening in (lambda: upgrade(url), lambda: open_store(url), lambda: open_store(url, create=True)):
        with pytest.raises(SchemaBehind, match=r"9999.*upgrade faultbeam"):
            opening()


def test_an_empty_database_says_what_to_do(url: str) -> None:
    state = check(url)
    assert not state.ok
    assert state.current is None
    assert "faultbeam db upgrade" in state.advice


def test_sqlite_is_made_by_ingest_and_only_by_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    with pytest.raises(CannotConnect, match=r"no warehouse at .*new\.db: make one with faultbeam ingest"):
        open_store(url)
    assert not (tmp_path / "new.db").exists()
    with open_store(url, create=True) as store:
        assert store.stats()["signals"] == 0
    with open_store(url) as store:
        assert store.latest_ingest() is None


def test_an_old_sqlite_file_is_upgraded_by_ingest(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    engine = make_engine(parse_url(url))
    upgrade_engine(engine, "0001")
    engine.dispose()
    with open_store(url, create=True):
        pass
    assert check(url).ok


def test_postgres_is_not_upgraded_behind_anybodys_back(postgres_url: str) -> None:
    with pytest.raises(SchemaBehind, match="has no faultbeam tables: run faultbeam db upgrade"):
        open_store(postgres_url, create=True)


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ("mysql://u:p@h/d", DriverMissing, "'mysql' is not supported"),
        ("oops", CannotConnect, "not a database URL: 'oops'"),
        ("postgresql+nodriver://u@h/d", DriverMissing, "nodriver"),
        ("postgresql://u:secret@127.0.0.1:1/d", CannotConnect, "is the server up"),
        ("sqlite:////nonexistent/folder/x.db", CannotConnect, "is /nonexistent/folder a folder"),
    ],
)
def test_what_cannot_be_opened_is_said(bad: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        open_store(bad, create=True)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("this is a log, not a database, and it is longer than a header\n" * 50)
    with pytest.raises(CannotConnect, match=r"not a database.*x\.db a SQLite file"):
        open_store(f"sqlite:///{tmp_path / 'x.db'}")


def test_postgres_is_a_synonym() -> None:
    assert parse_url("postgres://u@h/d").drivername == "postgresql+psycopg"
    assert parse_url("postgresql://u@h/d").drivername == "postgresql+psycopg"


def test_every_view_says_what_it_is_and_keeps_to_the_names() -> None:
    for name, body in views().items():
        assert name == "incidents" or name.startswith("review_")
        assert body.startswith("-- "), f"{name}.sql has no comment"
    for dialect in ("sqlite", "postgresql"):
        for statement in view_statements(dialect):
            assert "@" not in statement


def test_every_view_can_be_read(store: Store) -> None:
    with store.reading() as connection:
        for name in views():
            assert connection.execute(text(f"SELECT * FROM {name}")).all() == []


def test_memory_warehouse() -> None:
    with open_store("sqlite://", create=True) as store:
        store.set_meta("ruleset", "3")
        assert store.get_meta("ruleset") == "3"


def test_a_user_who_may_not_create_tables_is_told(postgres_url: str) -> None:
    engine, role = make_engine(parse_url(postgres_url)), f"fb_reader_{os.getpid()}"
    with engine.begin() as connection:
        connection.execute(text("REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
        connection.execute(text(f"CREATE ROLE {role} LOGIN"))
    reader = engine.url.set(username=role).render_as_string(hide_password=False)
    try:
        with pytest.raises(CannotConnect, match=r"refused: .*permission denied.*create and change tables"):
            upgrade(reader)
    finally:
        with engine.begin() as connection:
            connection.execute(text(f"DROP ROLE {role}"))
        engine.dispose()


def test_a_warehouse_in_use_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sql.engine.BUSY_S", 0)
    url = f"sqlite:///{tmp_path / 'w.db'}"
    with open_store(url, create=True) as one, open_store(url) as two, one.writing():
        assert two.get_meta("ruleset") is None  # readers are never held up
        with pytest.raises(CannotConnect, match="in use: another process"):
            two.set_meta("ruleset", "2")
