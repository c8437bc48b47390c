"""Closes requests: their verdict, their place in the windows, their record. Nothing is lost while Redis is away.

close() --sync--> [settlements, windows] --worker, in batches--> settle.lua, berth:deltas
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Sequence

from redis.exceptions import RedisError

from berth.gateway.line import Argument, Line, Script
from berth.live import names
from berth.metering.records import Cell, UsageEvent, encode
from berth.metering.settling import settle_call
from berth.slas.costs import Prices
from gpuruntime.goodput import Outcome, Verdict, Window

RETRY_S = 0.25
BATCH = 100
DELTAS_KEPT = 20_000
UNRECORDED = frozenset({Outcome.INVALID, Outcome.OVER_QUOTA})

log = logging.getLogger(__name__)


Settlement = tuple[list[str], list[Argument]]


class Accounts:
    """``close`` never waits and never fails; the worker delivers and retries."""

    def __init__(self, line: Line, gateway_id: str) -> None:
        self._line = line
        self._gateway_id = gateway_id
        self._script = Script("settle.lua")
        self._settlements: deque[Settlement] = deque()
        self._windows: dict[tuple[str, str, str], Window] = {}
        self._news = asyncio.Event()
        self.outcomes: Counter[str] = Counter()

    @property
    def undelivered(self) -> int:
        return len(self._settlements)

    def count(self, cell: tuple[str, str, str], verdict: Verdict, event: UsageEvent, stalls: int = 0) -> None:
        """Adds a request to this second's window of its cell (tenant, deployment, class)."""
        self.outcomes[event.outcome] += 1
        self._window(cell).record(
            verdict,
            Outcome(event.outcome),
            prompt_tokens=event.prompt_tokens,
            cached_tokens=event.cached_tokens,
            stalls=stalls,
            ideal_s=event.ideal_s or 0.0,
        )

    def count_invalid(self, tenant_id: str) -> None:
        """A request that was turned down before it had a deployment."""
        self._window((tenant_id, "", "")).invalid += 1

    def _window(self, cell: tuple[str, str, str]) -> Window:
        window = self._windows.get(cell)
        if window is None:
            window = self._windows[cell] = Window()
        return window

    def settle(self, event: UsageEvent, prices: Prices) -> None:
        """Gives back what was reserved and not used, and posts the record where the request is to be recorded."""
        cost = prices.cost(
            outcome=event.outcome,
            prompt_tokens=event.prompt_tokens,
            cached_tokens=event.cached_tokens,
            completion_tokens=event.completion_tokens,
        )
        used = event.prompt_tokens + event.completion_tokens
        record = b"" if Outcome(event.outcome) in UNRECORDED else encode(event)
        self._settlements.append(settle_call(event, used=used, cost=cost, record=record))
        self._news.set()

    async def work_forever(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._settlements:
                if not await self._deliver():
                    await asyncio.sleep(RETRY_S)

    async def drain(self, timeout_s: float) -> None:
        """What is left is delivered before the process ends, if Redis answers in time."""
        deadline = time.monotonic() + timeout_s
        while self._settlements and time.monotonic() < deadline:
            if not await self._deliver():
                await asyncio.sleep(RETRY_S)

    async def _deliver(self) -> bool:
        batch = [self._settlements[i] for i in range(min(BATCH, len(self._settlements)))]
        try:
            await self._send(batch)
        except RedisError as error:
            log.warning("records_wait_for_redis", extra={"records": len(self._settlements), "error": str(error)})
            return False
        for _ in batch:
            self._settlements.popleft()
        return True

    async def _send(self, batch: Sequence[Settlement]) -> None:
        calls = (self._script(self._line, *one) for one in batch)
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def publish_windows(self) -> None:
        """This second's windows, as one entry of ``berth:deltas``. Kept and merged with the next when Redis is away."""
        if not self._windows:
            return
        windows, self._windows = self._windows, {}
        cells = encode([Cell(*cell, window.to_json()) for cell, window in windows.items()])
        fields = ("kind", "requests", "gateway", self._gateway_id, "cells", cells)
        try:
            await self._line.call("XADD", names.DELTAS_STREAM, "MAXLEN", "~", DELTAS_KEPT, "*", *fields)
        except RedisError:
            for cell, window in windows.items():
                if cell in self._windows:
                    window.merge(self._windows[cell])
                self._windows[cell] = window
