"""GPUs that take nothing new, as on a cordoned node: who sits there stays, and the plan is for the rest. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.packing.model import ENOUGH, Demand, Fleet, Seat


@dataclass(frozen=True)
class Rest:
    """What is to be planned: ``fleet`` of the GPUs that take replicas, and what ``demands`` still ask of it.

    ``standing``: the seats that were left out; ``counts``: how many of each deployment they are.
    """

    fleet: Fleet
    demands: Mapping[str, Demand]
    standing: tuple[Seat, ...]
    counts: Mapping[str, int]


def besides(fleet: Fleet, demands: Mapping[str, Demand]) -> Rest:
    """What the standing seats serve is taken off what is asked for."""
    gpus = tuple(gpu for gpu in fleet.gpus if gpu.takes_new)
    known = {gpu.id for gpu in gpus}
    standing = tuple(seat for seat in fleet.seats if seat.gpu not in known)
    count = Counter(seat.demand for seat in standing)
    served: dict[str, float] = dict.fromkeys(demands, 0.0)
    for seat in standing:
        if seat.demand in demands:
            served[seat.demand] += demands[seat.demand].rates.get(seat.slot, 0.0)
    left = {name: _less(demand, served[name], count[name]) for name, demand in demands.items()}
    seats = tuple(seat for seat in fleet.seats if seat.gpu in known)
    asked = {name: demand for name, demand in left.items() if demand is not None}
    return Rest(replace(fleet, gpus=gpus, seats=seats), asked, standing, count)


def _less(demand: Demand, served: float, count: int) -> Demand | None:
    """None: all of it is served."""
    if not count:
        return demand
    guaranteed = max(0.0, demand.guaranteed - served)
    burst = max(0.0, demand.burst - max(0.0, served - demand.guaranteed))
    replicas = max(0, demand.min_replicas - count)
    if replicas == 0 and served >= ENOUGH * demand.wanted:
        return None
    return replace(demand, guaranteed=guaranteed, burst=burst, min_replicas=max(1, replicas))
