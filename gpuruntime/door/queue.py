"""The one queue's order, as a pure object: fair between tenants by weight, urgent first within a tenant.

Between tenants: start-time fair queueing (Goyal, Vin, Cheng, 1996). A request's start tag is
``max(virtual time, its tenant's last finish tag)``; serving it moves the tenant's finish tag by ``cost / weight``.
While two tenants stay backlogged, their served costs per weight differ by at most one request of each. Costs are
estimates in tokens, corrected by ``settle`` when the true cost is known.

Within a tenant: the smallest ``latest_start`` first (the moment by which it must begin to make its TTFT). Those that
can no longer make it come after those that can, in order of arrival; those without a deadline come last.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field

NEVER = math.inf


@dataclass(slots=True, eq=False)
class Ticket:
    """One waiting request. ``latest_start`` is in the clock that ``pop`` is called with.

    ``tpot_ms``: the time per output token it was promised; None: none.
    """

    tenant: str
    weight: float = 1.0
    cost: float = 1.0
    latest_start: float = NEVER
    tpot_ms: float | None = None
    order: int = field(default=0, init=False)
    waiting: bool = field(default=False, init=False)

    def following(self, prompt_cost: float) -> Ticket:
        """Of another choice of the same prompt: never before the first, and without the prompt's cost."""
        cost = max(1.0, self.cost - prompt_cost)
        return Ticket(self.tenant, self.weight, cost, latest_start=self.latest_start, tpot_ms=self.tpot_ms)


@dataclass(slots=True)
class _Lane:
    """One tenant's tickets. ``timely`` is ordered by latest start, the other two by arrival."""

    finish: float = 0.0
    alive: int = 0
    timely: list[tuple[float, int, Ticket]] = field(default_factory=list)
    late: list[tuple[int, Ticket]] = field(default_factory=list)
    endless: list[tuple[int, Ticket]] = field(default_factory=list)

    def add(self, ticket: Ticket) -> None:
        self.alive += 1
        if ticket.latest_start == NEVER:
            heapq.heappush(self.endless, (ticket.order, ticket))
        else:
            heapq.heappush(self.timely, (ticket.latest_start, ticket.order, ticket))

    def take(self, now: float) -> Ticket:
        while self.timely and (self.timely[0][0] < now or not self.timely[0][2].waiting):
            _, order, ticket = heapq.heappop(self.timely)
            heapq.heappush(self.late, (order, ticket))
        if self.timely:
            return heapq.heappop(self.timely)[2]
        for heap in (self.late, self.endless):
            while heap:
                ticket = heapq.heappop(heap)[1]
                if ticket.waiting:
                    return ticket
        raise AssertionError("a lane with live tickets holds none")


class FairQueue:
    """``len`` counts the waiting tickets. Every operation is O(tenants + log n)."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._virtual = 0.0
        self._order = itertools.count()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def push(self, ticket: Ticket) -> None:
        if ticket.waiting:
            raise ValueError("the ticket already waits")
        ticket.order = next(self._order)
        ticket.waiting = True
        self._waiting += 1
        self._lanes.setdefault(ticket.tenant, _Lane()).add(ticket)

    def pop(self, now: float) -> Ticket | None:
        """The ticket to serve next, or None when nobody waits."""
        backlogged = [(max(self._virtual, lane.finish), name) for name, lane in self._lanes.items() if lane.alive]
        if not backlogged:
            return None
        self._virtual, name = min(backlogged)
        lane = self._lanes[name]
        ticket = lane.take(now)
        self._forget(ticket, lane)
        lane.finish = self._virtual + ticket.cost / ticket.weight
        self._drop_idle_lanes()
        return ticket

    def remove(self, ticket: Ticket) -> bool:
        """Takes a ticket out (its client left, its time is over). False when it no longer waits."""
        if not ticket.waiting:
            return False
        self._forget(ticket, self._lanes[ticket.tenant])
        return True

    def settle(self, ticket: Ticket, actual_cost: float) -> None:
        """Corrects the tenant's share once a served ticket's true cost is known."""
        lane = self._lanes.setdefault(ticket.tenant, _Lane(finish=self._virtual))
        lane.finish = max(0.0, lane.finish + (actual_cost - ticket.cost) / ticket.weight)

    def _forget(self, ticket: Ticket, lane: _Lane) -> None:
        ticket.waiting = False
        lane.alive -= 1
        self._waiting -= 1
        if not lane.alive:  # what is left in the heaps was removed: let it go
            lane.timely.clear()
            lane.late.clear()
            lane.endless.clear()

    def _drop_idle_lanes(self) -> None:
        """A lane that nobody waits in and that owes nothing is no different from a new one."""
        if len(self._lanes) > 64:
            for name in [n for n, lane in self._lanes.items() if not lane.alive and lane.finish <= self._virtual]:
                del self._lanes[name]
