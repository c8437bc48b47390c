"""Follows the replicas' logs and hands on their new lines: bounded in lines, in length and in rate."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

from gpuruntime.protocol import LogLines

KEEP_LINES = 200
LINE_CHARACTERS = 4096
READ_BYTES = 256 << 10


class LogFollower:
    """One replica's log. ``kept`` holds the last lines; ``next_number`` counts every line since following began."""

    def __init__(self, replica_id: str, path: Path) -> None:
        self.replica_id = replica_id
        self._path = path
        self._inode = 0
        self._offset = 0
        self._partial = b""
        self.kept: deque[str] = deque(maxlen=KEEP_LINES)
        self.next_number = 0

    def snapshot(self) -> LogLines:
        """All that is kept; the receiver drops what it had."""
        self.poll()
        return LogLines(
            replica_id=self.replica_id, first=self.next_number - len(self.kept), lines=list(self.kept), reset=True
        )

    def poll(self) -> LogLines | None:
        """New lines since the last call. Of a flood only the end: the numbers of the lines between are left out."""
        lines = self._read()
        if not lines:
            return None
        self.next_number += len(lines)
        lines = lines[-KEEP_LINES:]
        self.kept.extend(lines)
        return LogLines(replica_id=self.replica_id, first=self.next_number - len(lines), lines=lines)

    def _read(self) -> list[str]:
        try:
            handle = self._path.open("rb")
        except OSError:
            return []
        with handle:
            status = os.fstat(handle.fileno())
            if status.st_ino != self._inode or status.st_size < self._offset:  # rotated, or cut
                self._inode, self._offset, self._partial = status.st_ino, 0, b""
            if status.st_size - self._offset > READ_BYTES:
                self._offset, self._partial = status.st_size - READ_BYTES, b""
                handle.seek(self._offset)
                self._offset += len(handle.readline())  # the rest of a line whose start is skipped
            handle.seek(self._offset)
            data = handle.read(READ_BYTES)
        self._offset += len(data)
        *whole, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > READ_BYTES:
            whole, self._partial = [*whole, self._partial], b""
        return [line.decode(errors="replace").rstrip("\r")[:LINE_CHARACTERS] for line in whole]
