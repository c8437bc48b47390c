"""Fleets and demands for tests of packing, and the rules of seats written a second time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from scheduler.geometry.boards import board
from scheduler.packing.model import Demand, Fleet, Gpu, Isolation, Seat, Slot, Spread

H100, A30 = "h100-sxm-80gb", "a30-24gb"


def mig(profile: str, key: str = H100) -> Slot:
    return Slot(key, Isolation.MIG, profile)


def whole(key: str = H100) -> Slot:
    return Slot(key, Isolation.WHOLE, "whole")


def mps(part: int, key: str = H100) -> Slot:
    return Slot(key, Isolation.MPS, f"1/{part}")


def fleet(count: int, *, key: str = H100, a_node: int = 8, seats: Iterable[Seat] = (), **changes: Any) -> Fleet:
    """GPUs g0, g1, ... on nodes of ``a_node``, two nodes a fault domain."""
    gpus = tuple(Gpu(f"g{n}", key, f"n{n // a_node}", f"r{n // a_node // 2}", **changes) for n in range(count))
    return Fleet(gpus, tuple(seats))


def demand(name: str, rates: Mapping[Slot, float], wanted: float = 1.0, **changes: Any) -> Demand:
    """All of ``wanted`` is guaranteed, for a tenant of its own, unless ``changes`` say otherwise."""
    fields = {"model": f"model-{name}", "trust": f"tenant-{name}", "guaranteed": wanted, **changes}
    return Demand(id=name, rates=rates, **fields)


def seat(replica: str, gpu: str, slot: Slot, start: int = 0, **changes: Any) -> Seat:
    """``replica`` is DEMAND/NUMBER."""
    name = replica.partition("/")[0]
    return Seat(
        **{"replica": replica, "demand": name, "trust": f"tenant-{name}", "gpu": gpu, "slot": slot, "start": start}
        | changes
    )


def broken_rules(fleet: Fleet, seats: Iterable[Seat], demands: Mapping[str, Demand]) -> list[str]:
    """What is wrong with the seats, by sets of units and pairs of neighbours; empty when nothing is."""
    found: list[str] = []
    gpus = {gpu.id: gpu for gpu in fleet.gpus}
    by_gpu: dict[str, list[Seat]] = {}
    for one in seats:
        by_gpu.setdefault(one.gpu, []).append(one)
    for name, mine in by_gpu.items():
        for one in mine:
            profile = board(one.slot.board).cut(one.slot.kind.cut).profile(one.slot.profile)
            wanted = demands.get(one.demand)
            if one.start not in profile.starts:
                found.append(f"{one.replica} starts at {one.start} on {name}")
            if one.slot.board != gpus[name].board or one.slot.kind not in gpus[name].kinds:
                found.append(f"{name} cannot be {one.slot.label}")
            if wanted is not None and one.slot.kind < wanted.isolation:
                found.append(f"{one.replica} has {one.slot.kind.label}, not {wanted.isolation.label}")
        for one, other in combinations(mine, 2):
            if units(one) & units(other):
                found.append(f"{one.replica} and {other.replica} share units of {name}")
            if one.slot.kind is not other.slot.kind:
                found.append(f"{name} is {one.slot.kind.label} and {other.slot.kind.label}")
            if one.slot.kind < Isolation.MIG and one.trust != other.trust:
                found.append(f"{one.trust} and {other.trust} share {name}")
    return found + too_near(gpus, seats, demands)


def too_near(gpus: Mapping[str, Gpu], seats: Iterable[Seat], demands: Mapping[str, Demand]) -> list[str]:
    places: Counter[tuple[str, str]] = Counter()
    for one in seats:
        spread = demands[one.demand].spread if one.demand in demands else Spread.NONE
        gpu = gpus[one.gpu]
        where = {Spread.GPU: gpu.id, Spread.NODE: gpu.node, Spread.DOMAIN: gpu.domain}.get(spread)
        if where is not None:
            places[one.demand, where] += 1
    return [f"{count} replicas of {name} on {where}" for (name, where), count in places.items() if count > 1]


def units(one: Seat) -> set[int]:
    size = board(one.slot.board).cut(one.slot.kind.cut).profile(one.slot.profile).size
    return set(range(one.start, one.start + size))
