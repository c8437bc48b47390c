"""What a plan says, and what follows from seats: plain data for the database, the console and the executor. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from scheduler.packing.compact import Change
from scheduler.packing.model import ENOUGH, Demand, Fleet, Gpu, Pending, Seat, part_of_gpu
from scheduler.packing.moves import Order
from scheduler.packing.offers import Group, Offer

Kind = Literal["nothing", "insert", "compact", "exact"]
_EPS = 1e-6


@dataclass(frozen=True)
class Rules:
    """``load_s``: from start to ready; both seats are held as long, and ``drain_s`` more. ``budget``: moves a plan.

    ``caution``: so many times its moves' cost a plan must gain over the horizon; ``least_gain``: and so much of the
    fleet. Replicas younger than ``dwell_s`` stay where they are. ``may_interrupt``: burst, where no other order leads
    there.
    """

    horizon_s: float = 1800.0
    load_s: float = 60.0
    drain_s: float = 20.0
    caution: float = 1.5
    least_gain: float = 0.02
    dwell_s: float = 1200.0
    budget: int = 16
    time_limit_s: float = 4.0
    may_interrupt: bool = True


@dataclass(frozen=True)
class Candidate:
    """One way on. ``objective``: GPUs in use and, in GPUs, what is not served.

    ``gain_gpu_s``: over the horizon, against the plan that moves nobody; ``net_gpu_s``: less what moves cost, with
    caution. ``why_not`` empty: it may be taken.
    """

    kind: Kind
    objective: float
    gpus: int
    short_of_guarantee: float
    moves: int
    gain_gpu_s: float
    cost_gpu_s: float
    net_gpu_s: float
    why_not: str = ""


@dataclass(frozen=True)
class Plan:
    """``seats``: the fleet once all waves are through. ``bound``: no plan's objective is less; ``gap``: over it."""

    kind: Kind
    why: str
    inputs: Mapping[str, Any]
    objective: float
    bound: float
    gap: float
    changes: tuple[Change, ...]
    order: Order
    seats: tuple[Seat, ...]
    pending: tuple[Pending, ...]
    candidates: tuple[Candidate, ...]
    seconds: float


def current_mixes(fleet: Fleet) -> dict[str, dict[Offer, int]]:
    """Demand -> offer -> replicas, as they sit on GPUs that are planned by numbers."""
    gpus: dict[str, Gpu] = {gpu.id: gpu for gpu in fleet.gpus}
    found: dict[str, dict[Offer, int]] = {}
    for seat in fleet.seats:
        gpu = gpus[seat.gpu]
        if gpu.takes_new and not gpu.blocked:
            offer = Offer(Group(gpu.board, gpu.kinds), seat.slot, "" if seat.slot.kind.mixes_trust else seat.trust)
            mix = found.setdefault(seat.demand, {})
            mix[offer] = mix.get(offer, 0) + 1
    return found


def served_by(seats: Iterable[Seat], demands: Mapping[str, Demand]) -> dict[str, float]:
    """Goodput by demand, in tokens/s."""
    found: dict[str, float] = {}
    for seat in seats:
        if seat.demand in demands:
            found[seat.demand] = found.get(seat.demand, 0.0) + demands[seat.demand].rates.get(seat.slot, 0.0)
    return found


def short_of_guarantee(seats: Iterable[Seat], demands: Mapping[str, Demand]) -> float:
    """Guaranteed goodput that is missing to what is enough of it, in tokens/s."""
    served = served_by(seats, demands)
    return sum(max(0.0, ENOUGH * demand.guaranteed - served.get(demand.id, 0.0)) for demand in demands.values())


def paired(before: Iterable[Seat], after: Iterable[Seat], demands: Mapping[str, Demand]) -> list[Change]:
    """Who goes where: of each demand, those that leave a seat with those that come, the largest with the largest."""
    old, new = {seat.replica: seat for seat in before}, {seat.replica: seat for seat in after}
    gone: dict[str, list[Seat]] = {}
    for seat in sorted(old.values(), key=lambda one: (part_of_gpu(one.slot), one.replica)):
        if seat.replica not in new:
            gone.setdefault(seat.demand, []).append(seat)
    changes = []
    for seat in sorted(new.values(), key=lambda one: (-part_of_gpu(one.slot), one.replica)):
        if seat.replica in old:
            continue
        if mine := gone.get(seat.demand):
            left = mine.pop()
            changes.append(Change(left, replace(seat, replica=left.replica), "the fleet is packed anew"))
        else:
            changes.append(Change(None, seat, "goodput is missing"))
    for seat in (seat for seats in gone.values() for seat in seats):
        changes.append(Change(seat, None, "more than is wanted" if seat.demand in demands else "its demand is gone"))
    return changes


def with_bursts(seats: Iterable[Seat], demands: Mapping[str, Demand]) -> tuple[Seat, ...]:
    """The same seats, each marked whether it is beyond the guarantee: the oldest, and of them the largest, are not."""
    seats = tuple(seats)
    beyond = beyond_guarantee(seats, demands)
    return tuple(replace(seat, burst=seat.replica in beyond) for seat in seats)


def beyond_guarantee(seats: Iterable[Seat], demands: Mapping[str, Demand]) -> set[str]:
    """The replicas that are: all of a demand that is not among ``demands``."""
    by_demand: dict[str, list[Seat]] = {}
    for seat in seats:
        by_demand.setdefault(seat.demand, []).append(seat)
    found: set[str] = set()
    for name, mine in by_demand.items():
        demand, served = demands.get(name), 0.0
        rates = demand.rates if demand is not None else {}
        ranked = sorted(mine, key=lambda one: (one.since, -rates.get(one.slot, 0.0), one.replica))
        for count, seat in enumerate(ranked):
            if demand is None or (served >= demand.guaranteed * (1 - _EPS) and count >= demand.min_replicas):
                found.add(seat.replica)
            served += rates.get(seat.slot, 0.0)
    return found
