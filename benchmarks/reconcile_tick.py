"""How long one look of the scheduler takes at 1,000 GPUs and 1,000 deployments, computing alone on one core.

    python benchmarks/reconcile_tick.py [--only quiet,busy,full,cold,database] [--json FILE] [--check]

quiet    everybody has a place: nothing is to be done
busy     20 deployments are new, 20 are gone, 10 replicas have crashed for good, one node of eight GPUs is drained
full     the fleet is too small by a tenth: about 100 deployments wait, with their reasons, and burst gives way
cold     all 1,000 deployments at once on an empty fleet; no target, since it happens once
database the whole tick over PostgreSQL and Redis, when everybody has a place: reading rows, planning, nothing to write
"""

from __future__ import annotations

import gc
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter, thread_time
from typing import Any

from benchmarks.common import fleet_demand, ticks
from benchmarks.common.fleet_demand import BOARD
from benchmarks.common.report import Targets, run_parts
from scheduler.geometry.boards import board
from scheduler.packing.model import EVERY_KIND
from scheduler.reconcile import reconcile
from scheduler.world import (
    CreateReplica,
    Deployment,
    DesiredWorld,
    Device,
    DrainReplica,
    Explain,
    Node,
    ObservedWorld,
    PlaceReplica,
    Plan,
    Replica,
)

GPUS, DEPLOYMENTS, SEED, A_NODE = 1000, 1000, 31, 8
NOW = 100_000.0
LIMIT_S = 1.0
ROUNDS = 5
Figures = dict[str, Any]


def nodes(gpus: int) -> tuple[Node, ...]:
    kind = board(BOARD)
    devices = [
        Device(f"gpu_{n:04}", f"gpu-{n % A_NODE}", kind.memory_bytes, kind.units, board=BOARD, kinds=EVERY_KIND)
        for n in range(gpus)
    ]
    return tuple(
        Node(f"nod_{n // A_NODE:03}", f"node-{n // A_NODE:03}", NOW, False, tuple(devices[n : n + A_NODE]))
        for n in range(0, gpus, A_NODE)
    )


def deployments(count: int = DEPLOYMENTS) -> tuple[Deployment, ...]:
    """One replica each, sized for half a GPU's goodput at most."""
    demands = fleet_demand.demands(count, SEED, 0.5)
    return tuple(Deployment(one.id, one.id, 1, 10**10, "chat", one) for one in demands)


def carried_out(world: ObservedWorld, plan: Plan, wanted: tuple[Deployment, ...]) -> ObservedWorld:
    """Placements as ready replicas, those that wait as they are, and who was drained is gone."""
    trust = {one.id: one.demand.trust for one in wanted if one.demand is not None}
    drained = {action.replica for action in plan.actions if isinstance(action, DrainReplica)}
    rows = [row for row in world.replicas if row.id not in drained]
    for number, action in enumerate(plan.actions):
        if isinstance(action, Explain):
            rows = [replace(row, reason=action.reason) if row.id == action.replica else row for row in rows]
        if isinstance(action, PlaceReplica) and action.replica is not None:
            rows = [row for row in rows if row.id != action.replica]
        values: dict[str, Any] = {"node": None, "state": "placing"}
        if isinstance(action, PlaceReplica):
            values = {"node": action.node, "device": action.device, "place": action.place, "state": "ready"}
        if isinstance(action, PlaceReplica | CreateReplica):
            rows.append(
                Replica(
                    id=f"rep_{action.deployment}_{len(world.replicas) + number:05}",
                    deployment=action.deployment,
                    run=True,
                    reason=action.reason,
                    created_at=NOW - 5000 + number,
                    memory_bytes=10**10,
                    trust=trust[action.deployment],
                    **values,
                )
            )
    return replace(world, replicas=tuple(rows))


def settled(gpus: int, wanted: tuple[Deployment, ...]) -> ObservedWorld:
    world = ObservedWorld(nodes(gpus), (), 0.0)
    for _ in range(3):
        world = carried_out(world, reconcile(world, DesiredWorld(wanted), NOW), wanted)
    return world


def timed(world: ObservedWorld, wanted: tuple[Deployment, ...], rounds: int = ROUNDS) -> Figures:
    took, cpu, plan = [], [], Plan([], [])  # a neighbour on the machine delays a tick; it does not make it longer
    for _ in range(rounds):
        gc.collect()
        began, began_cpu = perf_counter(), thread_time()
        plan = reconcile(world, DesiredWorld(wanted), NOW)
        took.append(perf_counter() - began)
        cpu.append(thread_time() - began_cpu)
    return {
        "median_s": statistics.median(took),
        "worst_s": max(took),
        "cpu_median_s": statistics.median(cpu),
        "gpus": sum(len(node.devices) for node in world.nodes),
        "deployments": len(wanted),
        "replicas": len(world.replicas),
        "actions": dict(Counter(type(action).__name__ for action in plan.actions)),
        "decisions": len(plan.decisions),
    }


def quiet() -> Figures:
    wanted = deployments()
    return timed(settled(GPUS, wanted), wanted)


def busy() -> Figures:
    wanted = deployments(DEPLOYMENTS + 20)
    world = settled(GPUS, wanted[:DEPLOYMENTS])
    rows = list(world.replicas)
    for at in range(0, 500, 50):
        rows[at] = replace(rows[at], state="failed", restarts=5, reason="exit code 1")
    first, *others = world.nodes
    drained = replace(first, cordoned=True, draining=True)
    return timed(replace(world, replicas=tuple(rows), nodes=(drained, *others)), wanted[20:])


def full() -> Figures:
    """On nine tenths of the GPUs that everybody takes; those who wait ask for what is guaranteed."""
    wanted = deployments()
    used = len({row.device for row in settled(GPUS, wanted).replicas})
    world = settled(A_NODE * (used * 9 // 10 // A_NODE), wanted)
    spare = tuple(Device(f"idle_{n}", "gpu", 1, 1, unfit="it is suspect", board=BOARD) for n in range(GPUS - used))
    idle = Node("nod_idle", "node-zzz", NOW, False, spare)
    return timed(replace(world, nodes=(*world.nodes, idle)), wanted)


def cold() -> Figures:
    return timed(ObservedWorld(nodes(GPUS), (), 0.0), deployments(), 1)


def over_database() -> Figures:
    found = ticks.measured(GPUS, DEPLOYMENTS, A_NODE, BOARD)
    return {
        "median_s": statistics.median(found["took_s"]),
        "worst_s": max(found["took_s"]),
        "first_s": found["first_s"],
        "gpus": GPUS,
        "deployments": DEPLOYMENTS,
        "replicas": found["replicas"],
        "actions": {"actions": found["actions"]} if found["actions"] else {},
    }


PARTS: dict[str, Callable[[], Figures]] = {
    "quiet": quiet,
    "busy": busy,
    "full": full,
    "cold": cold,
    "database": over_database,
}


def report(result: Figures) -> None:
    for name, row in result.items():
        what = f"{row['gpus']} GPUs, {row['deployments']} deployments, {row['replicas']} replicas"
        did = ", ".join(f"{count} {action}" for action, count in row["actions"].items()) or "nothing to do"
        print(f"{name:6} {what}: median {row['median_s']:.3f} s, worst {row['worst_s']:.3f} s, ", end="")
        if "first_s" in row:
            print(f"placing everybody took {row['first_s']:.0f} s; {did}")
        else:
            print(f"of the processor {row['cpu_median_s']:.3f} s; {did}")


def failures(result: Figures) -> list[str]:
    targets = Targets()
    for name in ("quiet", "busy", "full"):
        if name in result:
            targets.at_most(f"{name}: seconds of the processor a tick", result[name]["cpu_median_s"], LIMIT_S)
    if "database" in result:
        targets.at_most("database: seconds a tick", result["database"]["median_s"], LIMIT_S)
    return targets.missed


if __name__ == "__main__":
    sys.exit(run_parts(__doc__, PARTS, report, failures))
