"""One request's deltas on their way from an engine to whoever reads them, all on one event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuruntime.backend import Delta


class Mailbox:
    """An async iterator that can also be emptied at once: many deltas, one wake-up, no task in between.

    ``put`` and ``fail`` are the engine's side; what comes after an end is dropped. ``notify`` is called at each of
    them, ``gap`` with the seconds between two that bring tokens. ``last`` is the newest delta, read or not; ``first_s``
    and ``last_s`` the monotonic times of the first and the newest token; ``over`` is set once nothing more comes,
    ``error`` then says why the end is missing.
    """

    __slots__ = ("_close", "_deltas", "_news", "error", "first_s", "gap", "last", "last_s", "notify", "over")

    def __init__(self, close: Callable[[], None] | None = None, notify: Callable[[], None] | None = None) -> None:
        """``close`` ends the request at the engine; it is called when a reader stops before the end."""
        self._close = close
        self._deltas: deque[Delta] = deque()
        self._news: asyncio.Future[None] | None = None
        self.notify = notify
        self.gap: Callable[[float], None] | None = None
        self.error: BaseException | None = None
        self.first_s: float | None = None
        self.last_s = 0.0
        self.last: Delta | None = None
        self.over = asyncio.Event()

    def put(self, delta: Delta) -> None:
        if self.over.is_set():
            return
        self.last = delta
        if delta.new_tokens:
            self._clock(time.monotonic())
        self._deltas.append(delta)
        if delta.finish_reason is not None:
            self.over.set()
        self._tell()

    def _clock(self, now_s: float) -> None:
        if self.first_s is None:
            self.first_s = now_s
        elif self.gap is not None:
            self.gap(now_s - self.last_s)
        self.last_s = now_s

    def fail(self, error: BaseException) -> None:
        if self.over.is_set():
            return
        self.error = error
        self.over.set()
        self._tell()

    def _tell(self) -> None:
        if self.notify is not None:
            self.notify()
        elif self._news is not None and not self._news.done():
            self._news.set_result(None)

    def take(self) -> list[Delta]:
        """Everything that came since the last call; never waits and never raises."""
        taken = list(self._deltas)
        self._deltas.clear()
        return taken

    def __aiter__(self) -> Mailbox:
        return self

    async def __anext__(self) -> Delta:
        """Raises what the engine failed with, after the deltas before it."""
        while not self._deltas:
            if self.error is not None:
                raise self.error
            if self.over.is_set():
                raise StopAsyncIteration
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            except asyncio.CancelledError:
                await self.aclose()
                raise
        return self._deltas.popleft()

    async def aclose(self) -> None:
        """The reader is done. Ends the request within one step when it still runs. Idempotent."""
        if not self.over.is_set():
            self.over.set()
            if self._close is not None:
                self._close()
