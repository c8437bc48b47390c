"""Every process of a house on one machine: its command, its environment, its log, how it is asked to stop."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from berth.config import Config
from berth.embedded.children import ChildSpec
from berth.embedded.nodes import AgentNode, agent_nodes, ensure_node
from berth.embedded.paths import Home
from berth.embedded.postgres import Postgres
from berth.embedded.redis import Redis

REPOSITORY = Path(__file__).resolve().parents[3]
SERVICES = ("postgres", "redis", "web", "scheduler", "beat", "agent")


@dataclass(frozen=True)
class House:
    """``config`` with the host and the port that ``up`` was given."""

    config: Config
    host: str
    port: int

    @property
    def home(self) -> Home:
        return Home(self.config.home)

    @property
    def nodes(self) -> list[AgentNode]:
        """Raises ``BadFleet``."""
        return agent_nodes(self.config, self.home)

    def ensure_node(self, node: AgentNode) -> str:
        """The node's token; its row is made when absent."""
        return ensure_node(node, self.config.node_token)

    @property
    def postgres(self) -> Postgres | None:
        """The embedded server; None when BERTH_DATABASE_URL names another."""
        return None if self.config.database_url else Postgres(self.home.postgres)

    @property
    def redis(self) -> Redis | None:
        return None if self.config.redis_url else Redis(self.home.redis)

    @property
    def local_address(self) -> str:
        """HOST:PORT at which processes of this machine reach web."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104  compared, not bound
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """What a person opens."""
        if self.config.public_url:
            return self.config.public_url
        return f"http://{self.local_address.replace('127.0.0.1', 'localhost')}"

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(REPOSITORY / "platform"), str(REPOSITORY)])
        return {
            "BERTH_HOME": str(self.config.home),
            "BERTH_HOST": self.host,
            "BERTH_PORT": str(self.port),
            "BERTH_ROLE": "all",
            "DJANGO_SETTINGS_MODULE": "berth.settings",
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "1",
        }

    def specs(self) -> dict[str, ChildSpec]:
        """The processes that stay, by name."""
        specs = [self._web(), self._scheduler(), self._beat(), *(self._agent(node) for node in self.nodes)]
        if self.postgres is not None:
            specs.insert(0, self._postgres(self.postgres))
        if self.redis is not None:
            specs.insert(1, self._redis(self.redis))
        return {spec.name: spec for spec in specs}

    def job(self, name: str, command: Iterable[str], *, user: str | None = None, cwd: str | None = None) -> ChildSpec:
        """A process that is to end by itself, its stdout in a file of its own below ``run/``."""
        return ChildSpec(
            name=name,
            command=tuple(command),
            log=self.home.log(name),
            environment=self.environment,
            restart=False,
            user=user,
            cwd=cwd or str(REPOSITORY),
            output=self.home.run / f"{name}.out",
        )

    def manage(self, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, str(REPOSITORY / "manage.py"), *arguments)

    def initdb(self) -> ChildSpec:
        assert self.postgres is not None
        return self.job("initdb", self.postgres.init_command, user=self.postgres.user, cwd="/")

    def stop_runtimes(self, state: Path, grace_s: float) -> ChildSpec:
        """Ends the runtimes of an agent's folder; the agent itself must be gone."""
        command = (sys.executable, "-m", "scheduler.node", "--state-dir", str(state))
        return self.job(f"stop-{state.name}", [*command, "--stop-all", "--grace", str(grace_s)])

    def _ours(self, name: str, command: tuple[str, ...], grace_s: float = 5.0) -> ChildSpec:
        return ChildSpec(
            name=name,
            command=command,
            log=self.home.log(name),
            environment=self.environment,
            grace_s=grace_s,
            cwd=str(REPOSITORY),
            version=code_version(),
        )

    def _web(self) -> ChildSpec:
        return self._ours("web", self.manage("serve", "--host", self.host, "--port", str(self.port)))

    def _scheduler(self) -> ChildSpec:
        # Threads: reconcile, ledger and a registration (minutes, mostly waiting for its own process) side by side.
        options = ["-Q", "scheduler", "-n", f"scheduler-{self.port}@%h", "-P", "threads", "-c", "6", "-l", "INFO"]
        alone = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        return self._ours("scheduler", (sys.executable, "-m", "celery", "-A", "berth", "worker", *options, *alone), 4.0)

    def _beat(self) -> ChildSpec:
        files = ["-s", str(self.home.run / "beat-schedule"), "--pidfile", ""]
        return self._ours("beat", (sys.executable, "-m", "celery", "-A", "berth", "beat", *files, "-l", "WARNING"))

    def _agent(self, node: AgentNode) -> ChildSpec:
        command = [sys.executable, "-m", "scheduler.node", "--join", f"ws://{self.local_address}"]
        command += ["--token-file", str(node.token_file), "--name", node.name, "--state-dir", str(node.state)]
        command += ["--provider", self.config.provider]
        if self.config.provider == "simulated":
            command += ["--simulated-file", str(Path(self.config.simulated_file).resolve())]
        return self._ours(node.child, tuple(command))

    def _postgres(self, server: Postgres) -> ChildSpec:
        return ChildSpec(
            name="postgres",
            command=tuple(server.command),
            log=self.home.log("postgres"),
            stop_signal=signal.SIGINT,  # "fast": ends sessions, keeps every commit
            grace_s=8.0,
            user=server.user,
            cwd="/",
            before_start=functools.partial(_clear_postgres, server),
        )

    def _redis(self, server: Redis) -> ChildSpec:
        return ChildSpec(
            name="redis",
            command=tuple(server.command),
            log=self.home.log("redis"),
            cwd="/",
            before_start=functools.partial(_clear_redis, server),
        )


def _clear_postgres(server: Postgres) -> None:
    """A start must find the data free: ends backends of a killed server, or a server that nobody recorded."""
    server.prepare()
    if pid := server.postmaster():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + 5
        while server.postmaster() and time.monotonic() < deadline:
            time.sleep(0.02)
    server.clear_remains()


def _clear_redis(server: Redis) -> None:
    """Redis takes an occupied socket over without a word; two servers would then write one log."""
    server.prepare()
    if pid := server.process():
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 5
        while server.process() and time.monotonic() < deadline:
            time.sleep(0.02)


@functools.cache
def code_version() -> str:
    """Changes when a Python file of ours does: a child of an earlier run is adopted only when it runs this code."""
    trees = (REPOSITORY / "platform", REPOSITORY / "scheduler", REPOSITORY / "gpuruntime")
    return str(max(path.stat().st_mtime_ns for tree in trees for path in tree.rglob("*.py")))
