"""Small worlds for tests of ``scheduler.reconcile``: one deployment ``d`` and what it wants on a few nodes."""

from __future__ import annotations

from typing import Any

from scheduler.decisions import Decision
from scheduler.reconcile import reconcile
from scheduler.world import Action, Deployment, DesiredWorld, Device, Node, ObservedWorld, Plan, Replica

GB = 10**9
NOW = 10_000.0


def node(name: str = "a", *, units: int = 4, gb: int = 24, used: int = 0, heard: float | None = NOW, **k: Any) -> Node:
    device = Device(id=f"gpu-{name}", label="cpu-0", memory_bytes=gb * GB, units=units, used_units=used)
    return Node(id=name, name=name, heard_at=heard, devices=(device,), **{"cordoned": False, **k})


def replica(name: str = "r1", **changes: Any) -> Replica:
    values: dict[str, Any] = {
        "id": name,
        "deployment": "d",
        "node": "a",
        "device": "gpu-a",
        "run": True,
        "state": "ready",
        "reason": "",
        "created_at": NOW - 100,
        "memory_bytes": 3 * GB,
    }
    return Replica(**{**values, **changes})


def waiting(name: str = "r1", **changes: Any) -> Replica:
    return replica(name, node=None, device=None, state="placing", **changes)


def whole_plan(
    nodes: list[Node], replicas: list[Replica], count: int = 1, *, gb: float = 3, since: float | None = 0, **more: Any
) -> Plan:
    world = ObservedWorld(tuple(nodes), tuple(replicas), since, **more)
    return reconcile(world, DesiredWorld((Deployment("d", "dep", count, int(gb * GB), "chat"),)), NOW)


def plan(*args: Any, **kwargs: Any) -> list[Action]:
    return whole_plan(*args, **kwargs).actions


def decisions(*args: Any, **kwargs: Any) -> list[Decision]:
    return [one.decision for one in whole_plan(*args, **kwargs).decisions]
