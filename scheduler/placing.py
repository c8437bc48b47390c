"""Which device a replica gets, and for a person: how every device was judged. Pure.

The score says what is preferred: a node where no replica of the deployment failed counts 2, one without a sibling 1.
The highest score with room is taken, among equals the first by the node's name and the device's number.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from scheduler.decisions import MOST_CANDIDATES, Candidate
from scheduler.world import Device, Node


@dataclass(frozen=True)
class Wish:
    """What is looked for. ``failed`` and ``taken``: nodes where replicas of the deployment failed, and where some sit.

    ``retry`` False: nodes where one failed are left out for now.
    """

    memory_bytes: int
    failed: frozenset[str]
    taken: frozenset[str]
    retry: bool


class Floor:
    """The devices and what is free on them; placements use it up as they are planned."""

    def __init__(self, nodes: Iterable[Node], now: float) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.why_not = {node.id: _unusable(node, now) for node in self.nodes}
        self.usable = [node for node in self.nodes if not self.why_not[node.id]]
        self.devices = {device.id: device for node in self.nodes for device in node.devices}
        self.free = {device.id: device.free_units for device in self.devices.values()}
        # Placements only use units up: what found no room, and what is larger, finds none later.
        self._no_room_from: int | None = None

    def take(self, device: Device, memory_bytes: int) -> None:
        self.free[device.id] -= device.units_for(memory_bytes)

    def give_back(self, device_id: str, memory_bytes: int) -> None:
        self.free[device_id] += self.devices[device_id].units_for(memory_bytes)

    def first_fit(self, wish: Wish) -> tuple[Node, Device] | None:
        """The device with the highest score that has room, the first by name among equals."""
        if self._no_room_from is not None and wish.memory_bytes >= self._no_room_from:
            return None
        for node in sorted(self.usable, key=lambda node: -_score(node, wish)):  # stable: then by name
            if node.id in wish.failed and not wish.retry:
                continue
            for device in node.devices:
                if device.units_for(wish.memory_bytes) <= self.free[device.id]:
                    return node, device
        if wish.retry:
            self._no_room_from = wish.memory_bytes
        return None

    def candidates(self, wish: Wish, chosen: str = "") -> tuple[Candidate, ...]:
        """How each device is judged now, the best first; of a large fleet the best ``MOST_CANDIDATES``."""
        judged = []
        for order, (node, device) in enumerate((at, device) for at in self.nodes for device in at.devices):
            reason = self._reason(node, device, wish)
            rank = -_score(node, wish) if not reason else -device.unit_bytes * self.free[device.id]
            judged.append(((device.id != chosen, bool(reason), rank, order), node, device, reason))
        best = heapq.nsmallest(MOST_CANDIDATES, judged, key=lambda one: one[0])
        return tuple(self._candidate(node, device, wish, reason) for _, node, device, reason in best)

    def no_room_reason(self, memory_bytes: int) -> str:
        """Why ``memory_bytes`` fit nowhere: what was needed, and what the roomiest devices have."""
        found = [(device, f"{node.name} {device.label}") for node in self.usable for device in node.devices]
        if not found:
            return "No node is connected that takes replicas"
        devices = heapq.nlargest(3, found, key=lambda pair: self.free[pair[0].id] * pair[0].unit_bytes)
        told = [
            f"{label} has {gb(self.free[device.id] * device.unit_bytes)} of {gb(device.memory_bytes)}"
            for device, label in devices
        ]
        if len(found) > 3:
            told.append(f"and {len(found) - 3} more have no more")
        return f"No device has {gb(memory_bytes)} free: {', '.join(told)}"

    def _reason(self, node: Node, device: Device, wish: Wish) -> str:
        if self.why_not[node.id]:
            return self.why_not[node.id]
        if node.id in wish.failed and not wish.retry:
            return "a replica of it failed here; it is tried again later"
        need, free = device.units_for(wish.memory_bytes), self.free[device.id]
        if need > device.units:
            return f"needs {gb(wish.memory_bytes)}; the device has {gb(device.memory_bytes)}"
        if need > free:
            free_bytes = free * device.unit_bytes
            return f"needs {need} of {device.units} units ({gb(wish.memory_bytes)}); {free} are free ({gb(free_bytes)})"
        return ""

    def _candidate(self, node: Node, device: Device, wish: Wish, reason: str) -> Candidate:
        return Candidate(
            device_id=device.id,
            device=device.label,
            node_id=node.id,
            node=node.name,
            fits=not reason,
            why_not=reason,
            score=None if reason else float(_score(node, wish)),
            score_why="" if reason else score_why(node, wish),
            free_bytes=self.free[device.id] * device.unit_bytes,
            memory_bytes=device.memory_bytes,
            units_free=self.free[device.id],
            units_needed=device.units_for(wish.memory_bytes),
        )


def _unusable(node: Node, now: float) -> str:
    if node.draining:
        return "the node is being drained"
    if node.cordoned:
        return "the node is cordoned"
    if node.heard_at is None:
        return "the node never joined"
    return "" if node.heard(now) else f"the node was not heard for {now - node.heard_at:.0f} s"


def _score(node: Node, wish: Wish) -> int:
    return 2 * (node.id not in wish.failed) + (node.id not in wish.taken)


def score_why(node: Node, wish: Wish) -> str:
    failed = "a replica of it failed here" if node.id in wish.failed else "none of its replicas failed here"
    sibling = "another of its replicas is here" if node.id in wish.taken else "none of its replicas is here"
    return f"{failed}, {sibling}"


def names_of(ids: Collection[str], nodes: Sequence[Node]) -> list[str]:
    return [node.name for node in nodes if node.id in ids]


def gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
