"""Processes that take turns: one runs, the groups of the others are stopped.

An idle engine is not idle: vLLM spins a core while it waits, and on two cores that halves what is being measured.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.common.report import CACHE, say

LOGS = CACHE / "peers" / "logs"
READY_S = 1200.0
STOP_S = 15.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Child(ABC):
    """A process in a session of its own, so that its group is stopped, continued and ended as one."""

    def __init__(
        self, name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None, *, note: str = ""
    ) -> None:
        """``note``: what its start is busy with, said while it is waited for."""
        self.name = name
        self.note = note
        self.log = LOGS / f"{name.replace(' ', '-').replace('/', '-')}.log"
        self._command = [str(part) for part in command]
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[str] | None = None

    @property
    def process(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    def start(self) -> None:
        """Returns when it is ready. Raises ``SystemExit`` with the end of its log when it never is."""
        say(f"starting {self.name}{f' ({self.note})' if self.note else ''}")
        LOGS.mkdir(parents=True, exist_ok=True)
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=self._stdout(log),
                stderr=log,
                text=True,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, no lock taken
            )
        began = time.monotonic()
        self.wait_ready(began + READY_S)
        say(f"  ready after {time.monotonic() - began:.0f} s")

    @abstractmethod
    def wait_ready(self, deadline: float) -> None:
        """Returns once it can be asked, before ``deadline`` (monotonic seconds)."""

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends the whole group; a stopped one must run again to see its SIGTERM."""
        if self._process is None:
            return
        self.resume()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S)
        self._signal(signal.SIGKILL)  # also what outlived its leader
        self._process.wait()

    def fail(self, why: str) -> SystemExit:
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return SystemExit("\n".join([f"{self.name}: {why}; the end of {self.log}:", *lines]))

    def _stdout(self, log: Any) -> Any:
        return log

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class Server(Child):
    """An HTTP server whose path ``health`` answers 200 when it can serve."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        port: int,
        env: Mapping[str, str] | None = None,
        *,
        note: str = "",
        health: str = "/health",
    ) -> None:
        super().__init__(name, command, env, note=note)
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._health = self.url + health

    def wait_ready(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise self.fail(f"ended with exit code {self.process.returncode} before it was ready")
            if self._healthy():
                return
            time.sleep(0.25)
        raise self.fail(f"not ready within {READY_S:.0f} s")

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(self._health, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:  # refused, or 503 while it loads
            return False


class Worker(Child):
    """A process that answers one line of JSON with one line of JSON; its first line says that it is ready."""

    def wait_ready(self, deadline: float) -> None:
        self._read()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self.process.stdin is None:
            raise RuntimeError(f"{self.name} has no stdin")
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.fail("ended") from None
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self.process.stdout.readline() if self.process.stdout is not None else ""
        if not line:
            raise self.fail("ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _stdout(self, log: Any) -> Any:
        return subprocess.PIPE


class Turns:
    """Children of which one runs at a time. Leaving the context ends all, whatever happened."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    def __enter__(self) -> Turns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._children:
            self._children.pop().stop()

    def start(self, child: Child) -> None:
        """Starts a child while the others are stopped."""
        for other in self._children:
            other.pause()
        self._children.append(child)
        child.start()

    def only(self, child: Child) -> None:
        """Lets ``child`` alone run."""
        for other in self._children:
            if other is not child:
                other.pause()
        child.resume()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """In the child before exec: also a killed benchmark leaves no engine behind."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
