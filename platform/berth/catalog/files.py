"""Files of ready models: BERTH_HOME/models/DIGEST/NAME. They appear by one rename and never change."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from berth.config import CONFIG

# Left free on the disk, so that the database and logs can still be written.
RESERVE_BYTES = 256 << 20
_BLOCK = 4 << 20


class DiskFull(OSError):
    """The files do not fit; the text has the figures."""


def models_directory() -> Path:
    path = CONFIG.home / "models"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def downloads_directory() -> Path:
    path = CONFIG.home / "downloads"
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def path_of(digest: str) -> Path:
    return models_directory() / digest


def require_space(directory: Path, need_bytes: int) -> None:
    """Raises ``DiskFull`` unless ``need_bytes`` and the reserve are free where ``directory`` lies."""
    free = shutil.disk_usage(directory).free
    if free < need_bytes + RESERVE_BYTES:
        raise DiskFull(
            f"the disk of {directory} has {free >> 20} MiB free; the model takes {-(-need_bytes >> 20)} MiB "
            f"and {RESERVE_BYTES >> 20} MiB stay free"
        )


def hash_file(path: Path, sink: Callable[[bytes], object] | None = None) -> str:
    """The SHA-256 of a file, each block of it also given to ``sink``."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            total.update(block)
            if sink is not None:
                sink(block)
    return total.hexdigest()


def copy_files(source: Path, names: Iterable[str], target: Path, progress: Callable[[int], None]) -> dict[str, str]:
    """Copies (a link would follow later changes of the source); name -> SHA-256. ``progress`` gets bytes done."""
    target.mkdir()
    done = 0
    hashes = {}
    for name in names:
        with (target / name).open("wb") as copy:

            def write(block: bytes) -> None:
                nonlocal done
                copy.write(block)
                done += len(block)
                progress(done)

            hashes[name] = hash_file(source / name, write)
    return hashes


def digest_of(files: Mapping[str, str]) -> str:
    """SHA-256 over the lines ``NAME NUL SHA-256`` of the files, sorted by name."""
    return hashlib.sha256("".join(f"{name}\0{files[name]}\n" for name in sorted(files)).encode()).hexdigest()


def publish(work: Path, digest: str) -> Path:
    """Make ``work`` the files of ``digest``. When they are there already they stay and ``work`` is left behind."""
    target = path_of(digest)
    for file in work.iterdir():
        file.chmod(0o644)
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    if not target.exists():
        work.rename(target)
    return target


def remove(digest: str) -> None:
    """Out of sight by one rename, then gone: nobody sees half of a model."""
    doomed = models_directory() / f".removed-{digest}"
    shutil.rmtree(doomed, ignore_errors=True)
    if path_of(digest).exists():
        path_of(digest).rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
