"""The node's copies of models, by digest: fetched once from the control plane, verified, least recently used out first.

models/DIGEST/NAME...            complete; appears by one rename
models/.partial-DIGEST/NAME      verified, waiting for the others
models/.partial-DIGEST/NAME.part arriving; a broken transfer goes on from its end
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import aiohttp

from scheduler.node.paths import UnsafeName, safe_name

DEFAULT_CACHE_BYTES = 50 << 30
# Left free on the disk, so that logs and run files can still be written.
DISK_RESERVE_BYTES = 64 << 20
_BLOCK = 4 << 20
_PARTIAL = ".partial-"

Progress = Callable[[float], None]


class ModelError(RuntimeError):
    """A model is not here and could not be fetched; the text says why. Trying again later may help."""


class ModelCache:
    """``base_url``: ``http://HOST:PORT``. ``in_use`` (set by the supervisor) names the digests that must stay."""

    def __init__(
        self,
        root: Path,
        *,
        base_url: str,
        headers: Mapping[str, str],
        limit_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._root = root
        self._base_url = base_url.rstrip("/")
        self._headers = dict(headers)
        self._limit_bytes = limit_bytes
        self.in_use: Callable[[], Collection[str]] = tuple
        self._fetching: dict[str, asyncio.Lock] = {}

    def find(self, digest: str, files: Mapping[str, str]) -> Path | None:
        """The complete copy, marked as just used, or None. Raises ``ModelError`` for a name that is not allowed."""
        folder = self._root / _checked(digest)
        if not all((folder / _checked(name)).is_file() for name in files) or not folder.is_dir():
            return None
        os.utime(folder)
        return folder

    async def fetch(self, digest: str, files: Mapping[str, str], size_bytes: int, progress: Progress) -> Path:
        """The folder that holds ``files`` (name -> SHA-256). Two replicas of one model fetch it once.

        Raises ``ModelError``. ``progress`` gets 0 to 1.
        """
        lock = self._fetching.setdefault(digest, asyncio.Lock())
        async with lock:
            found = self.find(digest, files)
            if found is not None:
                return found
            try:
                return await self._fetch(digest, files, size_bytes, progress)
            except OSError as error:
                if isinstance(error, aiohttp.ClientError):
                    raise ModelError(f"The control plane did not send the model: {error}") from error
                raise ModelError(self._disk_reason(error, size_bytes)) from error
            except (aiohttp.ClientError, TimeoutError) as error:
                raise ModelError(f"The control plane did not send the model: {error or 'no data in time'}") from error

    async def _fetch(self, digest: str, files: Mapping[str, str], size_bytes: int, progress: Progress) -> Path:
        partial = self._root / f"{_PARTIAL}{_checked(digest)}"
        partial.mkdir(mode=0o700, exist_ok=True)
        await asyncio.to_thread(self._make_room, digest, partial, size_bytes)
        done = await asyncio.to_thread(_folder_bytes, partial)
        meter = _Meter(done, size_bytes, progress)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)
        async with aiohttp.ClientSession(headers=self._headers, timeout=timeout) as session:
            for name, sha256 in sorted(files.items()):
                if not (partial / _checked(name)).is_file():
                    url = f"{self._base_url}/internal/models/{digest}/{name}"
                    await _download(session, url, partial / name, sha256, meter)
        target = self._root / digest
        if target.exists():  # an incomplete copy of other files
            await asyncio.to_thread(shutil.rmtree, target)
        partial.rename(target)
        return target

    def _make_room(self, digest: str, partial: Path, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            raise ModelError(
                f"The model holds {_gb(size_bytes)}, the node's cache at most {_gb(self._limit_bytes)} "
                "(BERTH_MODEL_CACHE_BYTES)"
            )
        missing = max(0, size_bytes - _folder_bytes(partial))
        for folder in self._evictable(digest):
            held = sum(_folder_bytes(other) for other in self._root.iterdir() if other.is_dir()) - _folder_bytes(
                partial
            )
            if held + size_bytes <= self._limit_bytes and self._free() >= missing + DISK_RESERVE_BYTES:
                break
            shutil.rmtree(folder, ignore_errors=True)
        held = sum(_folder_bytes(other) for other in self._root.iterdir() if other.is_dir() and other != partial)
        if held + size_bytes > self._limit_bytes:
            raise ModelError(
                f"The model holds {_gb(size_bytes)}; models in use take {_gb(held)} of the node's cache of "
                f"{_gb(self._limit_bytes)} (BERTH_MODEL_CACHE_BYTES)"
            )
        if self._free() < missing + DISK_RESERVE_BYTES:
            raise ModelError(self._disk_reason(OSError(errno.ENOSPC, ""), missing))

    def _evictable(self, digest: str) -> list[Path]:
        """Unfinished transfers of others first, then models nobody uses, the longest unused first."""
        busy = set(self.in_use()) | {digest} | {d for d, lock in self._fetching.items() if lock.locked()}
        folders = [
            folder
            for folder in self._root.iterdir()
            if folder.is_dir() and folder.name.removeprefix(_PARTIAL) not in busy
        ]
        return sorted(folders, key=lambda folder: (not folder.name.startswith(_PARTIAL), folder.stat().st_mtime))

    def _free(self) -> int:
        return shutil.disk_usage(self._root).free

    def _disk_reason(self, error: OSError, needed: int) -> str:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = _gb(self._free())
            return f"The disk of the node is full: the model needs {_gb(needed)}, {free} are free in {self._root}"
        return f"The node cannot store the model in {self._root}: {error.strerror or error}"


class _Meter:
    """Turns bytes that arrive into progress."""

    def __init__(self, done: int, total: int, report: Progress) -> None:
        self._done, self._total, self._report = done, max(total, 1), report
        self.add(0)

    def add(self, count: int) -> None:
        self._done += count
        self._report(min(1.0, max(0.0, self._done / self._total)))


async def _download(session: aiohttp.ClientSession, url: str, target: Path, sha256: str, meter: _Meter) -> None:
    part = target.with_name(f"{target.name}.part")
    digest = hashlib.sha256()
    start = await asyncio.to_thread(_hash_existing, part, digest)
    headers = {"Range": f"bytes={start}-"} if start else {}
    async with session.get(url, headers=headers) as response:
        if response.status == 416:  # the part already holds every byte, or more: the digest decides
            pass
        elif response.status in (200, 206):
            if response.status == 200 and start:
                meter.add(-start)
                start, digest = 0, hashlib.sha256()
            await _store(response, part, digest, start, meter)
        else:
            raise ModelError(f"The control plane answered {response.status} for {target.name} of the model")
    if digest.hexdigest() != sha256:
        meter.add(-part.stat().st_size)
        part.unlink(missing_ok=True)
        raise ModelError(
            f"{target.name} arrived damaged: its SHA-256 is {digest.hexdigest()[:12]}..., {sha256[:12]}... was expected"
        )
    part.rename(target)


async def _store(
    response: aiohttp.ClientResponse, part: Path, digest: hashlib._Hash, start: int, meter: _Meter
) -> None:
    # Blocks of some megabytes go to a thread: neither the disk nor the hash holds up the agent's loop.
    handle = await asyncio.to_thread(part.open, "ab" if start else "wb")
    try:
        buffer = bytearray()
        async for data in response.content.iter_chunked(1 << 20):
            buffer += data
            if len(buffer) >= _BLOCK:
                await asyncio.to_thread(_write, handle.write, digest.update, bytes(buffer))
                meter.add(len(buffer))
                buffer.clear()
        await asyncio.to_thread(_write, handle.write, digest.update, bytes(buffer))
        meter.add(len(buffer))
    finally:
        await asyncio.to_thread(handle.close)


def _write(write: Callable[[bytes], int], update: Callable[[bytes], None], data: bytes) -> None:
    write(data)
    update(data)


def _hash_existing(part: Path, digest: hashlib._Hash) -> int:
    size = 0
    try:
        with part.open("rb") as handle:
            while block := handle.read(_BLOCK):
                digest.update(block)
                size += len(block)
    except FileNotFoundError:
        return 0
    return size


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _checked(name: str) -> str:
    try:
        return safe_name(name)
    except UnsafeName as error:
        raise ModelError(f"The control plane named a file that is not allowed: {error}") from None


def _gb(count: int) -> str:
    return f"{count / 1e9:.2f} GB"
