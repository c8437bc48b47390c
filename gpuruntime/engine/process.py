"""The engine in a process of its own, so that the door's Python never holds a launch back; no torch on this side.

    door --Load, Enter, Leave, End--> engine.served
         <--Loaded, Stepped, Broke---

Each side has one socket for what it sends and one for what it reads, in a folder that only this user may enter.
"""

from __future__ import annotations

import asyncio
import contextlib
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
END_S = 10.0


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
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ready: asyncio.Future[wire.Loaded] = asyncio.get_running_loop().create_future()
        self._stopping = False
        self.stats = BackendStats()

    async def start(self) -> wire.Loaded:
        """Starts the process, which loads the model; raises what loading raised."""
        # The sockets' names must stay short, and the folder is private (0700).
        with tempfile.TemporaryDirectory(prefix="berth-engine-") as folder:
            self._commands = self._bound(zmq.PUSH, Path(folder) / COMMANDS)
            self._replies = self._bound(zmq.PULL, Path(folder) / REPLIES)
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "gpuruntime.engine.served",
                folder,
                str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL,
            )
            self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._watch(self._process))]
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
        """Ends the process after its current step."""
        self._stopping = True
        if self._process is not None and self.alive:
            self._tell(wire.End())
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

    def _bound(self, kind: int, path: Path) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.SNDHWM if kind == zmq.PUSH else zmq.RCVHWM, 0)
        socket.bind(f"ipc://{path}")
        return socket

    def _tell(self, message: object) -> None:
        """Without a bound on what waits, a send is over when it is called."""
        self._commands.send(wire.encode(message))

    async def _read(self) -> None:
        while True:
            reply = wire.decode_reply(await self._replies.recv())
            if isinstance(reply, wire.Stepped):
                self.stats = reply.stats
                if reply.outputs:
                    self._deliver(reply.outputs)
            elif isinstance(reply, wire.Loaded):
                self._ready.set_result(reply)
            elif isinstance(reply, wire.Refused):
                self._ready.set_exception(ValueError(reply.reason) if reply.wrong else EngineFailed(reply.reason))
            else:
                self._stopping = True
                self._broken(EngineFailed(reply.reason))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        lost = EngineFailed(f"the engine's process {how}")
        await asyncio.sleep(0)  # what it still said comes first
        if not self._ready.done():
            self._ready.set_exception(lost)
        elif not self._stopping:
            self._broken(lost)
