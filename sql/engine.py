"""Engines for a warehouse URL: SQLite and PostgreSQL with the same behaviour, errors in the words of a person.

SQLite runs with WAL, foreign keys, a busy time-out and real transactions (the driver's own transaction handling
commits before DDL, so it is switched off). A connection with the execution option `write=True` takes SQLite's
write lock at once, so that two writers wait for each other instead of failing half way.
"""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, ProgrammingError
from sqlalchemy.pool import StaticPool

from sql.errors import CannotConnect, DriverMissing
from sql.types import from_json, to_json

#: How long a writer waits for another one, seconds.
BUSY_S = 60


def parse_url(url: str) -> URL:
    """The URL, with `postgres://` as a synonym of `postgresql://` and psycopg as its driver."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        msg = (
            f"not a database URL: {url!r}; write sqlite:///path/to/file.db or "
            "postgresql://user:password@host:5432/database"
        )
        raise CannotConnect(msg) from None
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        msg = f"{parsed.get_backend_name()!r} is not supported as a warehouse: use sqlite:///FILE or postgresql://..."
        raise DriverMissing(msg)
    return parsed


def shown(url: URL) -> str:
    """The URL for messages, without its password."""
    return url.render_as_string(hide_password=True)


def sqlite_file(url: URL) -> Path | None:
    """The file of a SQLite URL; None for one in memory and for PostgreSQL."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))


def make_engine(url: URL) -> Engine:
    """An engine; nothing is connected yet. `DriverMissing` where the driver is not installed."""
    options: dict[str, Any] = {"json_serializer": to_json, "json_deserializer": from_json}
    if url.get_backend_name() == "sqlite":
        options["connect_args"] = {"timeout": BUSY_S, "check_same_thread": False}
        if sqlite_file(url) is None:
            options["poolclass"] = StaticPool
    else:
        options["pool_pre_ping"] = True
    try:
        engine = create_engine(url, **options)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        msg = f"no driver for {shown(url)}: {error}; install faultbeam[postgres]"
        raise DriverMissing(msg) from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _sqlite_connect)
        event.listen(engine, "begin", _sqlite_begin)
    else:
        event.listen(engine, "connect", _postgres_connect)
    return engine


def _sqlite_connect(dbapi: sqlite3.Connection, _record: object) -> None:
    dbapi.isolation_level = None  # transactions are begun below, DDL included
    cursor = dbapi.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    try:
        cursor.execute("SELECT sqrt(4.0)")
    except sqlite3.OperationalError:  # built without mathematical functions
        dbapi.create_function("sqrt", 1, lambda x: None if x is None else math.sqrt(x), deterministic=True)
    cursor.close()


def _sqlite_begin(connection: Connection) -> None:
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _postgres_connect(dbapi: Any, _record: object) -> None:  # noqa: ANN401 - psycopg is optional
    cursor = dbapi.cursor()
    cursor.execute("SET TIME ZONE 'UTC'")
    cursor.close()
    dbapi.commit()


def connect_error(url: URL, error: DBAPIError) -> CannotConnect:
    """A failed connection in words."""
    reason = str(error.orig).strip().splitlines()[0] if error.orig else str(error)
    file = sqlite_file(url)
    if "locked" in reason:
        return CannotConnect(
            f"{shown(url)} is in use: another process has been writing for {BUSY_S} s; wait, or end it"
        )
    if isinstance(error, ProgrammingError):
        return CannotConnect(f"{shown(url)} refused: {reason}; may the user create and change tables there?")
    if file is not None:
        step = f"is {file.parent} a folder that you may write to, and {file.name} a SQLite file?"
    else:
        step = "is the server up, and are host, port, database, user and password right?"
    return CannotConnect(f"cannot connect to {shown(url)}: {reason}; {step}")
