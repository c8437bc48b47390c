"""``up`` as a process of its own, told to stop at every moment and in every way; nothing may be left behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from berth.embedded.paths import socket_path
from berth.embedded.postgres import Postgres
from berth.embedded.redis import Redis
from gpuruntime.process import process_start_time
from helpers.patience import PATIENCE_S

SCRIPT = Path(__file__).with_name("small_house.py")
SERVICES = {"postgres", "redis", "web", "scheduler", "beat", "agent"}


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "took too long"
        time.sleep(0.02)


class Run:
    """A folder with one or more ``up`` in it; every process carries a mark in its environment."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.mark = uuid.uuid4().hex
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._started: list[subprocess.Popen[str]] = []

    def up(self, *options: str, through: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
        command = [*through, sys.executable, str(SCRIPT), str(self.home), str(self.port), *options]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**environment, "UP_TEST_MARK": self.mark},
        )
        self._started.append(process)
        return process

    def pids(self) -> dict[str, int]:
        """The services' processes as ``up`` recorded them; jobs of the start come and go beside them."""
        try:
            children = json.loads((self.home / "run" / "up.json").read_text())["children"]
        except (OSError, ValueError):
            return {}
        return {name: record["pid"] for name, record in children.items() if name in SERVICES}

    def wait_started(self) -> dict[str, int]:
        until(lambda: set(self.pids()) == SERVICES)
        until(lambda: Redis(self.home / "redis").ready() and Postgres(self.home / "postgres").ready())
        return self.pids()

    def left(self) -> list[int]:
        """Live processes of this folder, whoever their parent is."""
        marked = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                # PostgreSQL and Redis write their titles over their environment: they are known by their folder.
                here = entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(self.home)
                if here or (entry.name.isdigit() and self.mark.encode() in (entry / "environ").read_bytes()):
                    marked.append(int(entry.name))
        return marked + Postgres(self.home / "postgres").processes()

    def clean(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for service in ("postgres", "redis"):
            shutil.rmtree(socket_path(self.home / service), ignore_errors=True)


@pytest.fixture
def run() -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="berth-up-", ignore_cleanup_errors=True) as folder:
        house = Run(Path(folder) / "var")
        try:
            yield house
        finally:
            house.clean()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything_in_order(run: Run, number: signal.Signals) -> None:
    process = run.up()
    run.wait_started()
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert "Stopped." in output
    assert run.left() == []
    assert not (run.home / "run" / "up.json").exists()


def test_sigint_works_where_a_script_left_it_ignored(run: Run) -> None:
    process = run.up(through=("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh"))
    run.wait_started()
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0
    assert run.left() == []


@pytest.mark.parametrize("delay_s", [0.6, 1.0, 1.6])
def test_ctrl_c_during_the_start_leaves_nothing(run: Run, delay_s: float) -> None:
    process = run.up()
    time.sleep(delay_s)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert run.left() == []


def test_the_next_run_starts_after_an_interrupted_first_one(run: Run) -> None:
    process = run.up()
    until((run.home / "postgres").exists)  # initdb is at work
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    run.up()
    assert set(run.wait_started()) == SERVICES


def test_ctrl_c_twice_kills_at_once(run: Run) -> None:
    process = run.up("stubborn")
    run.wait_started()
    until(lambda: "deaf" in (run.home / "logs" / "web.log").read_text())
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + signal.SIGINT
    until(lambda: not run.left())


def test_a_child_that_ignores_its_signal_is_killed_after_its_grace(run: Run) -> None:
    process = run.up("stubborn")
    run.wait_started()
    until(lambda: "deaf" in (run.home / "logs" / "web.log").read_text())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert run.left() == []


def test_a_second_run_in_one_folder_is_refused_and_harms_nothing(run: Run) -> None:
    first = run.up()
    before = run.wait_started()
    second = run.up()
    output, _ = second.communicate(timeout=10)
    assert second.returncode == 2
    assert str(first.pid) in output
    assert str(run.home) in output
    assert run.pids() == before
    assert first.poll() is None


def test_a_taken_port_is_named_and_nothing_is_started(run: Run) -> None:
    with socket.create_server(("127.0.0.1", run.port)):
        process = run.up()
        output, _ = process.communicate(timeout=10)
    assert process.returncode == 2
    assert str(run.port) in output
    assert "--port" in output
    assert output.count("\n") == 1
    assert not (run.home / "postgres").exists()
    assert run.left() == []


def test_after_kill_9_the_children_go_on_and_the_next_run_adopts_them(run: Run) -> None:
    first = run.up()
    before = run.wait_started()
    first.kill()
    first.wait()
    time.sleep(0.3)
    assert {name for name, pid in before.items() if process_start_time(pid)} == SERVICES
    os.kill(before["beat"], signal.SIGKILL)  # one that died meanwhile is started anew
    second = run.up()
    until(lambda: run.pids().get("beat") not in (None, before["beat"]))
    after = run.wait_started()
    assert {name for name in SERVICES if after[name] == before[name]} == SERVICES - {"beat"}
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=PATIENCE_S)
    assert run.left() == []


def test_what_an_older_run_left_with_other_settings_is_cleared(run: Run) -> None:
    first = run.up()
    before = run.wait_started()
    first.kill()
    first.wait()
    run.up("stubborn")  # another command for web
    until(lambda: run.pids().get("web") not in (None, before["web"]))
    after = run.wait_started()
    assert process_start_time(before["web"]) is None
    assert after["postgres"] == before["postgres"]


@pytest.mark.parametrize("service", ["postgres", "redis", "agent"])
def test_a_service_that_dies_is_started_again(run: Run, service: str) -> None:
    run.up()
    before = run.wait_started()
    os.kill(before[service], signal.SIGKILL)
    until(lambda: run.pids().get(service) not in (None, before[service]))
    after = run.wait_started()
    assert {name for name in SERVICES if after[name] != before[name]} == {service}


def test_secrets_are_kept_private_and_shown_once(run: Run) -> None:
    process = run.up()
    assert process.stdout is not None
    output = ""
    while "curl -N" not in output:
        line = process.stdout.readline()
        assert line, output
        output += line
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert "key_1.secret" in output
    assert "first-password" in output
    token = run.home / "secrets" / "node_token_local"
    assert token.read_text() == "node-token"
    assert token.stat().st_mode & 0o777 == 0o600
    everything = [path for folder in ("run", "logs") for path in (run.home / folder).iterdir() if path.is_file()]
    assert not [path for path in everything if b"secret" in path.read_bytes() or b"first-password" in path.read_bytes()]
