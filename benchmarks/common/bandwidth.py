"""How fast this machine reads memory: the floor under every decode step is its bytes over this."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.report import CACHE

# More than any last-level cache: a model that fits in it may then beat the floor, and is shown to.
BUFFER_BYTES = 1 << 30
_SOURCE = Path(__file__).with_name("bandwidth.c")


class Reader:
    """Two threads (or as many as there are cores, if fewer) over four streams each."""

    def __init__(self, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._read = _compiled().read_streams
        self._read.argtypes, self._read.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_uint64
        self._data = np.ones(buffer_bytes // 8, dtype=np.uint64)
        self._threads = min(2, len(os.sched_getaffinity(0)))
        self._pool = ThreadPoolExecutor(self._threads)

    def bytes_per_s(self) -> float:
        """One pass over the buffer."""
        share = self._data.size // self._threads
        address = self._data.ctypes.data
        began = time.perf_counter()
        list(self._pool.map(lambda part: self._read(address + 8 * share * part, share), range(self._threads)))
        return 8 * share * self._threads / (time.perf_counter() - began)


def _compiled() -> Any:
    """The C file as a library, built once for each version of it."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("measuring memory bandwidth needs a C compiler: install gcc")
    target = CACHE / "bench" / f"bandwidth-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", partial, _SOURCE], check=True)
        partial.rename(target)
    return ctypes.CDLL(str(target))
