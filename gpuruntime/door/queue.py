"""The one queue's order, as a pure object: fair between tenants by weight, and within that bound the most urgent first.

    waiting --+-- interactive: a flow a tenant --+-- timely: by the moment it must begin
              |                                  +-- late, or without a deadline: by arrival
              +-- batch (neither deadline nor TPOT): a flow a tenant, by arrival

**Between tenants**: virtual token counters (VTC; Sheng et al., Fairness in Serving Large Language Models, 2024) with a
bounded deficit in place of strict order, as locality-aware schedulers have it (DLPM; Cao et al., 2025). Serving a
request moves its flow's counter by ``cost / weight``: new prompt tokens, little for cached ones, and the output that is
expected; ``charge`` adds what came beyond, ``settle`` gives back what did not. Virtual time is the lowest counter of
those that waited at a ``pop``, and never falls. Flows at most ``freedom`` above it may be served, and of those the one
with the most urgent ticket is, a flow of more than ``CROWD`` tickets behind the others; flows more than ``freedom``
below it are in credit, and go before all others. A flow that begins to wait stands at most ``credit`` below virtual
time: who takes less than its share saves no more.

Bound: let V be virtual time and m the largest cost / weight. A flow that waits stands at V - credit or above, since V
passes no flow that waits, and is served only up to V + freedom, which raises it to at most V + freedom + m. So the
counters of any two flows that wait differ by at most ``credit + freedom + m``, and what they were served per weight in
a span in which both wait differs by at most twice that. Nobody starves: in such a span the lowest flow is the only one
that may be served once every other stands above V + freedom.

**Within a tenant** ``latest_start`` decides, in steps of ``GRAIN_S``, and in one step the request with most of its
prompt in the prefix cache goes first. Tickets whose moment has passed go behind the timely ones and get ``SHARE`` of
what those cost, so that they do not wait for ever.

**Batch** goes when nobody else waits. Beside interactive tickets it earns its share by weight while the one to be
served next is late or has more than ``RISK_S`` to go, and ``SHARE`` of that while it has less.

Every operation takes O(log n) amortised: a ticket is moved from timely to late once, a flow from blocked to eligible
once for each time it was served, and heaps are rebuilt when most of their entries are stale.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuruntime.protocol import WhenLate

NEVER = math.inf
SHARE = 1 / 32  # of what goes before them: for those who would otherwise never be served
RISK_S = 1.0  # a deadline nearer than this is at risk
GRAIN_S = 0.05  # deadlines this close count as equal
_ARRIVED_S = 1.0  # so do arrivals of those who have none

CROWD = 16  # a tenant of whom so many wait goes behind others within the freedom

Key = tuple[int, float, int, int]  # late, step of time, minus cached tokens, order
_TIMELY, _LATE = 0, 1


@dataclass(slots=True, eq=False)
class Ticket:
    """One waiting request. Times are in the clock that ``pop`` is called with.

    ``latest_start``: when it must begin to make ``deadline``, which is of its first token. ``tpot_ms``: the time per
    output token it was promised; None: none. ``prompt_cost``: the part of ``cost`` that is known. ``new_tokens``: of
    its prompt, what has to be computed; ``cached_tokens``: what was computed before. ``degraded``: it gave its deadline
    up.
    """

    tenant: str
    weight: float = 1.0
    cost: float = 1.0
    prompt_cost: float = 0.0
    latest_start: float = NEVER
    tpot_ms: float | None = None
    arrived_s: float = 0.0
    new_tokens: int = 0
    cached_tokens: int = 0
    deadline: float = NEVER
    when_late: WhenLate = "queue"
    degraded: bool = field(default=False, init=False)
    order: int = field(default=0, init=False)
    waiting: bool = field(default=False, init=False)
    charged: float = field(default=0.0, init=False)

    @property
    def batch(self) -> bool:
        return self.latest_start == NEVER and self.tpot_ms is None

    def degrade(self) -> None:
        """Goes on without its deadline, before it waits."""
        self.degraded = self.latest_start != NEVER
        self.latest_start = self.deadline = NEVER

    def following(self) -> Ticket:
        """Of another choice of the same prompt: never before the first, and without the prompt's cost."""
        return Ticket(
            self.tenant,
            self.weight,
            max(1.0, self.cost - self.prompt_cost),
            latest_start=self.latest_start,
            tpot_ms=self.tpot_ms,
            arrived_s=self.arrived_s,
            cached_tokens=self.cached_tokens,
        )

    def key(self, *, late: bool) -> Key:
        moment = self.arrived_s / _ARRIVED_S if late else self.latest_start / GRAIN_S
        return int(late), math.floor(moment), -self.cached_tokens, self.order


@dataclass(slots=True)
class _Flow:
    """One tenant's tickets of one kind. ``counter``: what it was charged, per weight, in virtual tokens.

    ``stamp`` tells the flow's newest entry in the heaps of flows from stale ones; ``credit`` is what late tickets have
    earned of the timely ones.
    """

    tenant: str
    counter: float = -math.inf
    alive: int = 0
    stamp: int = 0
    credit: float = 0.0
    timely: list[tuple[Key, Ticket]] = field(default_factory=list)
    late: list[tuple[Key, Ticket]] = field(default_factory=list)

    def add(self, ticket: Ticket) -> None:
        self.alive += 1
        late = ticket.latest_start == NEVER
        heapq.heappush(self.late if late else self.timely, (ticket.key(late=late), ticket))

    def head(self, now: float) -> Ticket:
        """The ticket to serve next; it stays. There must be one."""
        while self.timely and (not self.timely[0][1].waiting or self.timely[0][1].latest_start < now):
            ticket = heapq.heappop(self.timely)[1]
            if ticket.waiting:
                heapq.heappush(self.late, (ticket.key(late=True), ticket))
        while self.late and not self.late[0][1].waiting:
            heapq.heappop(self.late)
        if self.timely and self.late and self.credit >= self.late[0][1].cost:
            return self.late[0][1]
        return (self.timely or self.late)[0][1]

    def key(self, now: float) -> tuple[int, bool, Key]:
        """Timely ones first, those of a crowd behind others."""
        head = self.head(now)
        key = self.timely[0][0] if self.timely else head.key(late=True)
        return key[0], self.alive > CROWD, key

    def served(self, ticket: Ticket) -> None:
        """``ticket`` was its head and goes."""
        late = bool(self.late) and self.late[0][1] is ticket
        heapq.heappop(self.late if late else self.timely)
        if late:
            self.credit = max(0.0, self.credit - ticket.cost)
        elif self.late:
            self.credit += ticket.cost * SHARE

    def clear(self) -> None:
        self.timely.clear()
        self.late.clear()
        self.credit = 0.0


_Entry = tuple[Any, int, _Flow]


class _Flows:
    """The tenants' flows of one kind, fair between them.

    ``by_counter`` has an entry of each flow that waits, ``eligible`` and ``blocked`` together likewise.
    """

    def __init__(self, freedom: float, credit: float) -> None:
        self.waiting = self.tokens = 0
        self._freedom = freedom
        self._credit = credit
        self._virtual = 0.0
        self._flows: dict[str, _Flow] = {}
        self._sweep_at = 64
        self._stamps = itertools.count(1)
        self._by_counter: list[_Entry] = []
        self._credited: list[_Entry] = []
        self._eligible: list[_Entry] = []
        self._blocked: list[_Entry] = []

    def push(self, ticket: Ticket, now: float) -> None:
        flow = self._flow(ticket.tenant)
        if not flow.alive:
            flow.counter = max(flow.counter, self._virtual - self._credit)
        flow.add(ticket)
        self.waiting += 1
        self.tokens += ticket.new_tokens
        self._file(flow, now)

    def best(self, now: float) -> Ticket:
        """The ticket to serve next; it stays. There must be one."""
        return self._best(now).head(now)

    def take(self, ticket: Ticket, now: float) -> None:
        """Serves the ``best`` of this moment."""
        flow = self._flows[ticket.tenant]
        flow.served(ticket)
        flow.counter += ticket.cost / ticket.weight
        self._gone(flow, ticket, now)
        self._sweep()

    def remove(self, ticket: Ticket) -> None:
        """``ticket`` no longer waits, and its entry in the flow is found stale later."""
        self._gone(self._flows[ticket.tenant], ticket, -math.inf)

    def charge(self, ticket: Ticket, cost: float) -> None:
        flow = self._flow(ticket.tenant)
        flow.counter = max(flow.counter, self._virtual - self._credit) + cost / ticket.weight
        if flow.alive:
            self._file(flow, -math.inf)

    def ahead(self, ticket: Ticket, now: float) -> tuple[int, float]:
        """How many tickets and new prompt tokens would be served before ``ticket``: O(n), an estimate.

        Of its own tenant's those that are more urgent; of another's as much of those as keeps its counter at most
        ``freedom`` above where the ticket's own would stand, and of any as much as leaves it that far below.
        """
        own = self._flows.get(ticket.tenant) or _Flow(ticket.tenant)
        key = ticket.key(late=ticket.latest_start < now or ticket.latest_start == NEVER)
        before = _sums(own, key)
        level = max(own.counter, self._virtual - self._credit) + before.level
        count, tokens = float(before.tickets), float(before.tokens)
        for flow in self._flows.values():
            if not flow.alive or flow is own:
                continue
            urgent, every = _sums(flow, key), _sums(flow, None)
            most, least = level + self._freedom - flow.counter, level - self._freedom - flow.counter
            share = max(min(urgent.level, most), min(every.level, least), 0.0) / every.level
            count += share * every.tickets
            tokens += share * every.tokens
        return math.ceil(count), tokens

    def waiting_of(self, tenant: str) -> int:
        flow = self._flows.get(tenant)
        return 0 if flow is None else flow.alive

    def in_credit(self, tenant: str) -> bool:
        flow = self._flows.get(tenant)
        return flow is None or flow.counter < self._virtual - self._freedom

    def _flow(self, tenant: str) -> _Flow:
        flow = self._flows.get(tenant)
        if flow is None:
            flow = self._flows[tenant] = _Flow(tenant)
        return flow

    def _gone(self, flow: _Flow, ticket: Ticket, now: float) -> None:
        flow.alive -= 1
        self.waiting -= 1
        self.tokens -= ticket.new_tokens
        if flow.alive:
            self._file(flow, now)
        else:
            flow.stamp = 0
            flow.clear()

    def _file(self, flow: _Flow, now: float) -> None:
        """Enters the flow anew: its counter or its head has changed."""
        flow.stamp = next(self._stamps)
        _push(self._by_counter, flow.counter, flow, len(self._flows))
        if flow.counter < self._virtual - self._freedom:
            _push(self._credited, flow.key(now), flow, len(self._flows))
        elif flow.counter <= self._virtual + self._freedom:
            _push(self._eligible, flow.key(now), flow, len(self._flows))
        else:
            _push(self._blocked, flow.counter, flow, len(self._flows))

    def _best(self, now: float) -> _Flow:
        self._virtual = max(self._virtual, _top(self._by_counter)[0])
        while _current(self._blocked) and self._blocked[0][0] <= self._virtual + self._freedom:
            flow = heapq.heappop(self._blocked)[2]
            _push(self._eligible, flow.key(now), flow, len(self._flows))
        flows = self._credited if _current(self._credited) else self._eligible
        while True:
            key, _, flow = _top(flows)
            if key[0] == _LATE or flow.key(now) == key:
                return flow
            heapq.heapreplace(flows, (flow.key(now), flow.stamp, flow))  # its head has become late

    def _sweep(self) -> None:
        """A flow in which nobody waits and that stands no higher than a new one would is no different from one."""
        if len(self._flows) > self._sweep_at:
            new = self._virtual - self._credit
            self._flows = {name: flow for name, flow in self._flows.items() if flow.alive or flow.counter > new}
            self._sweep_at = 64 + 2 * len(self._flows)


class _Sums(NamedTuple):
    tickets: int
    tokens: int
    level: float


def _sums(flow: _Flow, key: Key | None) -> _Sums:
    """Of the flow's tickets that come before ``key``; None: of all."""
    found = [t for at, t in (*flow.timely, *flow.late) if t.waiting and (key is None or at < key)]
    return _Sums(len(found), sum(t.new_tokens for t in found), sum(t.cost / t.weight for t in found))


def _push(heap: list[_Entry], key: Any, flow: _Flow, flows: int) -> None:
    heapq.heappush(heap, (key, flow.stamp, flow))
    if len(heap) > 64 + 4 * flows:
        heap[:] = [entry for entry in heap if entry[1] == entry[2].stamp]
        heapq.heapify(heap)


def _current(heap: list[_Entry]) -> bool:
    """Drops stale entries from the top; whether one is left."""
    while heap and heap[0][1] != heap[0][2].stamp:
        heapq.heappop(heap)
    return bool(heap)


def _top(heap: list[_Entry]) -> _Entry:
    _current(heap)
    return heap[0]


class FairQueue:
    """``len`` counts the waiting tickets, ``new_tokens`` what they have to compute of their prompts."""

    def __init__(self, *, freedom: float = 0.0, credit: float = 0.0) -> None:
        """``freedom`` and ``credit``: in units of cost per weight, see above; with neither it is start-time fair
        queueing (Goyal, Vin, Cheng, 1996)."""
        self._interactive = _Flows(freedom, credit)
        self._batch = _Flows(freedom, credit)
        self._earned = 0.0
        self._order = itertools.count()

    def __len__(self) -> int:
        return self._interactive.waiting + self._batch.waiting

    @property
    def new_tokens(self) -> int:
        return self._interactive.tokens + self._batch.tokens

    def push(self, ticket: Ticket, now: float = -math.inf) -> None:
        if ticket.waiting:
            raise ValueError("the ticket already waits")
        ticket.order = next(self._order)
        ticket.waiting = True
        self._flows(ticket).push(ticket, now)

    def peek(self, now: float, *, batch: bool = True) -> Ticket | None:
        """The ticket to serve next; without ``batch`` as if no batch ticket waited."""
        if not (batch and self._batch.waiting):
            return self._interactive.best(now) if self._interactive.waiting else None
        if not self._interactive.waiting or self.owes_batch(now):
            return self._batch.best(now)
        return self._interactive.best(now)

    def waiting_of(self, tenant: str) -> int:
        return self._interactive.waiting_of(tenant) + self._batch.waiting_of(tenant)

    def in_credit(self, tenant: str) -> bool:
        """Whether the tenant's interactive requests have taken so much less than their share that they go first."""
        return self._interactive.in_credit(tenant)

    def owes_batch(self, now: float) -> bool:
        """Whether batch has earned the turn of its next ticket."""
        if not self._batch.waiting:
            return False
        first = self._batch.best(now)
        return self._earned >= first.cost / first.weight

    def pop(self, now: float, *, batch: bool = True) -> Ticket | None:
        """Serves what ``peek`` shows; None when nobody waits."""
        ticket = self.peek(now, batch=batch)
        if ticket is None:
            return None
        ticket.waiting = False
        ticket.charged = ticket.cost
        self._flows(ticket).take(ticket, now)
        self._earn(ticket, now)
        return ticket

    def ahead(self, ticket: Ticket, now: float) -> tuple[int, float]:
        """How many tickets, and of how many new prompt tokens, would be served before one that does not wait yet."""
        count, tokens = self._flows(ticket).ahead(ticket, now)
        if not ticket.batch:
            return count, tokens
        return count + self._interactive.waiting, tokens + self._interactive.tokens

    def remove(self, ticket: Ticket) -> bool:
        """Takes a ticket out (its client left, its time is over). False when it no longer waits."""
        if not ticket.waiting:
            return False
        ticket.waiting = False
        self._flows(ticket).remove(ticket)
        return True

    def charge(self, ticket: Ticket, cost: float) -> None:
        """What a served ticket has cost by now, where that is beyond what it was charged."""
        if cost > ticket.charged:
            self.settle(ticket, cost)

    def settle(self, ticket: Ticket, actual_cost: float) -> None:
        """Corrects the tenant's share once a served ticket's true cost is known."""
        self._flows(ticket).charge(ticket, actual_cost - ticket.charged)
        ticket.charged = actual_cost

    def _flows(self, ticket: Ticket) -> _Flows:
        return self._batch if ticket.batch else self._interactive

    def _earn(self, ticket: Ticket, now: float) -> None:
        """What waiting batch tickets get for one that was served before them."""
        if not self._batch.waiting:
            self._earned = 0.0
        elif ticket.batch:
            self._earned = max(0.0, self._earned - ticket.cost / ticket.weight)
        else:
            at_risk = ticket.latest_start < now + RISK_S
            self._earned += ticket.cost / ticket.weight * (SHARE if at_risk else 1.0)
