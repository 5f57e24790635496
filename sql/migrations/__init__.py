"""Migrations, configured in code: no alembic.ini, no env.py.

`upgrade(url)` brings tables to this program's schema and makes the views again, in one transaction: all of it or
nothing. Views are repeatable and never part of a numbered migration, because SQLite cannot alter a table under a
view: they are dropped, the tables migrated, and the views created from `sql/views`.
A new revision is a file `versions/vNNNN_what.py`; a test holds that models and migrated schema are equal.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, delete, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError

from schemas import taxonomy
from sql.dialect import upsert
from sql.engine import connect_error, make_engine, parse_url, shown, sqlite_file
from sql.errors import SchemaBehind
from sql.models import components, meta, metadata
from sql.views import view_statements, views

#: Any number, the same in all programs that migrate: one migration at a time.
_LOCK = 7_302_211


@dataclass(frozen=True, slots=True)
class SchemaState:
    """Where a warehouse stands. `current` is None for an empty database. `advice` is "" where all is well."""

    url: str
    current: str | None
    head: str
    ok: bool
    advice: str
    newer: bool = False  # written by a newer program


def _scripts() -> tuple[Config, ScriptDirectory]:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config, ScriptDirectory.from_config(config)


def head() -> str:
    """The revision that this program works with."""
    revision = _scripts()[1].get_current_head()
    if revision is None:  # pragma: no cover - a broken installation
        msg = "no migrations are installed beside sql/migrations: reinstall faultbeam"
        raise SchemaBehind(msg)
    return revision


def definitions_digest() -> str:
    """Names the views and the taxonomy of this program: where it differs from the stored one, they are made again."""
    h = hashlib.sha256()
    for name, body in views().items():
        h.update(f"{name}\0{body}\0".encode())
    for row in taxonomy.components().values():
        h.update(repr(row).encode())
    return h.hexdigest()[:20]


def _drop_views(connection: Connection) -> None:
    ours = {n for n in inspect(connection).get_view_names() if n == "incidents" or n.startswith("review_")}
    # A view may stand on another one: the known order backwards, then what an older version left.
    known = [name for name in reversed(views()) if name in ours]
    for name in (*known, *sorted(ours - set(known))):
        cascade = " CASCADE" if connection.dialect.name == "postgresql" else ""
        connection.execute(text(f'DROP VIEW IF EXISTS "{name}"{cascade}'))


def _create_views(connection: Connection) -> None:
    for statement in view_statements(connection.dialect.name):
        connection.execute(text(statement))


def _fill(connection: Connection) -> None:
    connection.execute(delete(components))
    connection.execute(
        insert(components),
        [
            {
                "component": c.id,
                "meaning": c.meaning,
                "llama3_row": c.table5_row,
                "domain": c.domain,
                "who_acts": c.who_acts,
                "counts_as": taxonomy.counts_as(c.id),
                "position": position,
            }
            for position, c in enumerate(taxonomy.components().values())
        ],
    )
    connection.execute(upsert(meta, connection.dialect.name), {"name": "definitions", "value": definitions_digest()})


def upgrade_connection(connection: Connection, revision: str = "head") -> None:
    """Migrate inside the caller's transaction. Below head (tests only) no view is made."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    _drop_views(connection)
    config, scripts = _scripts()

    def steps(current: Any, _context: MigrationContext) -> Any:  # noqa: ANN401 - alembic's own types
        return scripts._upgrade_revs(revision, current)

    with EnvironmentContext(config, scripts, fn=steps, destination_rev=revision) as environment:
        environment.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
        environment.run_migrations()
    if revision in ("head", scripts.get_current_head()):
        _create_views(connection)
        _fill(connection)


def upgrade_engine(engine: Engine, revision: str = "head") -> None:
    """Migrate in one transaction of its own."""
    with engine.connect().execution_options(write=True) as connection, connection.begin():
        upgrade_connection(connection, revision)


def state_of(connection: Connection, url: str) -> SchemaState:
    """Compare a connected warehouse with this program."""
    wanted = head()
    current = MigrationContext.configure(connection).get_current_revision()
    if current == wanted:
        stored = connection.execute(select(meta.c.value).where(meta.c.name == "definitions")).scalar()
        if stored == definitions_digest():
            return SchemaState(url, current, wanted, ok=True, advice="")
        advice = f"the views of {url} are of another version: run faultbeam db upgrade"
    elif current is None:
        advice = f"{url} has no faultbeam tables: run faultbeam db upgrade"
    elif current in {script.revision for script in _scripts()[1].walk_revisions()}:
        advice = f"the tables of {url} are at {current}, this program needs {wanted}: run faultbeam db upgrade"
    else:
        advice = f"{url} was written by a newer faultbeam (schema {current}, known {wanted}): upgrade faultbeam"
        return SchemaState(url, current, wanted, ok=False, advice=advice, newer=True)
    return SchemaState(url, current, wanted, ok=False, advice=advice)


def upgrade(url: str) -> SchemaState:
    """Bring the warehouse at `url` to this program's schema. A SQLite file is created where there is none."""
    parsed = parse_url(url)
    engine = make_engine(parsed)
    try:
        with engine.connect() as connection:
            state = state_of(connection, shown(parsed))
        if state.newer:
            raise SchemaBehind(state.advice)
        upgrade_engine(engine)
        with engine.connect() as connection:
            return state_of(connection, shown(parsed))
    except DBAPIError as error:
        raise connect_error(parsed, error) from error
    finally:
        engine.dispose()


def check(url: str) -> SchemaState:
    """Whether the warehouse at `url` is at this program's schema, and what to do if not. Changes nothing."""
    parsed = parse_url(url)
    file = sqlite_file(parsed)
    if file is not None and not file.exists():
        advice = f"{shown(parsed)} does not exist: faultbeam ingest makes it, or run faultbeam db upgrade"
        return SchemaState(shown(parsed), None, head(), ok=False, advice=advice)
    engine = make_engine(parsed)
    try:
        with engine.connect() as connection:
            return state_of(connection, shown(parsed))
    except DBAPIError as error:
        raise connect_error(parsed, error) from error
    finally:
        engine.dispose()
