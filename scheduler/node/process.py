"""One runtime process: started so that it cannot be lost, found again after the agent's death, signalled by identity.

The order at a start closes the window in which nobody would know of a process:

    fork -> ProcessRecord on disk -> configuration on stdin, stdin closed -> the runtime writes its RunFile

An agent killed before the record closes the child's stdin: the child reads no configuration and exits. Killed after
it, the next agent finds the record.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import msgspec

from gpuruntime.process import is_process, process_start_time
from gpuruntime.protocol import RunFile
from scheduler.node.paths import StateDir, boot_id, write_atomically

ROTATE_BYTES = 8 << 20
# A runtime learns what it needs from its configuration; of the platform's settings it may see these alone.
RUNTIME_SETTINGS = frozenset({"BERTH_VLLM_BIN", "BERTH_OTLP_ENDPOINT"})


class ProcessRecord(msgspec.Struct, kw_only=True):
    """The agent's own note of a process it answers for.

    ``restarts``: crash restarts in a row. ``drain_since``: ``time.monotonic()``, which processes of one boot share.
    """

    replica_id: str
    pid: int
    start_time: float
    boot_id: str
    restarts: int = 0
    drain_since: float | None = None
    drain_timeout_s: float = 30.0
    device_uuid: str = ""
    slice_id: str = ""
    slice_uuid: str = ""
    memory_bytes: int = 0
    model_digest: str = ""

    def alive(self) -> bool:
        return is_process(self.pid, self.start_time)


def read_record(state: StateDir, replica_id: str) -> ProcessRecord | None:
    """The record of this boot; without one, what the runtime's own run file says, when that process lives."""
    try:
        record = msgspec.json.decode(state.record_file(replica_id).read_bytes(), type=ProcessRecord)
        if record.boot_id == boot_id():
            return record
    except (OSError, msgspec.DecodeError):
        pass
    run = read_run_file(state.run_file(replica_id))
    if run is None or not is_process(run.pid, run.start_time):
        return None
    return ProcessRecord(
        replica_id=replica_id,
        pid=run.pid,
        start_time=run.start_time,
        boot_id=boot_id(),
        memory_bytes=run.memory_bytes,
        model_digest=Path(run.model_path).name,
    )


def write_record(state: StateDir, record: ProcessRecord) -> None:
    write_atomically(state.record_file(record.replica_id), msgspec.json.encode(record))


def read_run_file(path: Path) -> RunFile | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunFile)
    except (OSError, msgspec.DecodeError):
        return None


def forget(state: StateDir, replica_id: str) -> None:
    """Removes what names a dead process; its log stays, and its spool while it holds anything."""
    for path in (state.record_file(replica_id), state.run_file(replica_id)):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        state.spool(replica_id).rmdir()


def known_replicas(state: StateDir) -> list[str]:
    """Every replica that a record or a run file names."""
    return sorted(
        {path.stem for path in state.run.iterdir() if path.suffix in (".json", ".pid") and path.stem[0] != "."}
    )


def spawn(
    state: StateDir,
    record: ProcessRecord,
    command: list[str],
    config: bytes,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts ``command`` in a session of its own, output to the replica's log; completes and writes ``record``.

    ``environment``: what it gets beside the agent's own, of which nothing then steers GPUs. Raises OSError (no such
    program, no process left, disk full); then nothing runs.
    """
    state.run_file(record.replica_id).unlink(missing_ok=True)
    inherited = {
        key: value for key, value in os.environ.items() if not key.startswith("BERTH_") or key in RUNTIME_SETTINGS
    }
    if environment:
        inherited = {key: value for key, value in inherited.items() if not key.startswith("CUDA_")}
    inherited |= {"PYTHONUNBUFFERED": "1", **(environment or {})}
    with _open_log(state.log_file(record.replica_id)) as log:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, env=inherited
        )
    assert child.stdin is not None
    try:
        record.pid = child.pid
        record.start_time = process_start_time(child.pid) or 0.0
        record.boot_id = boot_id()
        write_record(state, record)
        with contextlib.suppress(BrokenPipeError):  # it died at once: its exit is what counts
            child.stdin.write(config)
            child.stdin.close()
    except BaseException:
        child.kill()
        child.wait()
        raise
    return child


def _open_log(path: Path) -> IO[bytes]:
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > ROTATE_BYTES:
            path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def exit_of(child: subprocess.Popen[bytes]) -> str | None:
    """How a child ended, in words; None while it runs. Kills what it left of its session before its pid is freed."""
    ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) if child.returncode is None else None
    if child.returncode is None and ended is None:
        return None
    if ended is not None:
        kill_group(child.pid)
        child.wait()
    code = child.returncode
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def terminate(record: ProcessRecord) -> None:
    """Asks the runtime alone: an engine it started must go on while its streams finish."""
    if record.alive():
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGTERM)


def kill(record: ProcessRecord) -> None:
    if record.alive():
        kill_group(record.pid)


def sweep_session(record: ProcessRecord) -> None:
    """Kills what a dead runtime left in its session. A pid in use again means that the session is empty."""
    if not Path(f"/proc/{record.pid}").exists():
        kill_group(record.pid)


def kill_group(pid: int) -> None:
    if pid > 1:  # 0 would be this process's own group
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def last_log_line(path: Path) -> str:
    """The last line that holds anything, at most 300 characters of it; empty without one."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - 4096))
            lines = handle.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
