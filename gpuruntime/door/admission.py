"""Who may enter the engine: the fair queue with a concurrency cap, a bound and a time limit around it.

    join -> [fair queue] -> [held: its promise is loose, and it would slow a tighter one down] -> running -> leave

A request is held back while some running one was promised a shorter time per output token than it, and the step with
one more in the batch is predicted to take longer than that. The prediction is the engine's moving average of its step
times, scaled by (running + 1) / running: an upper bound, since no step's cost grows faster than its batch. So a class
without a TPOT runs in the slack of the others; requests of one class never hold each other back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuruntime.door.errors import ApiError
from gpuruntime.door.queue import NEVER, FairQueue, Ticket

RECHECK_S = 0.25  # a step time that has fallen lets held requests in without anybody leaving
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
        step_ms: Callable[[], float | None] = lambda: None,
    ) -> None:
        """``step_ms``: the engine's recent mean step time, None where it is not known."""
        self.capacity = capacity
        self.max_queue = max_queue
        self.queue_timeout_s = queue_timeout_s
        self.running = 0
        self.throughput = Throughput()
        self._clock = clock
        self._step_ms = step_ms
        self._queue = FairQueue()
        self._held: list[Ticket] = []
        self._inside: set[Ticket] = set()
        self._recheck: asyncio.TimerHandle | None = None
        self._turns: dict[Ticket, asyncio.Future[None]] = {}

    @property
    def queued(self) -> int:
        return len(self._queue) + len(self._held)

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
            tpot_ms=slo.tpot_ms,
        )

    def join(self, tickets: Sequence[Ticket]) -> None:
        """Takes a place or a place in the queue for all of them, or for none. Raises ``ApiError`` 503 (``queue_full``).

        Each must then be waited for with ``turn``.
        """
        at_once = 0 if self._queue else max(0, min(len(tickets), self.capacity - self.running))
        if self.queued + len(tickets) - at_once > self.max_queue:
            raise self._full(len(tickets))
        for ticket in tickets:
            self._turns[ticket] = asyncio.get_running_loop().create_future()
            self._queue.push(ticket)
        self._next()

    async def turn(self, ticket: Ticket) -> None:
        """Waits for the ticket's turn. Raises ``ApiError`` 503 (``queue_timeout``).

        Cancelling the wait takes the ticket out. After a normal return ``leave`` must be called once.
        """
        turn = self._turns[ticket]
        if turn.done():  # at once: no timer for the usual case
            del self._turns[ticket]
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
        if ticket in self._inside:  # the turn came in the same moment: pass it on
            self._gone(ticket)
        elif ticket in self._held:
            self._held.remove(ticket)
        else:
            self._queue.remove(ticket)

    async def enter(self, ticket: Ticket) -> None:
        """``join`` and ``turn`` of one ticket."""
        self.join([ticket])
        await self.turn(ticket)

    def leave(self, ticket: Ticket, actual_cost: float) -> None:
        """Frees the place and lets the next one in."""
        self._queue.settle(ticket, actual_cost)
        self._gone(ticket)

    def _gone(self, ticket: Ticket) -> None:
        self._inside.discard(ticket)
        self.running -= 1
        self._next()

    def _next(self) -> None:
        """Lets in whom it can: first those held, then the queue in its order."""
        waiting, self._held = self._held, []
        while self.running < self.capacity:
            ticket = waiting.pop(0) if waiting else self._queue.pop(self._clock())
            if ticket is None:
                break
            if self._fits(ticket):
                self._let_in(ticket)
            else:
                self._held.append(ticket)
        self._held += waiting
        if self._held and self._recheck is None:
            self._recheck = asyncio.get_running_loop().call_later(RECHECK_S, self._look_again)

    def _look_again(self) -> None:
        self._recheck = None
        self._next()

    def _let_in(self, ticket: Ticket) -> None:
        self.running += 1
        self._inside.add(ticket)
        turn = self._turns[ticket]
        if not turn.done():
            turn.set_result(None)

    def _fits(self, ticket: Ticket) -> bool:
        """Whether the step with one more keeps what running requests were promised and this one was not."""
        tightest = min((other.tpot_ms for other in self._inside if other.tpot_ms is not None), default=NEVER)
        if tightest == NEVER or (ticket.tpot_ms is not None and ticket.tpot_ms <= tightest):
            return True
        step_ms = self._step_ms()
        return step_ms is None or step_ms * (self.running + 1) / self.running <= tightest

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
