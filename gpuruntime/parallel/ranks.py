"""Rank 0's side: starts the processes of the others, tells them what to do, and notices when one ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from gpuruntime.parallel.message import Join, Loaded, Refused
from gpuruntime.parallel.process_group import ProcessGroup
from gpuruntime.parallel.rank import rank_device
from gpuruntime.parallel.shard import Shard

START_S = 120.0
END_S = 2.0


class RankLost(RuntimeError):
    """A rank has ended or does not answer: no step can be computed any more."""


@dataclass(frozen=True, slots=True)
class _Member:
    rank: int
    process: subprocess.Popen[bytes]
    connection: Connection

    @classmethod
    def start(cls, rank: int) -> _Member:
        ours, theirs = Pipe()
        command = [sys.executable, "-m", "gpuruntime.parallel.rank", str(theirs.fileno())]
        with theirs:
            process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        return cls(rank, process, ours)

    def receive(self, timeout_s: float | None = None) -> Any:
        """Its next message. Raises ``RankLost``."""
        try:
            if self.connection.poll(timeout_s):
                return self.connection.recv()
        except (EOFError, OSError) as error:
            raise RankLost(self.ended(END_S) or f"rank {self.rank} closed its connection") from error
        raise RankLost(f"rank {self.rank} (pid {self.process.pid}) did not answer in {timeout_s:g} s")

    def ended(self, patience_s: float = 0.0) -> str | None:
        """How it has ended, in words; None while it runs."""
        try:
            code = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return None
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"rank {self.rank} (pid {self.process.pid}) {how}"


class Ranks:
    """The other ranks of ``size``; rank 0 is this process. They end with ``close``, with this object, with its process.

    The thread that made it has to live as long: the kernel ends them with it.
    """

    def __init__(self, size: int, *, on_gpus: bool = False) -> None:
        """Returns when all have met. Raises ``RankLost`` where one has not, ``ValueError`` where GPUs are missing."""
        device = rank_device(Shard(0, size), on_gpus=on_gpus)
        directory = tempfile.TemporaryDirectory(prefix="berth-ranks-")
        self._members = [_Member.start(rank) for rank in range(1, size)]
        closing, self._closed = Pipe()
        self._end = weakref.finalize(self, _end, self._members, self._closed, directory)
        meeting = Path(directory.name) / "meeting"
        try:
            for member in self._members:
                member.receive(START_S)
            for member in self._members:
                member.connection.send(Join(Shard(member.rank, size), meeting, on_gpus))
            self.group = ProcessGroup(Shard(0, size), meeting, device)
        except (OSError, RuntimeError) as error:
            raise self.failure(error) from error
        watched = [os.pidfd_open(member.process.pid) for member in self._members]
        threading.Thread(target=_watch, args=(self.group, watched, closing), name="ranks", daemon=True).start()

    def tell(self, message: object) -> None:
        """Sends it to every other rank. Raises ``OSError`` when one has gone."""
        for member in self._members:
            member.connection.send(message)

    def loaded(self) -> Sequence[Loaded]:
        """What the others answer to ``Load``. Raises ``ValueError`` when one cannot, ``RankLost`` when one ended."""
        found = []
        for member in self._members:
            answer = member.receive()
            if isinstance(answer, Refused):
                raise ValueError(f"rank {member.rank}: {answer.reason}")
            found.append(answer)
        return found

    def check(self) -> None:
        """Raises ``RankLost`` when a rank has ended."""
        if ended := [how for member in self._members if (how := member.ended()) is not None]:
            raise RankLost("; ".join(ended))

    def failure(self, error: Exception) -> Exception:
        """What to raise for an ``error`` of a call that needed all ranks. Ends them: they are out of step now."""
        reasons = [how for member in self._members if (how := _refusal(member) or member.ended(END_S)) is not None]
        self.close()
        return RankLost("; ".join(reasons) if reasons else f"the ranks could not go on together: {error}")

    def close(self) -> None:
        """Idempotent."""
        self._end()


def _refusal(member: _Member) -> str | None:
    with contextlib.suppress(EOFError, OSError):
        while member.connection.poll():
            if isinstance(answer := member.connection.recv(), Refused):
                return f"rank {member.rank}: {answer.reason}"
    return None


def _watch(group: ProcessGroup, watched: list[int], closing: Connection) -> None:
    """Frees this process from a collective whose partner is no more: NCCL would wait for it until the timeout."""
    ready = wait([*watched, closing])
    for descriptor in watched:
        os.close(descriptor)
    if closing not in ready:
        group.abort()


def _end(members: Sequence[_Member], closed: Connection, directory: tempfile.TemporaryDirectory[str]) -> None:
    """Lets them leave by themselves, which an idle one does at once."""
    closed.close()
    for member in members:
        member.connection.close()
    for member in members:
        if member.ended(END_S) is None:
            member.process.kill()
            member.process.wait()
    directory.cleanup()
