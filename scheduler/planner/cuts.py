"""The GPUs that are cut, as a newcomer finds them: where it fits, how each is judged, why none has a place. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from scheduler.geometry.boards import board
from scheduler.geometry.layouts import layouts
from scheduler.packing.books import Books, Room, table_of
from scheduler.packing.mixes import Item, Worth, cheapest
from scheduler.packing.model import ENOUGH, Demand, Seat, Slot, Spread, part_of_gpu, profile_of
from scheduler.packing.online import Choice, Placer, Policy
from scheduler.packing.refusals import Refusal, slots_here, smallest, why_no_place, why_not_in
from scheduler.planner.fleet import GOING

# Costs stay below; a score falls with the cost from 1 to 0.
_DEAREST = 10.0
_UNKNOWN = "nothing is known of what it gives on a GPU that is cut"
Shape = tuple[frozenset[Slot], str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one GPU. ``why_not`` empty: ``slot`` at ``start`` is free. ``score``: higher is better, between 0 and 1."""

    why_not: str
    score: float
    slot: Slot | None
    start: int | None
    units: int
    units_free: int
    units_needed: int


class Cuts:
    """``closed``: GPUs that take nothing new, and why. What is found is put by ``put``: the books follow."""

    def __init__(self, books: Books, closed: Mapping[str, str], policy: Policy) -> None:
        self.books, self.closed = books, closed
        self.placer = Placer(books, policy)
        self.kept = frozenset(reserve.board for reserve in policy.reserves)
        self._on: dict[str, set[str]] = {}
        for gpu in books.gpus:
            self._on.setdefault(gpu.node, set()).add(gpu.id)
        # Until somebody goes: where a kind of newcomer found no room, it finds none later.
        self._full: set[tuple[Shape, bool]] = set()

    def find(
        self,
        demand: Demand,
        slots: Collection[Slot],
        lacking: float,
        *,
        burst: bool = False,
        nodes: Collection[str] = (),
        gpus: frozenset[str] = frozenset(),
    ) -> tuple[Choice, tuple[Slot, ...]] | None:
        """A place in one of ``slots``, else in those on the cheapest way to ``lacking`` as the fleet is, else in any;
        not on ``nodes``, nor on ``gpus``. With it those slots, none for any.
        """
        if not self.books.gpus or not demand.rates:
            return None
        shape = shape_of(demand)
        if (shape, burst) in self._full or (shape, False) in self._full:
            return None
        without = gpus.union(*(self._on.get(node, ()) for node in nodes))
        choice = self.placer.find(demand, slots, burst=burst, without=without) if slots else None
        if choice is not None:
            return choice, tuple(slots)
        others = self.placer.slots_for(demand, lacking) if lacking > 0 else []
        choice = self.placer.find(demand, others, burst=burst, without=without) if others else None
        if choice is not None:
            return choice, tuple(others)
        choice = self.placer.find(demand, burst=burst, without=without)
        if choice is not None:
            return choice, ()
        if not without and (demand.spread is Spread.NONE or not self.books.of(demand.id)):
            self._full.add((shape, burst))
        return None

    def sized(self, demand: Demand, lacking: float) -> tuple[Slot, ...]:
        """The slots for one more replica on the way to ``lacking`` tokens/s that takes the least of GPUs, the largest
        of that way; none where nothing is lacking: any will do.
        """
        slots = slots_here(self.books, demand)
        if lacking <= 0 or not slots:
            return ()
        items = [Item(n, demand.rates[slot], part_of_gpu(slot)) for n, slot in enumerate(slots)]
        mix = cheapest(items, Worth(lacking, lacking, 1e6 / lacking, 0.0))
        if not mix.counts:
            return ()
        best = max((slots[n] for n, _ in mix.counts), key=lambda slot: (part_of_gpu(slot), demand.rates[slot]))
        part, need = part_of_gpu(best), ENOUGH * min(lacking, demand.rates[best])
        return tuple(slot for slot in slots if part_of_gpu(slot) <= part and demand.rates[slot] >= need)

    def put(self, name: str, demand: Demand, choice: Choice, *, burst: bool, now: float) -> Seat:
        return self.placer.seat(name, demand, choice, now=now, burst=burst)

    def take(self, replica: str) -> None:
        """It is gone, and what found no room may find some."""
        self.books.take(replica)
        self._full.clear()

    def let_go(self, replica: str) -> None:
        """It keeps its units until it is gone, but nobody has to keep away from it."""
        seat = self.books.take(replica)
        self.books.put(replace(seat, demand=GOING, burst=False))

    # --- for people ---------------------------------------------------------------------------------------------------

    def why_none(self, demand: Demand | None, *, burst: bool, promised: Collection[str]) -> str:
        if demand is None:
            return _UNKNOWN.capitalize()
        return why_no_place(self.books, demand, kept=self.kept if burst else (), promised=promised)

    def judge(
        self, demand: Demand | None, slots: Collection[Slot], *, burst: bool, promised: Collection[str]
    ) -> Callable[[str], Verdict]:
        """How each GPU looks to one more replica; GPUs that look alike are judged once."""
        here = slots_here(self.books, demand) if demand is not None else []
        rooms: dict[Room, Verdict] = {}
        refused: dict[tuple[Room, str], Verdict] = {}

        def of(gpu: str) -> Verdict:
            room = self.books.room(gpu)
            why = self._elsewhere(demand, gpu, promised)
            if why:
                if (room, why) not in refused:
                    refused[room, why] = _refused(room, here, why)
                return refused[room, why]
            if demand is not None and room not in rooms:
                rooms[room] = self._verdict(demand, here, slots, room, burst)
            return rooms[room]

        return of

    def _elsewhere(self, demand: Demand | None, gpu: str, promised: Collection[str]) -> str:
        """Why it may not have ``gpu``, whatever is free there."""
        if demand is None:
            return _UNKNOWN
        if gpu in self.closed:
            return self.closed[gpu]
        near = self.books.too_near(demand.id, demand.spread, self.books.gpu(gpu))
        refusal = Refusal.NEAR if near else Refusal.PROMISED if gpu in promised else None
        return refusal.of_one(demand, self.books.room(gpu)) if refusal is not None else ""

    def _verdict(self, demand: Demand, here: list[Slot], wanted: Collection[Slot], room: Room, burst: bool) -> Verdict:
        preferred = self.placer.best_in(demand, room, wanted) if wanted else None
        best = preferred or self.placer.best_in(demand, room)
        if best is not None and not (burst and room.kind is None and self.placer.keeps(best[1])):
            cost, slot, start = best
            score = (1 - min(cost, _DEAREST) / _DEAREST + (preferred is not None)) / 2
            table = table_of(slot)
            return Verdict("", score, slot, start, table.units, table.free_units(room.state), profile_of(slot).size)
        if not any(slot.board == room.board for slot in here):
            return _refused(room, here, "it fits no slot of this type of GPU")
        why = why_not_in(demand, here, room, self.kept if burst else ())
        return _refused(room, here, why.of_one(demand, room))


def _refused(room: Room, here: list[Slot], why: str) -> Verdict:
    units = board(room.board).cut(room.kind.cut).units if room.kind is not None else board(room.board).mig.units
    free = layouts(room.board, room.kind.cut).free_units(room.state) if room.kind is not None else units
    mine = [slot for slot in here if slot.board == room.board and room.kind in (None, slot.kind)]
    least = smallest(mine) if mine else None
    if least is None:
        return Verdict(why, 0.0, None, None, units, free, 0)
    needed = profile_of(least).size
    figures = (
        f"; {least.profile} needs {needed} of {units} units, {free} are free" if why == Refusal.FULL.value[1] else ""
    )
    return Verdict(why + figures, 0.0, None, None, units, free, needed)


def shape_of(demand: Demand) -> Shape:
    """Demands alike in this find the same GPUs, as long as no replica of theirs is near."""
    slots = frozenset(slot for slot, rate in demand.rates.items() if rate > 0 and slot.kind >= demand.isolation)
    shared = any(not slot.kind.mixes_trust for slot in slots)
    return slots, demand.trust if shared else ""
