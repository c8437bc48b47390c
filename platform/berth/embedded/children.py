"""One child process of ``up``: started so that it cannot be lost, watched, started again when it dies.

The order at a start closes the window in which nobody would know of a process:

    fork -> record on disk -> "go" on the child's stdin -> the child becomes its command

An ``up`` killed before "go" closes that pipe, and the child ends without having become anything.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from berth.embedded.statefile import Record, boot_id
from gpuruntime.process import is_process, process_start_time

FIRST_BACKOFF_S = 0.5
LAST_BACKOFF_S = 15.0
STEADY_AFTER_S = 30.0  # a child that ran this long is well again: its next death starts the backoff anew
ROTATE_BYTES = 8 << 20
_GATE = ["/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "child"]


class State(enum.StrEnum):
    RUNNING = "running"
    BACKOFF = "backoff"  # died, waits to be started again
    ENDED = "ended"  # died and is not to be started again, or never started
    STOPPED = "stopped"  # on purpose


@dataclass(frozen=True)
class ChildSpec:
    """What to run. ``version`` joins the fingerprint: a child of the last run that runs older code is not adopted."""

    name: str
    command: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: signal.Signals = signal.SIGTERM
    grace_s: float = 5.0
    restart: bool = True
    user: str | None = None
    cwd: str | None = None
    version: str = ""
    output: Path | None = None  # stdout apart from the log: a job's answer
    before_start: Callable[[], None] | None = None

    @property
    def fingerprint(self) -> str:
        parts = [*self.command, self.version, *(f"{key}={value}" for key, value in sorted(self.environment.items()))]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class Child:
    """``spec`` as a process. ``record`` names it by pid and start time; an adopted one has no ``Popen``."""

    def __init__(self, spec: ChildSpec, on_change: Callable[[], None]) -> None:
        self.spec = spec
        self.state = State.ENDED
        self.record: Record | None = None
        self.restarts = 0
        self.since = time.monotonic()
        self.last_exit = ""
        self.exit_code: int | None = None
        self._on_change = on_change
        self._process: subprocess.Popen[bytes] | None = None
        self._backoff_s = FIRST_BACKOFF_S
        self._next_start = 0.0

    @property
    def alive(self) -> bool:
        return self.record is not None and self.record.alive()

    def start(self) -> None:
        """Raises OSError when the system cannot start it (no such program, disk full)."""
        if self.spec.before_start is not None:
            self.spec.before_start()
        rotate(self.spec.log)
        with self.spec.log.open("ab") as log, contextlib.ExitStack() as stack:
            output = stack.enter_context(self.spec.output.open("wb")) if self.spec.output else log
            identity = pwd.getpwnam(self.spec.user) if self.spec.user else None
            self._process = subprocess.Popen(
                [*_GATE, *self.spec.command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.spec.environment},
                cwd=self.spec.cwd,
                user=identity.pw_uid if identity else None,
                group=identity.pw_gid if identity else None,
                extra_groups=[] if identity else None,
            )
        self._adopt_identity(self._process.pid)
        self._on_change()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"go\n")
            self._process.stdin.close()

    def _adopt_identity(self, pid: int) -> None:
        started = process_start_time(pid) or 0.0
        self.record = Record(self.spec.name, pid, started, boot_id(), self.spec.fingerprint)
        self.state = State.RUNNING
        self.since = time.monotonic()

    def adopt(self, record: Record) -> None:
        """Takes over a process that an earlier ``up`` started and left."""
        self.record = record
        self.state = State.RUNNING
        self.since = time.monotonic() - max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - record.start_time)

    def poll(self) -> None:
        """Sees a death and, when due, starts it again. Never blocks."""
        if self.state is State.RUNNING and (how := self._ended()):
            self._note_death(how)
        elif self.state is State.BACKOFF and time.monotonic() >= self._next_start:
            self.restarts += 1
            try:
                self.start()
            except OSError as error:
                self._note_death(str(error))

    def _note_death(self, how: str) -> None:
        ran_s = time.monotonic() - self.since
        said = log_end(self.spec.log, 1) if how.startswith("exit code") else []
        self.last_exit = ": ".join([how, *(line[:160] for line in said)])
        self.since = time.monotonic()
        if not self.spec.restart:
            self.state = State.ENDED
        else:
            if ran_s > STEADY_AFTER_S:
                self._backoff_s = FIRST_BACKOFF_S
            self.state = State.BACKOFF
            self._next_start = time.monotonic() + self._backoff_s
            self._backoff_s = min(self._backoff_s * 2, LAST_BACKOFF_S)
        self._on_change()

    def _ended(self) -> str:
        """How it ended, empty while it runs. What it left in its session is killed before its pid is freed."""
        assert self.record is not None
        if self._process is None:
            if self.record.alive():
                return ""
            if not Path(f"/proc/{self.record.pid}").exists():
                kill_group(self.record.pid)
            return "gone"
        if self._process.returncode is None:
            if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                return ""
            kill_group(self._process.pid)
            self._process.wait()
        self.exit_code = code = self._process.returncode
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"

    def ask_to_stop(self) -> None:
        """The polite signal, to the process alone. From here on a death is meant."""
        was, self.state = self.state, State.STOPPED
        if was is State.RUNNING and self.alive:
            assert self.record is not None
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.record.pid, self.spec.stop_signal)

    def gone(self) -> bool:
        """After ``ask_to_stop`` or ``kill``: whether it ended (reaped, its session swept)."""
        if self.record is None or self._ended():
            self.record = None
            return True
        return False

    def kill(self) -> None:
        """The process and all of its session, at once."""
        self.state = State.STOPPED
        if self.alive:
            assert self.record is not None
            kill_group(self.record.pid)


def kill_group(pid: int) -> None:
    if pid > 1:  # 0 would be this process's own group
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def end_record(record: Record, grace_s: float) -> None:
    """Ends a process of an earlier run that is not to be adopted; returns when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        if record.alive():
            os.kill(record.pid, signal.SIGINT if record.name == "postgres" else signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while record.alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    if record.alive():
        kill_group(record.pid)
    while is_process(record.pid, record.start_time):
        time.sleep(0.01)
    if not Path(f"/proc/{record.pid}").exists():
        kill_group(record.pid)


def log_end(log: Path, count: int) -> list[str]:
    """The last ``count`` lines that hold anything; none of a log that cannot be read."""
    try:
        with log.open("rb") as handle:
            handle.seek(max(0, log.stat().st_size - 8192))
            lines = handle.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()][-count:]


def rotate(log: Path, limit: int = ROTATE_BYTES) -> None:
    """Moves a log that grew past ``limit`` bytes to NAME.log.1; one old log is kept."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > limit:
            log.replace(log.with_name(log.name + ".1"))
