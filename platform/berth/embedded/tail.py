"""Follows log files: the last lines, then what is appended, through rotation and truncation."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from berth.embedded.house import SERVICES
from berth.embedded.paths import Home

_BLOCK = 64 << 10


class UnknownLog(ValueError):
    """No log goes by that name; the text lists those that do."""


def find_logs(home: Home, name: str) -> dict[str, Path]:
    """Label -> file. ``name``: a service, a job of the start, a replica's id, a deployment (its live replicas)."""
    if "/" not in name and home.log(name).exists():
        return {name: home.log(name)}
    folders = [home.node / "logs", *home.nodes.glob("*/logs")]
    replicas = {path.stem: path for folder in folders for path in folder.glob("rep_*.log")}
    if name in replicas:
        return {name: replicas[name]}
    found = {replica: replicas[replica] for replica in _replicas_of(name) if replica in replicas}
    if found:
        return found
    services = sorted({path.stem for path in home.logs.glob("*.log")} | set(SERVICES))
    raise UnknownLog(
        f"no log is named {name!r}; there are: {', '.join(services)}"
        + (f"; replicas: {', '.join(sorted(replicas))}" if replicas else "")
        + "; or the name of a deployment that runs"
    )


def _replicas_of(deployment: str) -> list[str]:
    """Ids of the replicas of the deployments of that name, live ones if there are any; none without a database."""
    from django.db import Error

    from berth.deployments.models import Replica

    try:
        rows = Replica.objects.for_platform().filter(deployment__name=deployment).order_by("-created_at")[:20]
        ids = [(row.id, row.ended_at is None) for row in rows]
    except Error:
        return []
    live = [replica for replica, runs in ids if runs]
    return live or [replica for replica, _ in ids[:1]]


@dataclass
class Tail:
    """One file. ``new_lines`` returns what was appended since the last call, whole lines only."""

    path: Path
    _file: IO[bytes] | None = None
    _part: bytes = b""
    _inode: int = field(default=0)

    def last_lines(self, count: int) -> list[str]:
        """The last ``count`` lines; ``new_lines`` goes on from here."""
        if not self._open():
            return []
        assert self._file is not None
        end = self._file.seek(0, os.SEEK_END)
        start, data = end, b""
        while start > 0 and data.count(b"\n") <= count:
            start = max(0, start - _BLOCK)
            self._file.seek(start)
            data = self._file.read(end - start)
        lines = data.split(b"\n")
        self._part = lines.pop()
        return [_text(line) for line in lines[len(lines) - count if count < len(lines) else 0 :]]

    def new_lines(self) -> list[str]:
        if not self._open():
            return []
        assert self._file is not None
        if self._file.tell() > os.fstat(self._file.fileno()).st_size:  # truncated under us
            self._file.seek(0)
            self._part = b""
        data = self._part + self._file.read()
        self._reopen_if_replaced()
        *lines, self._part = data.split(b"\n")
        return [_text(line) for line in lines]

    def _open(self) -> bool:
        if self._file is None:
            try:
                self._file = self.path.open("rb")
            except OSError:
                return False
            self._inode = os.fstat(self._file.fileno()).st_ino
        return True

    def _reopen_if_replaced(self) -> None:
        try:
            if self.path.stat().st_ino == self._inode:
                return
        except OSError:
            return
        assert self._file is not None
        self._file.close()
        self._file = None


def follow(files: dict[str, Path], lines: int, *, on: bool, pause_s: float = 0.2) -> Iterator[str]:
    """The last ``lines`` of each file, then for ever what comes (unless ``on`` is False). Several: each labelled."""
    tails = {label: Tail(path) for label, path in files.items()}
    prefix = {label: f"{label} | " if len(files) > 1 else "" for label in files}
    for label, tail in tails.items():
        yield from (prefix[label] + line for line in tail.last_lines(lines))
    while on:
        for label, tail in tails.items():
            yield from (prefix[label] + line for line in tail.new_lines())
        time.sleep(pause_s)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
