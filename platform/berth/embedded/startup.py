"""``manage.py up``: starts a house step by step, watches it, stops it in order.

    lock, disk, port -> PostgreSQL and Redis -> migrations -> web, scheduler, beat, agent, bootstrap at once -> ready

Everything is a process of its own and every wait ticks the supervisor, so that a signal is obeyed at any moment.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import IO, Any

import psycopg
from django.db import DatabaseError

from berth.embedded import lock, preflight
from berth.embedded.children import Child, ChildSpec, State, log_end
from berth.embedded.house import House
from berth.embedded.nodes import AgentNode, kill_runtimes, states_with_runtimes
from berth.embedded.paths import remove_sockets
from berth.embedded.screen import Facts, Screen, open_screen
from berth.embedded.status import Poller
from berth.embedded.supervisor import Supervisor, wait_until

STOP_WITHIN_S = 15.0
RUNTIME_GRACE_S = 5.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


CURL = (
    'curl -N {url}/v1/chat/completions -H "Authorization: Bearer {key}" -d \'{{"model":"smollm2-135m","stream":true,'
    '"temperature":0,"messages":[{{"role":"user","content":"What is the capital of France?"}}]}}\''
)


class Stopping(Exception):
    """A signal asked for the end."""


class StepFailed(RuntimeError):
    """A step of the start did not work; what was started is stopped again."""


class Up:
    """One run. ``run`` returns the exit status: 0 stopped by a signal, 1 a step failed, 2 nothing was started."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.began = time.monotonic()
        self.step = "starting"
        self.facts = Facts(house.url, str(house.home.logs))
        self.poller = Poller(house)
        self._signals = 0
        self._screen: Screen | None = None
        self._supervisor: Supervisor | None = None
        self._lock: IO[str] | None = None
        self._nodes: list[AgentNode] = []

    @property
    def supervisor(self) -> Supervisor:
        assert self._supervisor is not None
        return self._supervisor

    @property
    def screen(self) -> Screen:
        assert self._screen is not None
        return self._screen

    def run(self) -> int:
        for number in SIGNALS:  # installed even where a script that used & left SIGINT ignored
            signal.signal(number, self._on_signal)
        specs = self._check()
        self._screen = open_screen()
        status = 0
        try:
            self._start(specs)
            self._watch()
        except Stopping:
            pass
        except (StepFailed, OSError, RuntimeError, ValueError, psycopg.Error, DatabaseError) as error:
            status = 1
            self._say_failure(error)
        finally:
            self._stop()
        return status

    def _say_failure(self, error: Exception) -> None:
        self.screen.close()
        self.screen.say(f"berth: {error}")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals > 1:
            # Told twice: no order, no grace. Nothing may stay behind, so the runtimes go too.
            if self._supervisor is not None:
                self._supervisor.kill_all()
                if self.house.postgres is not None:
                    self.house.postgres.clear_remains(timeout_s=0)
            kill_runtimes(states_with_runtimes(self.house.home))
            os._exit(128 + number)

    def _tick(self) -> None:
        if self._signals:
            raise Stopping
        self.supervisor.tick()
        self.screen.show(self.supervisor.children, self.poller.view, self.facts, self.step)

    # -- before anything is started

    def _check(self) -> dict[str, ChildSpec]:
        """Raises ``CannotStart`` or ``AlreadyRunning``; then nothing was started and nothing that runs was touched."""
        home = self.house.home
        preflight.make_home(self.house)
        self._nodes = self.house.nodes
        self._lock = lock.hold(home.lock, home.root)
        preflight.check_disk(home.root)
        preflight.check_given_services(self.house.config.database_url, self.house.config.redis_url)
        specs = self.house.specs()
        self._supervisor = Supervisor(home.state)
        self._supervisor.clear_remains(specs)
        if not self._supervisor.adoptable("web"):
            preflight.check_port(self.house.host, self.house.port)
        return specs

    # -- the steps

    def _start(self, specs: dict[str, ChildSpec]) -> None:
        self._start_services(specs)
        self._migrate()
        for node in self._nodes:
            write_secret(node.token_file, self.house.ensure_node(node))
        for name in ("web", "scheduler", "beat", *(node.child for node in self._nodes)):
            self.supervisor.add(specs[name])
        self.poller.start()
        self._bootstrap()
        self.step = "waiting for the first replica"

    def _start_services(self, specs: dict[str, ChildSpec]) -> None:
        self.step = "starting PostgreSQL and Redis"
        if self.house.redis is not None:
            self.supervisor.add(specs["redis"])
        if (postgres := self.house.postgres) is not None:
            postgres.prepare()
            if not postgres.initialised:
                self.step = "creating the database"
                self._run_job(self.house.initdb(), timeout_s=120)
            child = self.supervisor.add(specs["postgres"])
            self._wait(child, postgres.ready, timeout_s=60)
            postgres.create_database()
        if (redis := self.house.redis) is not None:
            self._wait(self.supervisor.children["redis"], redis.ready, timeout_s=60)

    def _wait(self, child: Child, ready: Callable[[], bool], *, timeout_s: float) -> None:
        def failed() -> str:
            return f"died {child.restarts + 1} times ({child.last_exit})" if child.restarts >= 3 else ""

        if why := wait_until(ready, self._tick, timeout_s=timeout_s, failed=failed):
            raise StepFailed(f"{child.spec.name} does not start: {why}.{last_lines(child.spec.log)}")

    def _migrate(self) -> None:
        if needs_migration():
            self.step = "migrating the database"
            self._run_job(self.house.job("migrate", self.house.manage("migrate", "--noinput")), timeout_s=600)

    def _bootstrap(self) -> None:
        """The operator, the demo tenant, its model, deployment and key. Idempotent."""
        self.step = "preparing the demo model (the first time: fetched and converted)"
        made = json.loads(self._run_job(self.house.job("bootstrap", self.house.manage("bootstrap")), timeout_s=3600))
        self.poller.demo = made["deployment"] or ""
        self.facts.notes = notes(made, self.facts.url, self.house.home.secrets)

    def _run_job(self, spec: ChildSpec, *, timeout_s: float) -> str:
        """Runs ``spec`` to its end and returns its stdout. Raises ``StepFailed``."""
        job = self.supervisor.add(spec)
        assert spec.output is not None
        why = wait_until(lambda: job.state is State.ENDED, self._tick, timeout_s=timeout_s)
        if why or job.exit_code:
            raise StepFailed(f"{spec.name} failed: {why or job.last_exit}.{last_lines(spec.log)}")
        self.supervisor.forget(spec.name)
        output = spec.output.read_text()
        spec.output.unlink()  # it may hold a password or a key
        return output

    def _watch(self) -> None:
        said = False
        while True:
            self._tick()
            if not said and self.poller.view.ready:
                said = True
                took = time.monotonic() - self.began
                self.step = f"ready after {took:.1f} s"
                self.screen.say(f"Berth is ready in {took:.1f} s: {self.facts.url}")
                self.poller.eager = False
            time.sleep(0.05)

    # -- the end

    def _stop(self) -> None:
        """In order, within ``STOP_WITHIN_S``; what is left then is killed. Leaves no process behind."""
        self.screen.show(self.supervisor.children, self.poller.view, self.facts, self.step)  # a key not yet shown
        self.screen.close()
        self.screen.say("Stopping ... (Ctrl-C again kills at once)")
        self.poller.stop()
        deadline = time.monotonic() + STOP_WITHIN_S
        lasting = ("web", "scheduler", "redis", "postgres")  # jobs, beat and agents go first
        self.supervisor.stop([name for name in self.supervisor.children if name not in lasting], deadline)
        self._stop_runtimes(deadline - 6)
        for name in lasting:
            self.supervisor.stop([name], deadline)
        self.supervisor.stop_all(deadline)
        if self.house.postgres is not None:
            self.house.postgres.clear_remains(timeout_s=0)
        remove_sockets(self.house.home.postgres)
        remove_sockets(self.house.home.redis)
        for path in self.house.home.run.glob("*.out"):
            path.unlink(missing_ok=True)
        self.screen.say("Stopped. The next run finds everything as it was.")

    def _stop_runtimes(self, deadline: float) -> None:
        states = states_with_runtimes(self.house.home)
        jobs = [self.supervisor.add(self.house.stop_runtimes(state, RUNTIME_GRACE_S)) for state in states]
        while time.monotonic() < deadline and any(job.state is not State.ENDED for job in jobs):
            for job in jobs:
                job.poll()
            time.sleep(0.02)
        kill_runtimes(states)


def needs_migration() -> bool:
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    try:
        executor = MigrationExecutor(connection)
        return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    finally:
        connection.close()


def last_lines(log: Path, count: int = 3) -> str:
    """The end of a log for an error message, with where the rest is."""
    return "\n  " + "\n  ".join([*log_end(log, count), f"(all of it: {log})"])


def write_secret(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(path)


def notes(made: dict[str, Any], url: str, secrets: Path) -> list[str]:
    """Sign-in, key and curl line. A password and a key are in ``made`` only in the run that created them."""
    operator, member, model, key = made["operator"], made.get("member"), made.get("model"), made.get("key")
    lines = [f"Console   {url}"]
    if operator.get("password"):
        lines.append(f"Sign in   {operator['email']}  password {operator['password']}")
    else:
        reset = f"another: manage.py reset_password {operator['email']}"
        lines.append(f"Sign in   {operator['email']}  (first password: {secrets / 'operator_password'}; {reset})")
    if member:
        lines.append(f"Tenant    {member['email']}  password {member['password']}")
    if key:
        lines.append(f"Demo key  {key}  (shown this once)")
    if model and model["state"] == "failed":
        lines.append(f"The demo model could not be registered: {model['reason']}. The next run tries again.")
    lines.append(CURL.format(url=url, key=key or "$KEY"))
    return lines
