"""Those who place: the usual ways, and ours. Each decides for one demand that comes; all keep the same books.

whole       every replica on a GPU of its own
all-1g      every GPU cut into the smallest slices; what does not fit there gets a whole GPU
first-fit   the smallest slot that holds the model, as often as the demand asks, at the lowest start of the first GPU
            that has room: a profile by memory, a count by load, as device plugins and InstaSlice have it
best-fit    the same slots, on the GPU with fewest units left
sized       first-fit that knows goodput by slot: the smallest slot that serves the demand alone, else as many as
            needed of the slot that takes least
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from scheduler.geometry.layouts import layouts
from scheduler.packing.books import Books, table_of
from scheduler.packing.compact import compact
from scheduler.packing.model import Demand, Isolation, Seat, Slot, part_of_gpu
from scheduler.packing.online import Placer, Policy

Slots = Callable[[Demand], list[Slot]]


class Spot(NamedTuple):
    gpu: str
    start: int


def _legal(demand: Demand, kinds: Iterable[Isolation]) -> list[Slot]:
    """Without MPS: the usual ways do not know who may share with whom."""
    allowed = set(kinds)
    return [slot for slot in demand.rates if slot.kind in allowed and slot.kind >= demand.isolation]


def _as_many(demand: Demand, slot: Slot) -> list[Slot]:
    return [slot] * max(demand.min_replicas, math.ceil(demand.wanted / demand.rates[slot] - 1e-9))


def whole(demand: Demand) -> list[Slot]:
    slots = _legal(demand, [Isolation.WHOLE]) or [max(demand.rates, key=part_of_gpu)]
    return _as_many(demand, slots[0])


def smallest_unit(demand: Demand) -> list[Slot]:
    slots = _legal(demand, [Isolation.MIG])
    least = [slot for slot in slots if slot.profile == layouts(slot.board, "mig").names[0]]
    return _as_many(demand, least[0]) if least else whole(demand)


def by_memory(demand: Demand) -> list[Slot]:
    slots = _legal(demand, [Isolation.MIG, Isolation.WHOLE])
    return _as_many(demand, min(slots, key=lambda slot: (part_of_gpu(slot), demand.rates[slot])))


def sized(demand: Demand) -> list[Slot]:
    slots = _legal(demand, [Isolation.MIG, Isolation.WHOLE])
    alone = [slot for slot in slots if demand.rates[slot] >= demand.wanted]
    if alone:
        return [min(alone, key=lambda slot: (part_of_gpu(slot), demand.rates[slot]))]
    return min((_as_many(demand, slot) for slot in slots), key=lambda mix: sum(map(part_of_gpu, mix)))


class Usual:
    """Slots by ``slots``, then the first GPU or the fullest."""

    def __init__(self, books: Books, slots: Slots, *, fullest: bool = False) -> None:
        self.books, self.slots, self.fullest = books, slots, fullest

    def place(self, demand: Demand, now: float) -> bool:
        return seat_all(self.books, demand, self.slots(demand), self._spot, now)

    def _spot(self, demand: Demand, slot: Slot) -> Spot | None:
        best: tuple[int, Spot] | None = None
        for gpu, room in self.books.rooms():
            if best is not None and room.kind is None:
                continue
            if room.kind not in (None, slot.kind) or self.books.too_near(demand.id, demand.spread, gpu):
                continue
            table = table_of(slot)
            starts = [p.start for p in table.additions(room.state) if table.names[p.profile] == slot.profile]
            if not starts:
                continue
            spot = Spot(gpu.id, min(starts))
            if not self.fullest:
                return spot
            left = table.free_units(room.state)
            if best is None or left < best[0]:
                best = left, spot
        return best[1] if best is not None else None


class Ours:
    """``moves``: how many replicas may move after each arrival; 0: nobody does."""

    def __init__(
        self, books: Books, policy: Policy, *, moves: int = 0, every: int = 1, slots: Slots | None = None
    ) -> None:
        self.books, self.placer, self.budget, self.slots = books, Placer(books, policy), moves, slots
        self.demands: dict[str, Demand] = {}
        self.every, self.arrived = every, 0
        self.moved = 0

    def place(self, demand: Demand, now: float) -> bool:
        if self.slots is None:
            names = list(demand.rates)
            mix = [names[n] for n, count in self.placer.mix(demand).counts for _ in range(count)]
            mix.sort(key=part_of_gpu, reverse=True)
        else:
            mix = self.slots(demand)
        if not mix or not seat_all(self.books, demand, mix, self._spot, now):
            return False
        self.demands[demand.id] = demand
        return True

    def after(self) -> None:
        """Between two arrivals."""
        self.arrived += 1
        if self.budget and self.arrived % self.every == 0:
            bundles = compact(self.placer, self.demands, budget=self.budget, most_bundles=1)
            self.moved += sum(len(bundle.changes) for bundle in bundles)

    def _spot(self, demand: Demand, slot: Slot) -> Spot | None:
        choice = self.placer.find(demand, [slot])
        return Spot(choice.gpu, choice.start) if choice is not None else None


def seat_all(
    books: Books, demand: Demand, slots: list[Slot], spot: Callable[[Demand, Slot], Spot | None], now: float
) -> bool:
    """All replicas or none."""
    seated: list[str] = []
    for n, slot in enumerate(slots):
        found = spot(demand, slot)
        if found is None:
            for replica in seated:
                books.take(replica)
            return False
        seat = Seat(f"{demand.id}/{n}", demand.id, demand.trust, found.gpu, slot, found.start, now)
        books.put(seat, demand.spread)
        seated.append(seat.replica)
    return True
