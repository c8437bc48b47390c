"""Why a replica has no place: for a person, with figures. Pure."""

from __future__ import annotations

from collections import Counter

from scheduler.packing.books import Books, table_of
from scheduler.packing.model import Demand, Slot, Spread, part_of_gpu, profile_of

_NEAR = {Spread.GPU: "GPU", Spread.NODE: "node", Spread.DOMAIN: "fault domain"}


def why_no_place(books: Books, demand: Demand, *, kept: frozenset[str] = frozenset()) -> str:
    """``kept``: boards whose empty GPUs are reserved for larger slots."""
    slots = [slot for slot, rate in demand.rates.items() if rate > 0 and slot.kind >= demand.isolation]
    boards = {gpu.board for gpu in books.gpus}
    if not demand.rates or not slots:
        return f"No slot of any GPU type holds it: it needs {demand.isolation.label} isolation and more than any has"
    here = [slot for slot in slots if slot.board in boards]
    if not here:
        takes = ", ".join(sorted({slot.board for slot in slots}))
        return f"It runs on {takes}; the fleet has {', '.join(sorted(boards)) or 'no GPU'}"
    reasons = Counter(_reason(books, demand, here, number, kept) for number in range(len(books.gpus)))
    smallest = min(here, key=lambda slot: (part_of_gpu(slot), slot))
    needs = f"{smallest.profile} ({profile_of(smallest).memory_bytes / 1e9:.1f} GB) or more"
    told = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return f"None of {len(books.gpus)} GPUs has a place for {needs}: {told}"


def _reason(books: Books, demand: Demand, slots: list[Slot], number: int, kept: frozenset[str]) -> str:
    gpu = books.gpus[number]
    room = books.room(gpu.id)
    suits = [slot for slot in slots if slot.board == gpu.board and slot.kind in gpu.kinds]
    alike = [slot for slot in suits if room.kind in (None, slot.kind)]
    if not gpu.takes_new:
        why = "take nothing new"
    elif not suits:
        why = "cannot be cut or shared that way"
    elif books.too_near(demand.id, demand.spread, gpu):
        why = f"hold a replica of it on the same {_NEAR[demand.spread]}"
    elif room.kind is None:
        why = "are kept empty for larger slots" if gpu.board in kept else "are empty"
    elif not alike:
        why = f"are {room.kind.label}"
    elif room.trust not in ("", demand.trust):
        why = "are shared within another trust domain"
    elif any(table_of(slot).free_units(room.state) >= profile_of(slot).size for slot in alike):
        why = "have units free, but not where it may start"
    else:
        why = "are full"
    return why
