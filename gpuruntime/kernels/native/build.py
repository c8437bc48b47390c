"""Builds the native step with the machine's compiler, for this machine's processor: a few seconds, once.

The library's name holds a digest of its sources, the compiler and the processor's features, so that what was built
elsewhere or before a change is never loaded. ``python -m gpuruntime.kernels.native.build`` is what the Makefile runs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent
FLAGS = ("-std=c++20", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC", "-pthread")


class NoCompiler(RuntimeError):
    """The library is not there and cannot be built; the message says why."""


def built_library() -> Path:
    """The library for this machine, built if need be. Raises ``NoCompiler``."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        found = sorted(_folder().glob(f"step-{_processor()}-*.so"))
        if len(found) == 1:
            return found[0]
        raise NoCompiler("there is no C++ compiler (g++ or $CXX) to build it with")
    target = _folder() / f"step-{_processor()}-{_digest(compiler)}.so"
    if not target.is_file():
        _build(compiler, target)
    return target


def _build(compiler: str, target: Path) -> None:
    """Built beside and renamed, so that another process never loads half a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        output = Path(work) / target.name
        command = [compiler, *FLAGS, "-o", str(output), str(SOURCES / "step.cpp")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise NoCompiler(f"{compiler} could not build it: {reason.strip()}")
        output.replace(target)


def _folder() -> Path:
    """Beside the sources; where those are not writable, in the user's cache."""
    beside = SOURCES / "built"
    if os.access(SOURCES, os.W_OK) or beside.is_dir():
        return beside
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "berth" / "native"


def _processor() -> str:
    """A digest of the processor's features, which ``-march=native`` compiles for."""
    features = platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        features += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(features.encode()).hexdigest()[:12]


def _digest(compiler: str) -> str:
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    digest.update(subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout)
    for path in sorted([*SOURCES.glob("*.h"), *SOURCES.glob("*.cpp")]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> int:
    try:
        sys.stdout.write(f"native step: {built_library().name}\n")
    except NoCompiler as error:
        sys.stdout.write(f"native step: not built, PyTorch will serve: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
