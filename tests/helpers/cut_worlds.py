"""Nodes with GPUs that are cut, who sits on them, and the rules of seats asked of a whole world."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from helpers.fleets import H100, broken_rules, units
from helpers.worlds import NOW, replica
from scheduler.geometry.boards import board
from scheduler.packing.model import EVERY_KIND, Demand, Fleet, Gpu, Isolation, Seat, Slot, Spread
from scheduler.world import Device, Node, ObservedWorld, Place, Replica

NOBODY = "nobody"


def gpu(name: str, key: str = H100, **changes: Any) -> Device:
    found = board(key)
    values: dict[str, Any] = {"kinds": EVERY_KIND, "memory_bytes": found.memory_bytes, "units": found.units}
    return Device(id=name, label=f"gpu-{name[-1]}", board=key, **values | changes)


def gpu_node(name: str = "n", count: int = 1, *, key: str = H100, **changes: Any) -> Node:
    """GPUs ``NAME-0``, ``NAME-1``, ...; ``changes`` are the node's."""
    devices = tuple(gpu(f"{name}-{number}", key) for number in range(count))
    values: dict[str, Any] = {"id": name, "name": name, "heard_at": NOW, "cordoned": False, "devices": devices}
    return Node(**values | changes)


def sitting(name: str, device: str, slot: Slot, start: int = 0, **changes: Any) -> Replica:
    """A ready replica of ``d`` on a GPU named as ``gpu_node`` does."""
    place = Place(slot, start, changes.pop("burst", False))
    return replica(name, **{"node": device.rsplit("-", 1)[0], "device": device, "place": place} | changes)


def fleet_of_world(nodes: Iterable[Node]) -> Fleet:
    return Fleet(
        tuple(
            Gpu(device.id, device.board, node.id, node.domain or node.id, device.kinds)
            for node in nodes
            for device in node.devices
            if device.board
        )
    )


def seats_of_world(world: ObservedWorld) -> list[Seat]:
    """Those of replicas, and what is blocked as seats of nobody."""
    found = [
        Seat(row.id, row.deployment, row.trust, row.device or "", row.place.slot, row.place.start)
        for row in world.replicas
        if row.place is not None
    ]
    for node in world.nodes:
        for device in node.devices:
            for profile, start in device.blocked:
                slot = Slot(device.board, Isolation.MIG, profile)
                found.append(Seat(f"{profile}@{start}", NOBODY, NOBODY, device.id, slot, start))
    return found


def wrong(world: ObservedWorld, demands: Mapping[str, Demand], going: Iterable[str] = ()) -> list[str]:
    """Units booked twice, kinds mixed, trust broken, or isolation save of those ``going``; not nearness."""
    left = set(going)
    apart = {name: replace(demand, spread=Spread.NONE) for name, demand in demands.items()}
    seats = [replace(seat, demand=NOBODY) if seat.replica in left else seat for seat in seats_of_world(world)]
    return broken_rules(fleet_of_world(world.nodes), seats, apart)


def too_close(world: ObservedWorld, demands: Mapping[str, Demand], going: Iterable[str]) -> list[str]:
    """Replicas of one deployment that are nearer than they may be, save those that are ``going``."""
    left = set(going)
    seats = [seat for seat in seats_of_world(world) if seat.replica not in left and seat.demand != NOBODY]
    fleet = fleet_of_world(world.nodes)
    return [line for line in broken_rules(fleet, seats, demands) if " replicas of " in line]


def could_sit(world: ObservedWorld, demand: Demand, devices: Iterable[Device]) -> bool:
    """Whether one more replica of ``demand`` would be legal on one of ``devices``: every slot and start is tried."""
    seats = seats_of_world(world)
    gone = {row.id for row in world.replicas if not row.run}
    for device in devices:
        mine = [seat for seat in seats if seat.gpu == device.id]
        if any(seat.demand == demand.id and seat.replica not in gone for seat in mine):
            continue
        for slot, rate in demand.rates.items():
            if rate <= 0 or slot.kind < demand.isolation or slot.board != device.board:
                continue
            if slot.kind not in device.kinds:
                continue
            for start in board(slot.board).cut(slot.kind.cut).profile(slot.profile).starts:
                if fits(mine, Seat("?", demand.id, demand.trust, device.id, slot, start)):
                    return True
    return False


def fits(there: Iterable[Seat], one: Seat) -> bool:
    for other in there:
        strangers = one.slot.kind < Isolation.MIG and other.trust != one.trust
        if other.slot.kind is not one.slot.kind or strangers or units(other) & units(one):
            return False
    return True
