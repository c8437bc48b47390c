"""The engine on a thread of the door's process: where steps release Python's lock, as the CPU's do.

Each step's outputs go back in a single ``call_soon_threadsafe``, however many requests it served. torch is imported on
this thread, so the loop can load the tokenizer meanwhile.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

from gpuruntime.backend import BackendStats
from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.core import EngineCore, StepOutput
from gpuruntime.engine.loader import LoadedEngine, load_engine
from gpuruntime.engine.loop import Command, Inbox, Stop, run_engine

Deliver = Callable[[list[StepOutput]], None]
Broken = Callable[[BaseException], None]


class EngineThread:
    """Implements ``engine.backend.Engine``. ``deliver`` and ``broken`` are called on the event loop."""

    def __init__(self, config: EngineConfig, deliver: Deliver, broken: Broken) -> None:
        self._config = config
        self._deliver = deliver
        self._broken = broken
        self._inbox: Inbox = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[LoadedEngine] = self._loop.create_future()
        self._thread = threading.Thread(target=self._main, name="engine", daemon=True)
        self._core: EngineCore | None = None
        self.stats = BackendStats()

    async def start(self) -> LoadedEngine:
        """Loads the model; raises what loading raised."""
        self._thread.start()
        return await self._ready

    def send(self, command: Command) -> None:
        self._inbox.put(command)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    async def stop(self) -> None:
        """Ends the thread after its current step."""
        self._inbox.put(Stop())
        await asyncio.to_thread(self._thread.join)

    def audit(self) -> None:
        """Checks the ownership of KV blocks; call it while nothing runs."""
        if self._core is not None:
            self._core.audit()

    def _main(self) -> None:
        try:
            engine = load_engine(self._config)
        except BaseException as error:  # a failed load is reported to who awaits it, whatever it was
            self._post(self._fail_start, error)
            return
        self._core = engine.core
        self._post(self._ready.set_result, engine)
        try:
            run_engine(engine, self._inbox, self._stepped)
        except BaseException as error:  # any escape from the step means that no request can be served any more
            self._post(self._broken, error)

    def _stepped(self, outputs: list[StepOutput], stats: BackendStats) -> None:
        self.stats = stats
        if outputs:
            self._post(self._deliver, outputs)

    def _fail_start(self, error: BaseException) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)

    def _post(self, function: Callable[[Any], object], value: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, value)
        except RuntimeError:  # the loop has closed: nobody is left to tell
            return
