"""Room for what is guaranteed where there is none: replicas beyond a guarantee give way. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.packing.books import Books, table_of
from scheduler.packing.model import Demand, Seat, Slot, part_of_gpu
from scheduler.packing.online import Choice


@dataclass(frozen=True, slots=True)
class Preemption:
    """``choice`` is legal once the ``victims`` are gone; ``lost``: the burst goodput that ends with them."""

    choice: Choice
    victims: tuple[Seat, ...]
    lost: float


def preempt(books: Books, demand: Demand, demands: Mapping[str, Demand]) -> Preemption | None:
    """Where a guaranteed replica fits if only burst replicas go, and the least goodput is lost; None: nowhere."""
    found: Preemption | None = None
    slots = [slot for slot, rate in demand.rates.items() if rate > 0 and slot.kind >= demand.isolation]
    for gpu in books.gpus:
        if not gpu.takes_new or books.too_near(demand.id, demand.spread, gpu):
            continue
        seats = books.on(gpu.id)
        if not any(seat.burst for seat in seats):
            continue
        for slot in slots:
            if slot.board != gpu.board or slot.kind not in gpu.kinds:
                continue
            for start, victims in _ways(books, demand, gpu.id, slot, seats):
                lost = sum(demands[v.demand].rates.get(v.slot, 0.0) for v in victims if v.demand in demands)
                rank = (lost, part_of_gpu(slot), len(victims))
                if found is None or rank < (found.lost, part_of_gpu(found.choice.slot), len(found.victims)):
                    found = Preemption(Choice(gpu.id, slot, start, 0.0, False), victims, lost)
    return found


def _ways(
    books: Books, demand: Demand, gpu: str, slot: Slot, seats: tuple[Seat, ...]
) -> list[tuple[int, tuple[Seat, ...]]]:
    """Each legal start of ``slot`` that burst replicas alone hold, and which."""
    room, table = books.room(gpu), table_of(slot)
    starts = [p for p in table.placements if table.names[p.profile] == slot.profile]
    fits = room.kind is slot.kind and (slot.kind.mixes_trust or room.trust == demand.trust)
    if not fits:  # cut otherwise: all of it must go
        may_go = not room.blocked and all(seat.burst for seat in seats)
        return [(starts[0].start, seats)] if may_go else []
    found = []
    for placement in starts:
        others = [(seat, table.placement(seat.slot.profile, seat.start)) for seat in seats]
        gone = tuple(seat for seat, other in others if other.units & placement.units)
        stays = room.state & ~sum(1 << other.index for seat, other in others if other.units & placement.units)
        if gone and all(seat.burst for seat in gone) and table.can_add(stays, placement):
            found.append((placement.start, gone))
    return found
