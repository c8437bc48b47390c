"""The engine in a process of its own, so that the door's Python never holds a launch back; no torch on this side.

    door --Load, Enter, Leave, End--> engine.served
         <--Loaded, Stepped, Broke---

Each side has one socket for what it sends and one for what it reads, in a folder that only this user may enter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import zmq
import zmq.asyncio

from gpuruntime.backend import BackendStats, EngineFailed
from gpuruntime.engine import wire
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.core import StepOutput
from gpuruntime.engine.loop import Abort, Command
from gpuruntime.engine.request import Request

COMMANDS, REPLIES = "commands", "replies"
LONGEST_FOLDER = 107 - 1 - len(COMMANDS)  # unix(7): 107 bytes for a socket's path
END_S = 8.0  # less than the door's own bound on a stop
LAST_WORD_S = 1.0

log = logging.getLogger("gpuruntime.engine")


class EngineProcess:
    """Implements ``engine.backend.Engine``. ``deliver`` and ``broken`` are called on the event loop."""

    def __init__(
        self,
        config: EngineConfig,
        deliver: Callable[[list[StepOutput]], None],
        broken: Callable[[BaseException], None],
    ) -> None:
        self._config = config
        self._deliver = deliver
        self._broken = broken
        self._context = zmq.asyncio.Context()
        self._commands = self._socket(zmq.PUSH)
        self._replies = self._socket(zmq.PULL)
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ready: asyncio.Future[wire.Loaded] = asyncio.get_running_loop().create_future()
        self._stopping = False
        self.stats = BackendStats()

    async def start(self) -> wire.Loaded:
        """Starts the process, which loads the model; raises what loading raised."""
        with tempfile.TemporaryDirectory(prefix="berth-engine-") as folder:  # private (0700)
            if (length := len(os.fsencode(folder))) > LONGEST_FOLDER:
                raise ValueError(
                    f"{folder} has {length} bytes; a folder of sockets may have {LONGEST_FOLDER}: shorten TMPDIR"
                )
            self._commands.bind(f"ipc://{Path(folder) / COMMANDS}")
            self._replies.bind(f"ipc://{Path(folder) / REPLIES}")
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gpuruntime.engine.served",
                folder,
                str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL,
            )
            reading = asyncio.create_task(self._read())
            self._tasks = [reading, asyncio.create_task(self._watch(self._process, reading))]
            self._tell(wire.Load(wire.VERSION, self._config))
            return await self._ready  # both have connected by then, and nobody needs the names any more

    def send(self, command: Command) -> None:
        if isinstance(command, Request):
            self._tell(wire.Enter.of(command))
        elif isinstance(command, Abort):
            self._tell(wire.Leave(command.key))
        else:
            self._tell(wire.End())

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def stop(self) -> None:
        """Ends the process after its current step, or at once while it still loads."""
        self._stopping = True
        if self._process is not None and self.alive:
            self._tell(wire.End())
            if self._ready.done() and not self._ready.cancelled():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._process.wait(), END_S)
            if self.alive:
                self._process.kill()
                await self._process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._context.destroy(linger=0)

    def audit(self) -> None:
        """By the last figures: the process itself checks the ownership of KV blocks whenever it is idle."""
        stats = self.stats
        known = (stats.kv_blocks_total, stats.kv_blocks_free, stats.kv_blocks_cached)
        if not stats.running and None not in known and known[0] != (known[1] or 0) + (known[2] or 0):
            raise RuntimeError(
                f"KV blocks: of {known[0]} only {known[1]} are free and {known[2]} cached while nobody runs"
            )

    def _socket(self, kind: int) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.SNDHWM if kind == zmq.PUSH else zmq.RCVHWM, 0)
        return socket

    def _tell(self, message: object) -> None:
        """Without a bound on what waits, a send is over when it is called."""
        self._commands.send(wire.encode(message))

    async def _read(self) -> None:
        try:
            while self._take(wire.decode_reply(await self._replies.recv())):
                pass
        except Exception as error:  # nobody would read on: better to fail the streams than to leave them waiting
            log.exception("an engine's output could not be taken")
            self._lost(error)

    def _take(self, reply: wire.Loaded | wire.Refused | wire.Stepped | wire.Broke) -> bool:
        """False when nothing follows."""
        if isinstance(reply, wire.Stepped):
            self.stats = reply.stats
            if reply.outputs:
                self._deliver(reply.outputs)
        elif isinstance(reply, wire.Loaded):
            if not self._ready.done():  # who awaited it may have been cancelled
                self._ready.set_result(reply)
        elif isinstance(reply, wire.Refused):
            self._lost(ValueError(reply.reason) if reply.wrong else EngineFailed(reply.reason))
            return False
        else:
            self._lost(EngineFailed(reply.reason))
            return False
        return True

    async def _watch(self, process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
        code = await process.wait()
        if code > 0:  # it may have said why, and that comes on another way
            await asyncio.wait({reading}, timeout=LAST_WORD_S)
        how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with code {code}"
        self._lost(EngineFailed(f"the engine's process {how}"))

    def _lost(self, error: Exception) -> None:
        """The first reason counts."""
        if not self._ready.done():
            self._ready.set_exception(error)
        elif not self._stopping:
            self._broken(error)
        self._stopping = True


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
