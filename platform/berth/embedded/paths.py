"""Where everything of one house lies: the layout of BERTH_HOME and the sockets of its private services."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from berth.config import CONFIG

POSTGRES_DATABASE = "berth"


@dataclass(frozen=True)
class Home:
    """BERTH_HOME. ``postgres`` may belong to another user, so ``root`` is 0711; all the rest is 0700."""

    root: Path

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def secrets(self) -> Path:
        return replace(CONFIG, home=self.root).secrets

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def redis(self) -> Path:
        return self.root / "redis"

    @property
    def node(self) -> Path:
        """The state folder of the agent on this machine: run files, logs and models of its runtimes."""
        return self.root / "node"

    @property
    def lock(self) -> Path:
        return self.run / "up.lock"

    @property
    def state(self) -> Path:
        """The children of ``manage.py up``, for the next one after a ``kill -9``."""
        return self.run / "up.json"

    @property
    def nodes(self) -> Path:
        """The same for each node of a simulated fleet, by name."""
        return self.root / "nodes"

    def node_token(self, node: str) -> Path:
        return self.secrets / f"node_token_{node}"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def create(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o711)
        for folder in (self.run, self.logs, self.secrets, self.node):
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)


def socket_path(directory: Path) -> Path:
    """The folder for the sockets of the service in ``directory``: short, since a socket's path ends at 107 bytes."""
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"berth-{os.getuid()}-{name}"


def socket_directory(directory: Path, owner: int | None = None) -> Path:
    """Makes ``socket_path(directory)``, private to ``owner`` (a user id). Raises ``PermissionError`` when another's."""
    path = socket_path(directory)
    path.mkdir(mode=0o700, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid not in {os.getuid(), owner if owner is not None else os.getuid()}:
        raise PermissionError(f"{path} belongs to another user; remove it")
    if owner is not None and owner != os.getuid():
        os.chown(path, owner, -1)
    return path


def remove_sockets(directory: Path) -> None:
    """Removes the folder of ``socket_path`` when its service left nothing in it."""
    with contextlib.suppress(OSError):
        socket_path(directory).rmdir()


def postgres_url(home: Path, database: str = POSTGRES_DATABASE) -> str:
    """The embedded PostgreSQL of ``home``, whether it runs or not."""
    return f"postgresql://postgres@/{database}?host={socket_path(Home(home).postgres)}"


def redis_url(home: Path) -> str:
    """The embedded Redis of ``home``, whether it runs or not."""
    return f"unix://{socket_path(Home(home).redis)}/redis.sock"
