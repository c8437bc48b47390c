"""Wakes the one task that waits for news: what ``asyncio.Event`` does for many, in half the time."""

from __future__ import annotations

import asyncio


class Bell:
    """``ring`` from anywhere on the loop, any number of times; ``heard`` returns once for all of them."""

    __slots__ = ("_rung", "_waiter")

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._rung = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def heard(self) -> None:
        """Waits for a ring since the last call; only one task may wait."""
        if not self._rung:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._rung = False
