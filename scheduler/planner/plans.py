"""A plan of the packing as the platform keeps it: data for database and console, and numbers of replicas. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from scheduler.packing.books import Books
from scheduler.packing.compact import Change
from scheduler.packing.model import Demand, Fleet, Isolation, Seat, Slot
from scheduler.packing.moves import Wave
from scheduler.packing.online import Placer, Policy
from scheduler.packing.plans import Plan, Rules, served_by
from scheduler.packing.replan import replan
from scheduler.world import Node

Json = dict[str, Any]
# Nobody is stopped before another runs: what only that would reach is left out of the plan.
RULES = Rules(may_interrupt=False)


def plan_fleet(
    fleet: Fleet, demands: Mapping[str, Demand], *, now: float, policy: Policy, rules: Rules = RULES
) -> Plan:
    return replan(fleet, demands.values(), now=now, policy=policy, rules=rules)


def counts(plan: Plan, demands: Mapping[str, Demand]) -> dict[str, int]:
    """How many replicas of each deployment are to run, never fewer than its own number."""
    found = {demand.id: demand.min_replicas for demand in demands.values()}
    seats: dict[str, int] = {}
    for seat in plan.seats:
        seats[seat.demand] = seats.get(seat.demand, 0) + 1
    return {name: max(least, seats.get(name, 0)) for name, least in found.items()}


def record(
    plan: Plan,
    fleet: Fleet,
    demands: Mapping[str, Demand],
    *,
    nodes: Iterable[Node],
    names: Mapping[str, str],
    policy: Policy,
) -> Json:
    """The plan as JSON. ``fleet``: as it was; ``names``: of deployments by id.

    ``changes`` are everything that differs; ``waves`` only the moves, which are carried out at exactly these places
    (scheduler/planner/execution.py). What comes or goes besides follows from the number of replicas.
    """
    tell = _Telling(nodes, names)
    moved = [change for change in plan.changes if change.before is not None and change.after is not None]
    waves = [tell.wave(wave) for wave in plan.order.waves]
    return {
        "kind": plan.kind,
        "why": plan.why,
        "inputs": dict(plan.inputs) | {"left_out": [tell.left_out(change) for change in plan.order.dropped]},
        "objective": plan.objective,
        "bound": plan.bound,
        "gap": plan.gap,
        "seconds": plan.seconds,
        "moves": len(moved),
        "candidates": [asdict(candidate) for candidate in plan.candidates],
        "changes": [tell.change(change) for change in plan.changes],
        "waves": [wave for wave in waves if wave["starts"]],
        "pending": [
            {
                "deployment": pending.demand,
                "deployment_name": names.get(pending.demand, ""),
                "reason": tell.plain(pending.reason),
                "short": pending.short,
            }
            for pending in plan.pending
        ],
        "before": figures(fleet, fleet.seats, demands, policy),
        "after": figures(fleet, plan.seats, demands, policy),
    }


def figures(fleet: Fleet, seats: Iterable[Seat], demands: Mapping[str, Demand], policy: Policy) -> Json:
    """``stranded_units``: free units of MIG GPUs in use that nothing asked for can use; ``fragmentation``: the mean of
    them, 0 to 1; ``goodput``: tokens/s that are asked for and served.
    """
    books = Books(Fleet(fleet.gpus, tuple(seats)))
    placer = Placer(books, policy)
    stranded, broken = 0, []
    for _, room in books.rooms():
        if room.kind is Isolation.MIG and not room.unused:
            mix = placer.fragmentation(room.board, "mig")
            stranded += mix.stranded(room.state)
            broken.append(mix.of(room.state))
    served = served_by(books.seats.values(), demands)
    wanted = sum(demand.wanted for demand in demands.values())
    return {
        "gpus": len(fleet.gpus),
        "gpus_in_use": sum(books.active.values()),
        "replicas": len(books.seats),
        "stranded_units": stranded,
        "fragmentation": sum(broken) / len(broken) if broken else 0.0,
        "goodput": sum(min(demand.wanted, served.get(demand.id, 0.0)) for demand in demands.values()),
        "goodput_wanted": wanted,
        "short_of_guarantee": sum(max(0.0, d.guaranteed - served.get(d.id, 0.0)) for d in demands.values()),
    }


def place_of(slot: Slot, start: int) -> Json:
    return {
        "slot": {"board": slot.board, "kind": slot.kind.label, "profile": slot.profile},
        "start": start,
    }


class _Telling:
    """Seats with the names of things as they are now."""

    def __init__(self, nodes: Iterable[Node], names: Mapping[str, str]) -> None:
        self.names = names
        self.at = {device.id: (node, device) for node in nodes for device in node.devices}

    def spot(self, seat: Seat | None) -> Json | None:
        if seat is None:
            return None
        node, device = self.at[seat.gpu]
        told = {"gpu": seat.gpu, "gpu_name": device.label, "node": node.id, "node_name": node.name}
        return told | place_of(seat.slot, seat.start)

    def change(self, change: Change) -> Json:
        demand = next((seat.demand for seat in (change.before, change.after) if seat is not None), "")
        return {
            "replica": change.before.replica if change.before is not None else "",
            "deployment": demand,
            "deployment_name": self.names.get(demand, ""),
            "why": self.plain(change.why),
            "from": self.spot(change.before),
            "to": self.spot(change.after),
        }

    def wave(self, wave: Wave) -> Json:
        starts = [
            {
                "replica": start.seat.replica,
                "instead_of": start.instead_of,
                "deployment": start.seat.demand,
                "deployment_name": self.names.get(start.seat.demand, ""),
                "why": self.plain(start.why),
                "burst": start.seat.burst,
                "to": self.spot(start.seat),
            }
            for start in wave.starts
            if start.instead_of
        ]
        moved = {start["instead_of"] for start in starts}
        stops = [{"replica": stop.seat.replica} for stop in wave.stops if stop.seat.replica in moved]
        return {"starts": starts, "stops": stops}

    def left_out(self, change: Change) -> Json:
        return self.change(change) | {"why": "it has no way there without an interruption"}

    def plain(self, text: str) -> str:
        """With the names of GPUs and deployments for their ids."""
        words = []
        for word in text.split(" "):
            bare = word.strip(",.;:")
            at, deployment = self.at.get(bare), self.names.get(bare.partition("/")[0])
            name = f"{at[0].name} {at[1].label}" if at is not None else deployment
            words.append(word.replace(bare, name) if bare and name else word)
        return " ".join(words)
