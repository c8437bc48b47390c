"""Who may enter the engine: the fair queue with a concurrency cap, a bound and a time limit around it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuruntime.door.errors import ApiError
from gpuruntime.door.queue import NEVER, FairQueue, Ticket

_MOVING = 0.2  # weight of the newest request in the moving averages


@dataclass(frozen=True, slots=True)
class Slo:
    """What is left of the caller's service level, as durations. ``ttft_ms`` None: no deadline."""

    ttft_ms: float | None = None
    free_tokens: float = 0.0
    prefill_rate: float | None = None
    tpot_ms: float | None = None

    def ttft_left_s(self, new_prompt_tokens: int) -> float:
        if self.ttft_ms is None:
            return NEVER
        beyond = max(0.0, new_prompt_tokens - self.free_tokens)
        return self.ttft_ms / 1000 + (beyond / self.prefill_rate if self.prefill_rate else 0.0)


class Throughput:
    """Moving averages of what requests took: the basis of Retry-After and of the predicted TTFT."""

    def __init__(self) -> None:
        self.service_s: float | None = None
        self.first_token_s: float | None = None
        self.output_tokens: float | None = None

    def record(self, service_s: float, first_token_s: float | None, output_tokens: int) -> None:
        self.service_s = _moved(self.service_s, service_s)
        self.output_tokens = _moved(self.output_tokens, output_tokens)
        if first_token_s is not None:
            self.first_token_s = _moved(self.first_token_s, first_token_s)

    def wait_s(self, ahead: int, capacity: int) -> float:
        """How long until ``ahead`` requests have left ``capacity`` places."""
        return ahead * (self.service_s or 0.0) / capacity


def _moved(average: float | None, value: float) -> float:
    return value if average is None else average + _MOVING * (value - average)


class Admission:
    """``capacity`` requests run, up to ``max_queue`` wait, none longer than ``queue_timeout_s``."""

    def __init__(
        self,
        capacity: int,
        max_queue: int,
        queue_timeout_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.capacity = capacity
        self.max_queue = max_queue
        self.queue_timeout_s = queue_timeout_s
        self.running = 0
        self.throughput = Throughput()
        self._clock = clock
        self._queue = FairQueue()
        self._turns: dict[Ticket, asyncio.Future[None]] = {}

    @property
    def queued(self) -> int:
        return len(self._queue)

    def predicted_ttft_ms(self) -> float:
        """What a request that came now would wait for its first token, from the moving averages."""
        ahead = self.running + self.queued + 1 - self.capacity
        wait_s = self.throughput.wait_s(max(0, ahead), self.capacity)
        return 1000 * (wait_s + (self.throughput.first_token_s or 0.0))

    def ticket(
        self, tenant: str, *, weight: float, new_prompt_tokens: int, max_tokens: int, slo: Slo, received_s: float
    ) -> Ticket:
        """``received_s``: when the body was read, by the same clock; the durations of ``slo`` began there."""
        prefill_s = self.throughput.first_token_s or 0.0
        expected = self.throughput.output_tokens
        return Ticket(
            tenant=tenant,
            weight=weight,
            cost=new_prompt_tokens + (max_tokens if expected is None else min(max_tokens, expected)),
            latest_start=received_s + slo.ttft_left_s(new_prompt_tokens) - prefill_s,
        )

    def join(self, tickets: Sequence[Ticket]) -> None:
        """Takes a place or a place in the queue for all of them, or for none. Raises ``ApiError`` 503 (``queue_full``).

        Each must then be waited for with ``turn``.
        """
        at_once = 0 if self._queue else max(0, min(len(tickets), self.capacity - self.running))
        if len(self._queue) + len(tickets) - at_once > self.max_queue:
            raise self._full(len(tickets))
        for number, ticket in enumerate(tickets):
            self._queue.push(ticket)
            if number < at_once:
                self._queue.pop(self._clock())  # also an uncontended request moves its tenant's share
                self.running += 1
            else:
                self._turns[ticket] = asyncio.get_running_loop().create_future()

    async def turn(self, ticket: Ticket) -> None:
        """Waits for the ticket's turn. Raises ``ApiError`` 503 (``queue_timeout``).

        Cancelling the wait takes the ticket out. After a normal return ``leave`` must be called once.
        """
        turn = self._turns.get(ticket)
        if turn is None:
            return
        try:
            async with asyncio.timeout(self.queue_timeout_s):
                await turn
        except BaseException as error:
            self.withdraw(ticket)
            if isinstance(error, TimeoutError):
                raise self._timed_out() from error
            raise
        del self._turns[ticket]

    def withdraw(self, ticket: Ticket) -> None:
        """Gives up a ticket whose ``turn`` did not return."""
        self._turns.pop(ticket, None)
        if not self._queue.remove(ticket):  # the turn came in the same moment: pass it on
            self.running -= 1
            self._next()

    async def enter(self, ticket: Ticket) -> None:
        """``join`` and ``turn`` of one ticket."""
        self.join([ticket])
        await self.turn(ticket)

    def leave(self, ticket: Ticket, actual_cost: float) -> None:
        """Frees the place and lets the next one in."""
        self.running -= 1
        self._queue.settle(ticket, actual_cost)
        self._next()

    def _next(self) -> None:
        while self.running < self.capacity and (ticket := self._queue.pop(self._clock())) is not None:
            self.running += 1
            turn = self._turns[ticket]
            if not turn.done():
                turn.set_result(None)

    def _full(self, wanted: int) -> ApiError:
        retry = min(60.0, max(1.0, self.throughput.wait_s(self.queued // 2, self.capacity)))
        message = f"The replica is full: {self.running} requests run and {self.queued} wait (limit {self.max_queue})."
        if wanted > 1:
            message += f" This request needs {wanted} places."
        return ApiError(503, message, code="queue_full", retry_after_s=retry)

    def _timed_out(self) -> ApiError:
        retry = min(60.0, max(1.0, self.throughput.wait_s(self.queued, self.capacity)))
        message = f"The request waited {self.queue_timeout_s:g} s in the queue without getting its turn."
        return ApiError(503, message, code="queue_timeout", retry_after_s=retry)
