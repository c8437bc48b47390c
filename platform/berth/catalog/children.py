"""Child processes of a registration: watched, never left behind."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path


class TookTooLong(RuntimeError):
    """The child was ended at its time limit."""


def run_child(
    command: Sequence[str], *, log: Path, cwd: Path, timeout_s: float, tick: Callable[[float], None]
) -> tuple[int, str]:
    """(exit status, output). ``tick`` gets the seconds waited, ten times a second. No BERTH_* reaches the child."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    started = time.monotonic()
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=cwd
        )
        try:
            while child.poll() is None:
                waited = time.monotonic() - started
                if waited > timeout_s:
                    raise TookTooLong(f"not done within {timeout_s:.0f} s")
                tick(waited)
                time.sleep(0.1)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    return child.returncode, log.read_text(errors="replace").strip()
