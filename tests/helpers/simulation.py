"""A world in memory that actions are applied to, as the services do, with perfect agents on demand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from helpers.worlds import NOW, replica
from scheduler.reconcile import reconcile
from scheduler.world import (
    Action,
    CreateReplica,
    DesiredWorld,
    DrainReplica,
    EndReplica,
    Explain,
    Failure,
    MarkLost,
    Node,
    ObservedWorld,
    PlaceReplica,
    Replica,
)


class Simulation:
    def __init__(self, world: ObservedWorld, desired: DesiredWorld) -> None:
        self.world, self.desired, self.now, self.made = world, desired, NOW, 0

    def tick(self) -> list[Action]:
        actions = reconcile(self.world, self.desired, self.now).actions
        self.apply(actions)
        return actions

    def apply(self, actions: list[Action]) -> None:
        rows = {row.id: row for row in self.world.replicas}
        for action in actions:
            self._apply(rows, action)
        self.world = replace(self.world, replicas=tuple(rows.values()))
        self.world = replace(self.world, nodes=tuple(seated(node, self.world.replicas) for node in self.world.nodes))

    def _apply(self, rows: dict[str, Replica], action: Action) -> None:
        match action:
            case CreateReplica(deployment, reason):
                self._insert(rows, deployment, node=None, device=None, reason=reason)
            case PlaceReplica(deployment, None):
                seat = {"node": action.node, "device": action.device, "place": action.place}
                self._insert(rows, deployment, reason=action.reason, replaces=action.replaces, **seat)
            case PlaceReplica(_, str(name)):
                rows[name] = replace(
                    rows[name], node=action.node, device=action.device, place=action.place, reason=action.reason
                )
            case DrainReplica(name, reason):
                rows[name] = replace(rows[name], run=False, state="draining", reason=reason)
            case MarkLost(name, reason):
                rows[name] = replace(rows[name], run=False, state="lost", reason=reason)
            case Explain(name, reason):
                rows[name] = replace(rows[name], reason=reason)
            case EndReplica(name, state, reason):
                row = rows.pop(name)
                if state == "failed" and row.node is not None:
                    failed = Failure(row.deployment, row.node, self.now, reason)
                    self.world = replace(self.world, failures=(*self.world.failures, failed))

    def _insert(self, rows: dict[str, Replica], name: str, **changes: Any) -> None:
        self.made += 1
        deployment = next(one for one in self.desired.deployments if one.id == name)
        trust = deployment.demand.trust if deployment.demand is not None else ""
        values = {"deployment": name, "state": "placing", "memory_bytes": deployment.memory_bytes, "trust": trust}
        row = replica(f"new{self.made:05}", **values, **changes)
        rows[row.id] = replace(row, created_at=self.now + self.made * 1e-6)

    def agents_act(self) -> None:
        """What runs becomes ready, what drains stops."""
        rows = [
            replace(row, state="ready", missing_since=None, restarts=0)
            if row.run and row.node is not None
            else replace(row, state="stopped" if row.node is not None else row.state)
            for row in self.world.replicas
        ]
        self.world = replace(self.world, replicas=tuple(rows))


def seated(node: Node, rows: tuple[Replica, ...]) -> Node:
    """Of devices that are not cut."""
    if all(device.board for device in node.devices):
        return node
    return replace(
        node,
        devices=tuple(
            replace(device, used_units=sum(device.units_for(r.memory_bytes) for r in rows if r.device == device.id))
            for device in node.devices
        ),
    )
