"""Files of a hub onto the disk: resumed where they broke off, hashed on the way, stopped within a moment.

BERTH_HOME/downloads/hub/MODEL/COMMIT/NAME.part grows, and is renamed once its size and hash are right. What broke off
stays for the next try; whoever cancels or deletes the model removes it (``forget``).
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import shutil
import threading
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

from berth.catalog import files, hub
from berth.catalog.hub import HubError, HubFile, Listing

_BLOCK = 1 << 20
TRIES = 5
LONGEST_PAUSE_S = 8.0
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO)
_AGAIN = (429, 500, 502, 503, 504)


class _Stopped(Exception):
    pass


def folder_of(model_id: str) -> Path:
    return files.downloads_directory() / "hub" / model_id


def forget(model_id: str) -> None:
    shutil.rmtree(folder_of(model_id), ignore_errors=True)


def fetch(listing: Listing, wanted: list[HubFile], model_id: str, tick: Callable[[int], None]) -> dict[str, str]:
    """Downloads ``wanted``; name -> SHA-256. ``tick`` gets the bytes had so far, ten times a second.

    What ``tick`` raises stops the download. Raises ``HubError``.
    """
    folder = folder_of(model_id) / listing.commit
    for other in folder.parent.glob("*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)  # of a commit that the revision no longer names
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    work = _Worker(listing, wanted, folder)
    work.start()
    try:
        while work.is_alive():
            work.join(0.1)
            tick(work.done)
    finally:
        work.stop.set()
    if work.error is not None:
        raise work.error
    return work.hashes


class _Worker(threading.Thread):
    """A thread of its own: a read that hangs holds up nobody who wants to cancel. It asks no database."""

    def __init__(self, listing: Listing, wanted: list[HubFile], folder: Path) -> None:
        super().__init__(name="download", daemon=True)
        self.listing, self.wanted, self.folder = listing, wanted, folder
        self.stop = threading.Event()
        self.done = 0
        self.hashes: dict[str, str] = {}
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            for file in self.wanted:
                self.hashes[file.name] = self._have(file)
        except _Stopped:
            pass
        except Exception as error:  # whatever it is, the one who waits must hear of it
            self.error = error

    def _have(self, file: HubFile) -> str:
        name = Path(file.name).name
        whole, part = self.folder / name, self.folder / f"{name}.part"
        before = self.done
        if whole.exists():
            return self._hash_of(whole, file).sha256.hexdigest()
        tries = 0
        while True:
            had = part.stat().st_size if part.exists() else 0
            try:
                hashes = self._get(file, part)
                break
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, urllib.error.HTTPError) and error.code not in _AGAIN:
                    raise HubError(f"{hub.CONFIG.hub_url} answered {error.code} {error.reason} for {name}") from error
                if getattr(error, "errno", None) in _OF_THE_DISK:
                    raise
                grew = part.exists() and part.stat().st_size > had
                tries = 1 if grew else tries + 1
                self.done = before
                if tries >= TRIES:
                    raise self._broke_off(file, part, error) from error
                if self.stop.wait(min(LONGEST_PAUSE_S, 0.5 * 2**tries)):
                    raise _Stopped from None
        self._check(file, part, hashes)
        part.rename(whole)
        return hashes.sha256.hexdigest()

    def _get(self, file: HubFile, part: Path) -> _Hashes:
        hashes = self._hash_of(part, file) if part.exists() else _Hashes(file.size)
        offset = hashes.size
        if offset >= file.size and part.exists():
            return hashes
        with hub.open_url(hub.file_path(self.listing, file), offset) as response:
            if offset and response.status != 206:  # it gives the whole again
                self.done -= offset
                hashes, offset = _Hashes(file.size), 0
            with part.open("ab" if offset else "wb") as target:
                while block := response.read1(_BLOCK):
                    if self.stop.is_set():
                        raise _Stopped
                    target.write(block)
                    hashes.update(block)
                    self.done += len(block)
                    if hashes.size > file.size:
                        break
        if hashes.size < file.size:
            raise http.client.IncompleteRead(b"", file.size - hashes.size)
        return hashes

    def _hash_of(self, path: Path, file: HubFile) -> _Hashes:
        hashes = _Hashes(file.size)
        with path.open("rb") as source:
            while block := source.read(4 << 20):
                if self.stop.is_set():
                    raise _Stopped
                hashes.update(block)
                self.done += len(block)
        return hashes

    def _check(self, file: HubFile, part: Path, hashes: _Hashes) -> None:
        right = hashes.size == file.size
        if file.sha256:
            right = right and hashes.sha256.hexdigest() == file.sha256
        elif len(file.blob) == 40:
            right = right and hashes.blob.hexdigest() == file.blob
        if not right:
            part.unlink()
            raise HubError(f"{file.name} arrived with another content than {hub.CONFIG.hub_url} lists; it was removed")

    def _broke_off(self, file: HubFile, part: Path, error: Exception) -> HubError:
        have = part.stat().st_size if part.exists() else 0
        if not have:
            return hub.unreachable(error)
        return HubError(
            f"The connection to {hub.CONFIG.hub_url} broke off at {have >> 20} of {file.size >> 20} MiB of "
            f"{file.name}; a retry goes on from there"
        )


class _Hashes:
    """SHA-256, and git's hash of a blob of ``expected`` bytes, of what was seen so far."""

    def __init__(self, expected: int) -> None:
        self.size = 0
        self.sha256: Any = hashlib.sha256()
        self.blob: Any = hashlib.sha1(f"blob {expected}\0".encode(), usedforsecurity=False)

    def update(self, block: bytes) -> None:
        self.size += len(block)
        self.sha256.update(block)
        self.blob.update(block)
