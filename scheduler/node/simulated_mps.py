"""In the place of nvidia-cuda-mps-control, for simulated GPUs: the same commands, and a daemon that keeps no order.

    simulated_mps.py -d [-S]      becomes the daemon of CUDA_MPS_PIPE_DIRECTORY
    simulated_mps.py < commands   asks it, one command a line

A program of its own on the standard library alone, so that it starts at once. Its clients are the processes whose
environment names its pipes. -S is refused unless SIMULATED_MPS_PARTITIONS is set. It ends with its folder.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path

PIPES = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))  # noqa: S108 - NVIDIA's default
LOOK_S = 5.0


def main() -> int:
    if "-d" in sys.argv:
        return _start(partitioned="-S" in sys.argv)
    for line in sys.stdin:
        if line.strip():
            try:
                answer = _ask(line.strip())
            except OSError:
                sys.stderr.write("Cannot find MPS control daemon process\n")
                return 1
            sys.stdout.write(answer)
    return 0


def _ask(command: str) -> str:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(5)
        asking.connect(str(PIPES / "control"))
        asking.sendall(command.encode() + b"\n")
        parts = []
        while part := asking.recv(65536):
            parts.append(part)
    return b"".join(parts).decode()


def _start(partitioned: bool) -> int:
    if partitioned and not os.environ.get("SIMULATED_MPS_PARTITIONS"):
        sys.stderr.write("invalid option -- 'S'\n")
        return 1
    with contextlib.suppress(OSError):
        _ask("get_server_list")
        sys.stderr.write("An instance of this daemon is already running\n")
        return 1
    path = PIPES / "control"
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(16)
    if os.fork():
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.chdir("/")
    (PIPES / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    Daemon(partitioned).serve(listening, path)
    return 0


class Daemon:
    def __init__(self, partitioned: bool) -> None:
        self._percentage = "100.0"
        self._partitioned = partitioned
        self._partitions: dict[str, int] = {}
        self._made = 0

    def serve(self, listening: socket.socket, path: Path) -> None:
        listening.settimeout(LOOK_S)
        while path.exists():
            try:
                asked, _ = listening.accept()
            except TimeoutError:
                continue
            with asked:
                asked.settimeout(5)
                with contextlib.suppress(OSError):
                    command = asked.recv(4096).decode().split()
                    asked.sendall(self.answer(command).encode())
                    if command == ["quit"]:
                        break
        for name in ("control", "nvidia-cuda-mps-control.pid"):
            with contextlib.suppress(OSError):
                (PIPES / name).unlink()

    def answer(self, command: list[str]) -> str:  # noqa: PLR0911 - one line a command
        match command:
            case ["get_server_list"]:
                return f"{os.getpid()}\n" if _clients() else ""
            case ["get_server_status", _]:
                return "ACTIVE\n"
            case ["get_client_list", _]:
                return "".join(f"{pid}\n" for pid in _clients())
            case ["get_default_active_thread_percentage"]:
                return f"{self._percentage}\n"
            case ["set_default_active_thread_percentage", value]:
                self._percentage = str(float(value))
                return f"{self._percentage}\n"
            case ["lspart" | "sm_partition", *_] if not self._partitioned:
                return "Unknown command\n"
            case ["lspart"]:
                return "".join(f"{name} {chunks}\n" for name, chunks in self._partitions.items())
            case ["sm_partition", "add", device, chunks]:
                self._made += 1
                name = f"{device}/Dx{self._made}"
                self._partitions[name] = int(chunks)
                return f"{name}\n"
            case ["sm_partition", "rm", name]:
                self._partitions.pop(name, None)
                return ""
            case ["quit"]:
                return ""
        return "Unknown command\n"


def _clients() -> list[int]:
    """Processes of this user whose environment names these pipes, the control program's own calls apart."""
    wanted = f"CUDA_MPS_PIPE_DIRECTORY={PIPES}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            named = wanted in (folder / "environ").read_bytes().split(b"\0")
            if named and b"simulated_mps" not in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
