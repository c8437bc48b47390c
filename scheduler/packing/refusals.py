"""Why a replica has no place: for a person, with figures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import Enum

from scheduler.packing.books import Books, Room, table_of
from scheduler.packing.model import Demand, Gpu, Slot, Spread, part_of_gpu, profile_of

_NEAR = {Spread.GPU: "GPU", Spread.NODE: "node", Spread.DOMAIN: "fault domain"}


class Refusal(Enum):
    """Why one GPU has no place: as said of several, and of one."""

    CLOSED = "take nothing new", "takes nothing new"
    UNSUITED = "cannot be cut or shared that way", "cannot be cut or shared that way"
    NEAR = "hold a replica of it on the same {near}", "a replica of it is on the same {near}"
    KEPT = "are kept empty for larger slots", "is kept empty for larger slots"
    PROMISED = "are promised to others", "is promised to another that waits"
    EMPTY = "are empty", "is empty"
    OTHER_KIND = "are {kind}", "is {kind}"
    BLOCKED = "hold instances that cannot be removed", "holds instances that cannot be removed"
    STRANGERS = "are shared within another trust domain", "is shared within another trust domain"
    WRONG_PLACE = "have units free, but not where it may start", "has units free, but not where it may start"
    FULL = "are full", "is full"

    def of_several(self, demand: Demand, room: Room) -> str:
        return self._filled(self.value[0], demand, room)

    def of_one(self, demand: Demand, room: Room) -> str:
        return self._filled(self.value[1], demand, room)

    def _filled(self, text: str, demand: Demand, room: Room) -> str:
        kind = room.kind.label if room.kind is not None else "empty"
        return text.format(near=_NEAR.get(demand.spread, ""), kind=kind)


def slots_here(books: Books, demand: Demand) -> list[Slot]:
    """The slots that the demand takes, of boards that the fleet has."""
    boards = {gpu.board for gpu in books.gpus}
    return [s for s, rate in demand.rates.items() if rate > 0 and s.kind >= demand.isolation and s.board in boards]


def smallest(slots: Collection[Slot]) -> Slot:
    return min(slots, key=lambda slot: (part_of_gpu(slot), slot))


def why_no_place(
    books: Books, demand: Demand, *, kept: Collection[str] = (), promised: Collection[str] = frozenset()
) -> str:
    """``kept``: boards whose empty GPUs are reserved for larger slots; ``promised``: GPUs that others will have."""
    slots = [slot for slot, rate in demand.rates.items() if rate > 0 and slot.kind >= demand.isolation]
    if not slots:
        return f"No slot of any GPU type holds it: it needs {demand.isolation.label} isolation and more than any has"
    here = slots_here(books, demand)
    if not here:
        takes = ", ".join(sorted({slot.board for slot in slots}))
        fleet = sorted({gpu.board for gpu in books.gpus})
        return f"It runs on {takes}; the fleet has {', '.join(fleet) or 'no GPU'}"
    reasons = _counted(books, demand, here, kept, promised)
    least = smallest(here)
    needs = f"{least.profile} ({profile_of(least).memory_bytes / 1e9:.1f} GB) or more"
    told = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return f"None of {len(books.gpus)} GPUs has a place for {needs}: {told}"


def _counted(
    books: Books, demand: Demand, slots: list[Slot], kept: Collection[str], promised: Collection[str]
) -> Counter[str]:
    """GPUs that look alike are judged together, unless the demand has replicas that they may be too near to."""
    found: Counter[str] = Counter()
    if promised or (demand.spread is not Spread.NONE and books.of(demand.id)):
        for gpu in books.gpus:
            why = why_not_on(books, demand, slots, gpu, kept=kept, promised=promised)
            found[why.of_several(demand, books.room(gpu.id))] += 1
        return found
    for room, numbers in books.buckets.items():
        found[why_not_in(demand, slots, room, kept).of_several(demand, room)] += len(numbers)
    closed = len(books.gpus) - found.total()
    if closed:
        found[Refusal.CLOSED.value[0]] += closed
    return found


def why_not_on(
    books: Books,
    demand: Demand,
    slots: list[Slot],
    gpu: Gpu,
    *,
    kept: Collection[str] = (),
    promised: Collection[str] = frozenset(),
) -> Refusal:
    """Why ``gpu`` has no place for it; that it has one is not looked at."""
    if not gpu.takes_new:
        return Refusal.CLOSED
    if books.too_near(demand.id, demand.spread, gpu):
        return Refusal.NEAR
    if gpu.id in promised:
        return Refusal.PROMISED
    return why_not_in(demand, slots, books.room(gpu.id), kept)


def why_not_in(demand: Demand, slots: list[Slot], room: Room, kept: Collection[str] = ()) -> Refusal:
    suits = [slot for slot in slots if slot.board == room.board and slot.kind in room.kinds]
    alike = [slot for slot in suits if room.kind in (None, slot.kind)]
    why = Refusal.FULL
    if not suits:
        why = Refusal.UNSUITED
    elif room.kind is None:
        why = Refusal.KEPT if room.board in kept else Refusal.EMPTY
    elif not alike:
        why = Refusal.BLOCKED if room.blocked else Refusal.OTHER_KIND
    elif room.trust not in ("", demand.trust):
        why = Refusal.STRANGERS
    elif any(table_of(slot).free_units(room.state) >= profile_of(slot).size for slot in alike):
        why = Refusal.WRONG_PLACE
    return why
