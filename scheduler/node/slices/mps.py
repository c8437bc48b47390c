"""One MPS daemon for one GPU: started, asked, ended. What it says when asked is what counts.

Commands go to its control program on stdin (NVIDIA's MPS documentation, version 2 of the commands). Clients find the
daemon by the folder of its pipes, and a client that does not find it runs without MPS and without limits, silently:
so a runtime is given that folder, and the GPU is set to one process, the server, so that nobody else gets in.
Where the driver has static partitions of SMs (CUDA 13.1), each slice gets one of its own; found out by trying.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuruntime.protocol import Device, SliceSpec
from scheduler.geometry.boards import UnknownBoard, board

PROGRAM = "nvidia-cuda-mps-control"
ASK_S = 10.0
_REFUSED = re.compile(r"cannot find MPS control daemon|unknown command|invalid|not supported|failed", re.IGNORECASE)
# Sockets have paths of at most 107 characters, and the daemon puts its own below the folder.
_LONGEST_FOLDER = 80
_PARTITIONED = "partitions"


class MpsError(RuntimeError):
    """No daemon answers, or it refused; the text is its own."""


def program_of(provider: str) -> tuple[str, ...] | None:
    """The control program of this machine: BERTH_MPS_CONTROL, or the one on PATH; None without one. Simulated GPUs have
    one of ours, which speaks the same.
    """
    named = os.environ.get("BERTH_MPS_CONTROL", "")
    if named:
        found = shutil.which(named)
        return (found,) if found else None
    if provider == "simulated":
        return (sys.executable, "-S", "-E", str(Path(__file__).parents[1] / "simulated_mps.py"))
    found = shutil.which(PROGRAM)
    return (found,) if found else None


class MpsControl:
    """``root``: below which the daemon of each GPU has a folder of its own for its pipes and its log."""

    def __init__(self, program: Sequence[str], root: Path, device_uuid: str) -> None:
        self.program = tuple(program)
        self._device_uuid = device_uuid
        self._root = root
        self.folder = _folder(root, device_uuid)

    @property
    def environment(self) -> dict[str, str]:
        """By which a client finds it."""
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.folder / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.folder / "log"),
        }

    @property
    def partitioned(self) -> bool:
        return (self.folder / _PARTITIONED).exists()

    def start(self) -> None:
        """With static partitions where it takes them. Raises ``MpsError``."""
        for folder in (self.folder.parent, self.folder, self.folder / "pipe", self.folder / "log"):
            _make_private(folder)
        marker = self.folder / _PARTITIONED
        marker.unlink(missing_ok=True)
        with contextlib.suppress(MpsError):
            self._run(["-d", "-S"])
            self.ask("lspart")
            marker.touch()
            return
        with contextlib.suppress(MpsError):
            self.ask("quit")
        self._run(["-d"])
        self.check()

    def check(self) -> None:
        """Raises ``MpsError`` unless it answers as a daemon that takes clients does."""
        answer = self.ask("get_default_active_thread_percentage")
        if not re.search(r"\d", answer):
            raise MpsError(f"it answered {answer[:80]!r} when asked for its default percentage")
        for server in self.ask("get_server_list").split():
            if server.isdigit() and "FAULT" in self.ask(f"get_server_status {server}").upper():
                raise MpsError(f"its server {server} is in the state FAULT until every client has ended")

    def quit(self) -> None:
        """No error when it is gone already."""
        with contextlib.suppress(MpsError):
            self.ask("quit")
        (self.folder / _PARTITIONED).unlink(missing_ok=True)
        if not self.folder.is_relative_to(self._root):
            shutil.rmtree(self.folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # another GPU's daemon still has its folder there
                self.folder.parent.rmdir()

    def ask(self, command: str) -> str:
        """What it answers to one command. Raises ``MpsError``."""
        return self._run([], command)

    def partitions(self) -> set[str]:
        return set(re.findall(rf"{re.escape(self._device_uuid)}/\S+", self.ask("lspart")))

    def add_partition(self, chunks: int) -> str:
        answer = self.ask(f"sm_partition add {self._device_uuid} {chunks}")
        found = re.search(rf"{re.escape(self._device_uuid)}/\S+", answer)
        if found is None:
            raise MpsError(f"it answered {answer[:80]!r} to sm_partition add")
        return found.group()

    def remove_partition(self, partition: str) -> None:
        self.ask(f"sm_partition rm {partition}")

    def _run(self, arguments: list[str], command: str = "") -> str:
        environment = {**_environment(), **self.environment, "CUDA_VISIBLE_DEVICES": self._device_uuid}
        # A file, not a pipe: a daemon that kept a pipe open would never let it end.
        with tempfile.TemporaryFile() as out:
            try:
                done = subprocess.run(
                    [*self.program, *arguments],
                    input=f"{command}\n".encode() if command else b"",
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=ASK_S,
                    env=environment,
                    start_new_session=True,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise MpsError(f"no answer within {ASK_S:.0f} s to {command or arguments}") from None
            except OSError as error:
                raise MpsError(f"{self.program[0]}: {error.strerror}") from None
            out.seek(0)
            said = out.read().decode(errors="replace").strip()
        if done.returncode != 0 or _REFUSED.search(said):
            raise MpsError(said.splitlines()[-1][:200] if said else f"exit code {done.returncode}")
        return said


def client_environment(control: MpsControl, spec: SliceSpec, partition: str) -> dict[str, str]:
    """What holds one client to its share. Percentages cap SMs and reserve none; a partition is its own."""
    found = {
        **control.environment,
        "CUDA_VISIBLE_DEVICES": spec.device_uuid,
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={spec.memory_bytes >> 20}M",
    }
    if partition:
        return {**found, "CUDA_MPS_SM_PARTITION": partition}
    return {**found, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(spec.thread_percentage)}


def chunks_of(gpu: Device, spec: SliceSpec) -> int:
    """How many chunks of SMs ``spec`` is of its GPU, rounded down and at least one; 0 where the board is unknown."""
    try:
        found = board(gpu.board)
    except UnknownBoard:
        return 0
    return max(1, found.sms // found.mps_chunk_sms * spec.size // spec.of_units)


def _environment() -> Mapping[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("CUDA_")}


def _make_private(folder: Path) -> None:
    """Whoever can reach a daemon's pipes can end its clients."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise MpsError(f"{folder} belongs to another user")
    folder.chmod(0o700)


def _folder(root: Path, device_uuid: str) -> Path:
    name = hashlib.sha256(device_uuid.encode()).hexdigest()[:12]
    if len(str(root / name)) <= _LONGEST_FOLDER:
        return root / name
    short = hashlib.sha256(str(root).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"berth-mps-{os.getuid()}-{short}" / name
