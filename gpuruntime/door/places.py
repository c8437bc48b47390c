"""What is kept free in the engine: places for tenants that take less than their share, and slack before batch."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from gpuruntime.door.queue import NEVER, Ticket

HALF_LIFE_S = 20.0  # of how many places a tenant is remembered to have had
CLOSE = 0.3  # a first token that leaves less of its time than this came close to its deadline
_GONE = 0.1  # of a place: a tenant that is remembered no more
_MORE, _FEWER, _MOST = 0.1, 0.5, 1024.0


@dataclass(slots=True)
class _Tenant:
    weight: float
    running: int = 0
    peak: float = 0.0
    at_s: float = 0.0


class Places:
    """How many each tenant has, and lately had at most. ``kept_from`` is O(tenants that ran something of late)."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Tenant] = {}

    def enter(self, tenant: str, weight: float, now: float) -> None:
        found = self._tenants.setdefault(tenant, _Tenant(weight))
        found.weight = weight
        found.running += 1
        self._move(found, now)

    def leave(self, tenant: str, now: float) -> None:
        found = self._tenants[tenant]
        self._move(found, now)
        found.running -= 1
        if len(self._tenants) > 64:
            for name in [name for name, other in self._tenants.items() if not other.running and other.peak < 0.5]:
                del self._tenants[name]

    def kept_from(self, tenant: str, capacity: int, now: float) -> int | None:
        """How many places ``tenant`` has to leave free for others; None where it may take all.

        Only one that has its share of the places leaves some: to each other one more than it lately had at once, less
        what it has now, up to its share.
        """
        weights = sum(other.weight for other in self._tenants.values())
        own = self._tenants.get(tenant)
        if own is None or own.running < capacity * own.weight / weights:
            return None
        kept, present = 0, False
        for name, other in self._tenants.items():
            self._move(other, now)
            if name == tenant or other.peak < _GONE:
                continue
            present = True
            most = min(math.ceil(other.peak + 0.5), math.floor(capacity * other.weight / weights))
            kept += max(0, most - other.running)
        return kept if present else None

    def _move(self, tenant: _Tenant, now: float) -> None:
        tenant.peak = max(tenant.running, tenant.peak * 0.5 ** ((now - tenant.at_s) / HALF_LIFE_S))
        tenant.at_s = now


class RoomForBatch:
    """How many batch requests may run beside others: additive increase with each first token well before its deadline,
    multiplicative decrease with each that was close or late."""

    def __init__(self) -> None:
        self._most = 1.0

    def first_token(self, ticket: Ticket, now: float) -> None:
        """``ticket`` has its first token ``now``."""
        if ticket.deadline == NEVER:
            return
        left = (ticket.deadline - now) / max(1e-3, ticket.deadline - ticket.arrived_s)
        self._most = min(_MOST, self._most + _MORE) if left >= CLOSE else self._most * _FEWER

    def fits(self, running: Collection[Ticket]) -> bool:
        """Whether one more does; it always does beside nothing but batch."""
        batch = sum(ticket.batch for ticket in running)
        return batch == len(running) or batch + 1 <= self._most
