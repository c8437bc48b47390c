"""Keeps every ended request until the control plane has acknowledged it, across a crash of this process.

    SPOOL_DIR/REPLICA_ID.EPOCH.spool     one JSON line a request, appended at once, fsync'd in batches

A write reaches the kernel before ``append`` returns, so ``kill -9`` loses nothing; ``fsync`` at most ``SYNC_S`` later
guards against a machine that stops. Each process holds a lock on its own file. Files of this replica whose lock is free
were left by a dead process: their requests are taken over at start. A file is emptied when nothing in it is pending.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import logging
import os
from pathlib import Path

import msgspec

from gpuruntime.protocol import EndedRequest

SYNC_S = 0.1
COMPACT_BYTES = 4 << 20
BATCH = 256

log = logging.getLogger("gpuruntime.spool")
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(EndedRequest)


class Spool:
    """Without a directory the requests are kept in memory only. All methods belong to one event loop."""

    def __init__(self, directory: str, replica_id: str, epoch: str) -> None:
        self._pending: dict[int, EndedRequest] = {}
        self._sent: set[int] = set()
        self._numbers = itertools.count()
        self._fd: int | None = None
        self._size = 0
        self._sync: asyncio.Task[None] | None = None
        self.filled = asyncio.Event()
        if directory:
            folder = Path(directory)
            folder.mkdir(parents=True, exist_ok=True)
            self._path = folder / f"{replica_id}.{epoch}.spool"
            self._fd = _open_locked(self._path)
            self._take_over(folder, replica_id)

    def __len__(self) -> int:
        return len(self._pending)

    def append(self, ended: EndedRequest) -> None:
        """Never raises: a full disk costs durability, not the request."""
        self._pending[next(self._numbers)] = ended
        self.filled.set()
        self._write(_encoder.encode(ended) + b"\n")

    def unsent(self) -> list[EndedRequest]:
        """Up to ``BATCH`` requests that were not sent on this connection yet; they count as sent now."""
        chosen = list(itertools.islice((n for n in self._pending if n not in self._sent), BATCH))
        self._sent.update(chosen)
        if len(chosen) < BATCH:
            self.filled.clear()
        return [self._pending[number] for number in chosen]

    def forget_sent(self) -> None:
        """A new connection: everything not acknowledged goes out again."""
        self._sent.clear()
        if self._pending:
            self.filled.set()

    def acknowledge(self, request_ids: list[str]) -> None:
        """Drops what was sent under these ids."""
        ids = set(request_ids)
        for number in [n for n in self._sent if self._pending[n].request_id in ids]:
            del self._pending[number]
            self._sent.discard(number)
        if self._fd is None:
            return
        if not self._pending and self._size:
            os.ftruncate(self._fd, 0)
            self._size = 0
        elif self._size > COMPACT_BYTES:
            self._compact()

    async def close(self) -> None:
        if self._sync is not None:
            await self._sync
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            if not self._pending:
                self._path.unlink(missing_ok=True)

    def _write(self, data: bytes) -> None:
        if self._fd is None:
            return
        try:
            os.write(self._fd, data)
        except OSError as error:
            log.error("the spool cannot be written: %s; %d requests are only in memory", error, len(self._pending))
            return
        self._size += len(data)
        if self._sync is None or self._sync.done():
            with contextlib.suppress(RuntimeError):  # no running loop: the caller closes soon
                self._sync = asyncio.get_running_loop().create_task(self._sync_soon(self._fd))

    async def _sync_soon(self, fd: int) -> None:
        await asyncio.sleep(SYNC_S / 2)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(os.fsync, fd)

    def _compact(self) -> None:
        """Moves what is still pending to a new file, when that is the smaller half.

        The old file goes last: a crash in between leaves requests twice, never missing.
        """
        data = b"".join(_encoder.encode(ended) + b"\n" for ended in self._pending.values())
        if self._fd is None or len(data) * 2 > self._size:
            return
        stem = self._path.name.removesuffix(".spool").removesuffix("~")
        fresh = self._path.with_name(f"{stem}{'' if self._path.stem.endswith('~') else '~'}.spool")
        try:
            fd = _open_locked(fresh)
            os.write(fd, data)
            os.fsync(fd)
        except OSError as error:
            log.error("the spool cannot be compacted: %s", error)
            return
        self._path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd, self._path, self._size = fd, fresh, len(data)

    def _take_over(self, folder: Path, replica_id: str) -> None:
        for path in sorted(folder.glob(f"{replica_id}.*.spool")):
            if path == self._path:
                continue
            try:
                fd = _open_locked(path)
            except BlockingIOError:
                continue  # its process lives
            try:
                for ended in read_spool(path):
                    self.append(ended)
                if self._fd is not None:
                    os.fsync(self._fd)
                path.unlink()
            finally:
                os.close(fd)


def read_spool(path: Path) -> list[EndedRequest]:
    """The requests in a spool file. A torn last line, as a crash may leave it, is dropped."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found.append(_decoder.decode(line))
        except msgspec.DecodeError as error:
            log.warning("line %d of %s is not a request: %s", number, path.name, error)
    return found


def _open_locked(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise
    return fd
