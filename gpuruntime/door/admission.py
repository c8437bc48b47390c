"""Who may enter the engine: the fair queue with a concurrency cap, a bound and a time limit around it.

    join -> [fair queue] -> [held: its promise is loose, and it would slow a tighter one down] -> running -> leave

The engine computes prompts in the order in which they come. So no more of them enter than keep it busy for
``PREFILL_STEPS`` steps: what waits here can still be passed by what is more urgent, and what is in there no more.
Of many places a few are kept for requests whose deadline would be over before a place becomes free by itself. A tenant
of whom a crowd waits, and that has its share of the places, leaves to those who take less what they lately
had (``door.places``), and enters only an engine that computes no other prompt. Batch requests run beside others only
while those get their first tokens well before their deadlines.

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
from gpuruntime.door.places import Places, RoomForBatch
from gpuruntime.door.queue import CROWD, NEVER, FairQueue, Ticket
from gpuruntime.door.throughput import Throughput
from gpuruntime.protocol import WhenLate

RECHECK_S = 0.25  # a step time that has fallen lets held requests in without anybody leaving
PREFILL_STEPS = 2  # one that is computed and one that follows without a pause

# What a token costs its tenant. Output costs twice an input token, as in VTC's measurements; one found in the cache is
# still read by every step.
INPUT_COST, CACHED_COST, OUTPUT_COST = 1.0, 0.05, 2.0
FREEDOM = 16_384.0  # of the queue's order between tenants: some fifty chat requests
CREDIT = FREEDOM + 4096  # what is beyond the freedom goes first: some twelve chat requests

# Of the queue's bound: a tenant may have so many times what is free, so that a flood leaves others some of it (dynamic
# thresholds; Choudhury, Hahne, 1998). A tenant alone gets eight ninths.
TENANT_OF_FREE = 8

PLACES_A_SPARE = 16  # one in so many places is kept for those who cannot wait for one
PATIENCE = 5.0  # times the mean time between two requests that leave: who has more can wait


@dataclass(frozen=True, slots=True)
class Slo:
    """What is left of the caller's service level, as durations. ``ttft_ms`` None: no deadline.

    ``when_late``: what the contract wants for a request whose first token is predicted to come after its deadline.
    """

    ttft_ms: float | None = None
    free_tokens: float = 0.0
    prefill_rate: float | None = None
    tpot_ms: float | None = None
    when_late: WhenLate = "queue"

    def ttft_left_s(self, new_prompt_tokens: int) -> float:
        if self.ttft_ms is None:
            return NEVER
        beyond = max(0.0, new_prompt_tokens - self.free_tokens)
        return self.ttft_ms / 1000 + (beyond / self.prefill_rate if self.prefill_rate else 0.0)


@dataclass(frozen=True, slots=True)
class _Prefill:
    """A prompt in the engine: when it entered, behind how many prompt tokens, and its own that are computed."""

    began_s: float
    behind: int
    tokens: int


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
        step_tokens: int | None = None,
        queue: FairQueue | None = None,
    ) -> None:
        """``step_ms``: the engine's recent mean step time, None where it is not known. ``step_tokens``: how many tokens
        it computes in a step; None: any number of prompts may enter."""
        self.capacity = capacity
        self.max_queue = max_queue
        self.queue_timeout_s = queue_timeout_s
        self.running = 0
        self.throughput = Throughput()
        self._clock = clock
        self._step_ms = step_ms
        self._prefill_most = NEVER if step_tokens is None else PREFILL_STEPS * step_tokens
        self._queue = FairQueue(freedom=FREEDOM, credit=CREDIT) if queue is None else queue
        self._held: list[Ticket] = []
        self._inside: set[Ticket] = set()
        self._prefills: dict[Ticket, _Prefill] = {}
        self._room_for_batch = RoomForBatch()
        self._places = Places()
        self._recheck: asyncio.TimerHandle | None = None
        self._turns: dict[Ticket, asyncio.Future[None]] = {}

    @property
    def queued(self) -> int:
        return len(self._queue) + len(self._held)

    @property
    def _prefilling(self) -> int:
        """Prompt tokens that the engine still has to compute before the last one in it gets its first token."""
        return sum(prefill.tokens for prefill in self._prefills.values())

    def predicted_ttft_ms(self) -> float:
        """What a request that came now, with a short prompt and behind all others, would wait for its first token."""
        tokens = self._prefilling + self._queue.new_tokens + sum(ticket.new_tokens for ticket in self._held)
        return 1000 * self._predicted_s(self.queued, tokens)

    def predicted_s(self, ticket: Ticket) -> float:
        """From now to the first token of a ticket that does not wait yet."""
        ahead, tokens = self._queue.ahead(ticket, self._clock())
        return self._predicted_s(ahead, self._prefilling + tokens + ticket.new_tokens)

    def _predicted_s(self, ahead: int, tokens: float) -> float:
        place_s = self.throughput.wait_s(max(0, self.running + ahead + 1 - self.capacity), self.capacity)
        return max(place_s + self.throughput.prefill_s(0), self.throughput.prefill_s(tokens))

    def ticket(
        self,
        tenant: str,
        *,
        weight: float,
        new_prompt_tokens: int,
        max_tokens: int,
        slo: Slo,
        received_s: float,
        cached_tokens: int = 0,
    ) -> Ticket:
        """``received_s``: when the body was read, by the same clock; the durations of ``slo`` began there."""
        expected = self.throughput.output_tokens
        output = max_tokens if expected is None else min(max_tokens, expected)
        prompt_cost = INPUT_COST * new_prompt_tokens + CACHED_COST * cached_tokens
        deadline = received_s + slo.ttft_left_s(new_prompt_tokens)
        return Ticket(
            tenant=tenant,
            weight=weight,
            cost=max(1.0, prompt_cost + OUTPUT_COST * output),
            prompt_cost=prompt_cost,
            latest_start=deadline - self.throughput.prefill_s(new_prompt_tokens),
            tpot_ms=slo.tpot_ms,
            arrived_s=received_s,
            new_tokens=new_prompt_tokens if max_tokens else 0,  # of an embedding no token tells that it is computed
            cached_tokens=cached_tokens,
            deadline=deadline,
            when_late=slo.when_late,
        )

    def join(self, tickets: Sequence[Ticket]) -> None:
        """Takes a place or a place in the queue for all of them, or for none.

        Raises ``ApiError`` 503 (``queue_full``) and, for tickets that are rather refused than late, 429
        (``predicted_late``); those that are rather degraded lose their deadline. Each must then be waited for with
        ``turn``.
        """
        wanted, tenant = len(tickets) - self._at_once(tickets), tickets[0].tenant
        waiting, free = self._queue.waiting_of(tenant), self.max_queue - self.queued
        if wanted > free or (wanted and waiting + wanted > TENANT_OF_FREE * free):
            raise self._full(len(tickets), others=wanted <= free)
        self._look_ahead(tickets)
        for ticket in tickets:
            self._turns[ticket] = asyncio.get_running_loop().create_future()
            self._queue.push(ticket, self._clock())
        self._next()

    def _at_once(self, tickets: Sequence[Ticket]) -> int:
        """How many of them need not wait."""
        if self._queue:
            return 0
        prefilling, fit = self._prefilling, 0
        for ticket in tickets[: max(0, self.capacity - self.running)]:
            if prefilling and prefilling + ticket.new_tokens > self._prefill_most:
                break
            prefilling += ticket.new_tokens
            fit += 1
        return fit

    def _look_ahead(self, tickets: Sequence[Ticket]) -> None:
        """What the contract wants for those whose first token is predicted to be late."""
        for ticket in tickets:
            if ticket.when_late == "queue" or ticket.deadline == NEVER:
                continue
            predicted_s = self.predicted_s(ticket)
            if self._clock() + predicted_s <= ticket.deadline:
                continue
            if ticket.when_late == "refuse":
                raise _late(predicted_s, self._clock(), ticket)
            for other in tickets:
                other.degrade()
            return

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

    def generated(self, ticket: Ticket, tokens: int) -> None:
        """So many tokens have come for it; the first one ends its prefill, which lets the next prompt in."""
        prefill = self._prefills.pop(ticket, None)
        self._queue.charge(ticket, ticket.prompt_cost + OUTPUT_COST * tokens)
        if prefill is not None:
            now = self._clock()
            self.throughput.record_prefill(now - prefill.began_s, prefill.behind + prefill.tokens)
            self._room_for_batch.first_token(ticket, now)
            self._next()

    def leave(self, ticket: Ticket, tokens: int) -> None:
        """Frees the place and lets the next one in. ``tokens``: all that came for it."""
        self._queue.settle(ticket, max(1.0, ticket.prompt_cost + OUTPUT_COST * tokens))
        self._gone(ticket)

    def _gone(self, ticket: Ticket) -> None:
        self._inside.discard(ticket)
        self._places.leave(ticket.tenant, self._clock())
        self._prefills.pop(ticket, None)
        self.running -= 1
        self._next()

    def _next(self) -> None:
        """Lets in whom it can: first those held, then the queue in its order."""
        held, self._held = self._held, []
        for ticket in held:
            if self.running < self.capacity and self._computes(ticket) and self._fits(ticket):
                self._let_in(ticket)
            else:
                self._held.append(ticket)
        batch, now = True, self._clock()
        while self.running < self.capacity:
            following = self._queue.peek(now, batch=batch)
            if following is None or not self._computes(following) or not self._leaves_room(following, now):
                break
            if following.batch and not self._fits_batch(following, now):
                batch = False  # nor does any behind it, and its turn comes when one does
                continue
            self._queue.pop(now, batch=batch)
            if following.batch or self._fits(following):
                self._let_in(following)
            else:
                self._held.append(following)
        if self.queued and self.running < self.capacity and self._recheck is None:
            self._recheck = asyncio.get_running_loop().call_later(RECHECK_S, self._look_again)

    def _look_again(self) -> None:
        self._recheck = None
        self._next()

    def _let_in(self, ticket: Ticket) -> None:
        self._prefills[ticket] = _Prefill(self._clock(), self._prefilling, ticket.new_tokens)
        self.running += 1
        self._inside.add(ticket)
        self._places.enter(ticket.tenant, ticket.weight, self._clock())
        turn = self._turns[ticket]
        if not turn.done():
            turn.set_result(None)

    def _computes(self, ticket: Ticket) -> bool:
        """Whether the engine would soon compute its prompt."""
        prefilling = self._prefilling
        return not prefilling or prefilling + ticket.new_tokens <= self._prefill_most

    def _leaves_room(self, ticket: Ticket, now: float) -> bool:
        """Whether those with less time, or who take less than their share, find a place though this one enters."""
        if ticket.batch:
            return True
        spare = self.capacity // PLACES_A_SPARE
        patient = ticket.latest_start - ticket.arrived_s > PATIENCE * self.throughput.wait_s(1, self.capacity)
        if patient and self.running + spare >= self.capacity:
            return False
        if self._queue.waiting_of(ticket.tenant) <= CROWD:
            return True
        kept = self._places.kept_from(ticket.tenant, self.capacity, now)
        return kept is None or (self.running + kept < self.capacity and not self._prefilling)

    def _fits_batch(self, ticket: Ticket, now: float) -> bool:
        """Whether the others leave slack for a batch request, or it is due its small share in spite of them."""
        due = self._room_for_batch.fits(self._inside) or self._queue.owes_batch(now)
        return due and self._fits(ticket)

    def _fits(self, ticket: Ticket) -> bool:
        """Whether the step with one more keeps what running requests were promised and this one was not."""
        tightest = min((other.tpot_ms for other in self._inside if other.tpot_ms is not None), default=NEVER)
        if tightest == NEVER or (ticket.tpot_ms is not None and ticket.tpot_ms <= tightest):
            return True
        step_ms = self._step_ms()
        return step_ms is None or step_ms * (self.running + 1) / self.running <= tightest

    def _full(self, wanted: int, *, others: bool = False) -> ApiError:
        """``others``: the places that are left are not for this tenant."""
        retry = min(60.0, max(1.0, self.throughput.wait_s(self.queued // 2, self.capacity)))
        message = f"The replica is full: {self.running} requests run and {self.queued} wait (limit {self.max_queue})."
        if others:
            message += " The places that are left are for other tenants."
        elif wanted > 1:
            message += f" This request needs {wanted} places."
        return ApiError(503, message, code="queue_full", retry_after_s=retry)

    def _timed_out(self) -> ApiError:
        retry = min(60.0, max(1.0, self.throughput.wait_s(self.queued, self.capacity)))
        message = f"The request waited {self.queue_timeout_s:g} s in the queue without getting its turn."
        return ApiError(503, message, code="queue_timeout", retry_after_s=retry)


def _late(predicted_s: float, now: float, ticket: Ticket) -> ApiError:
    """``predicted_s``: from now on; the client is told what it would have waited from its request on."""
    waited_s, promised_s = now - ticket.arrived_s, ticket.deadline - ticket.arrived_s
    text = (
        f"The request would get its first token in about {waited_s + predicted_s:.1f} s, "
        f"its class promises {promised_s:.1f} s. Try again later."
    )
    retry_s = min(60.0, max(1.0, waited_s + predicted_s - promised_s))
    return ApiError(429, text, code="predicted_late", retry_after_s=retry_s)
