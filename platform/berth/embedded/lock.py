"""One ``up`` a folder: a lock the kernel lets go of when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO


class AlreadyRunning(RuntimeError):
    """Another ``up`` works in this folder; ``pid`` is its process, 0 when it has not yet written it."""

    def __init__(self, folder: Path, pid: int) -> None:
        self.pid = pid
        who = f" (pid {pid})" if pid else ""
        super().__init__(
            f"Berth already runs in {folder}{who}. Stop it with Ctrl-C there, or give this one a folder of its own: "
            "BERTH_HOME=/other/folder"
        )


def hold(path: Path, folder: Path) -> IO[str]:
    """Takes the lock and writes this pid into it; held while the returned file is open. Raises ``AlreadyRunning``."""
    handle = path.open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.seek(0)
        text = handle.read().strip()
        handle.close()
        raise AlreadyRunning(folder, int(text) if text.isdigit() else 0) from None
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle
