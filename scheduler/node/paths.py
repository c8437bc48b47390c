"""Where the agent keeps things, and the small files it writes there: one folder, private to its user."""

from __future__ import annotations

import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,200}")


class UnsafeName(ValueError):
    """A name from a message that must not become part of a path."""


class StateDirTaken(RuntimeError):
    """Another agent works in this folder."""


def safe_name(name: str) -> str:
    """``name`` itself when it may become one component of a path; raises ``UnsafeName`` otherwise."""
    if not _SAFE_NAME.fullmatch(name):
        raise UnsafeName(f"{name!r} cannot be the name of a file")
    return name


@dataclass(frozen=True)
class StateDir:
    """``run/``: run files and process records; ``models/`` by digest; ``spool/``, ``cache/``, ``logs/`` of runtimes."""

    root: Path

    def create(self) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.run, self.logs, self.models, self.root / "spool", self.cache):
            folder.mkdir(mode=0o700, exist_ok=True)

    def lock(self) -> IO[str]:
        """Held while the returned file is open, and let go by the kernel when this process dies."""
        handle = (self.root / "agent.lock").open("a")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            raise StateDirTaken(
                f"another agent works in {self.root}; stop it first or name another --state-dir"
            ) from None
        return handle

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    def run_file(self, replica_id: str) -> Path:
        return self.run / f"{safe_name(replica_id)}.json"

    def record_file(self, replica_id: str) -> Path:
        return self.run / f"{safe_name(replica_id)}.pid"

    def log_file(self, replica_id: str) -> Path:
        return self.logs / f"{safe_name(replica_id)}.log"

    def spool(self, replica_id: str) -> Path:
        return self.root / "spool" / safe_name(replica_id)


def write_atomically(path: Path, content: bytes) -> None:
    """Readers see the old content or the new, never a part; the new one is on disk when this returns."""
    temporary = path.with_name(f".{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)


def boot_id() -> str:
    """Changes with each boot of the kernel: start times and monotonic clocks compare only within one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
