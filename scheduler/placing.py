"""Which device a replica gets, and for a person: how every device was judged. Pure.

The score says what is preferred: a node where no replica of the deployment failed counts 2, one without a sibling 1,
and a GPU that is cut up to 1 more, the more the less its seat costs the fleet. The highest score with room is taken,
among equals the first by the node's name and the device's number.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.decisions import MOST_CANDIDATES, Candidate
from scheduler.packing.model import Demand, Isolation, Slot
from scheduler.packing.online import Choice
from scheduler.planner.cuts import Cuts, Verdict
from scheduler.planner.fleet import why_unusable
from scheduler.world import Device, Node, Place

_RETRY_LATER = "a replica of it failed here; it is tried again later"


@dataclass(frozen=True)
class Wish:
    """What is looked for. ``failed`` and ``taken``: nodes where replicas of the deployment failed, and where some sit.

    ``retry`` False: nodes where one failed are left out for now. ``demand``: what it needs of GPUs that are cut, there
    in one of ``slots`` first (none: in any), ``lacking`` tokens/s of what it is to serve. ``promised``: GPUs it may not
    have.
    """

    memory_bytes: int
    failed: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    retry: bool = True
    demand: Demand | None = None
    slots: tuple[Slot, ...] = ()
    lacking: float = 0.0
    burst: bool = False
    promised: frozenset[str] = frozenset()

    @property
    def isolates(self) -> bool:
        """Whether it needs more than a device without cuts gives: memory and faults of its own."""
        return self.demand is not None and self.demand.isolation >= Isolation.MIG


@dataclass(frozen=True)
class Found:
    """``choice`` and ``place`` None: on any free units. ``slots``: those that were looked for, none for any."""

    node: Node
    device: Device
    choice: Choice | None = None
    place: Place | None = None
    slots: tuple[Slot, ...] = ()


class Floor:
    """The devices and what is free on them; placements use it up as they are planned. ``freed``: units by device."""

    def __init__(self, nodes: Iterable[Node], now: float, cuts: Cuts, freed: Mapping[str, int]) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.name)
        self.cuts = cuts
        self.why_not = {node.id: why_unusable(node, now) for node in self.nodes}
        self.usable = [node for node in self.nodes if not self.why_not[node.id]]
        self.at = {device.id: (node, device) for node in self.nodes for device in node.devices}
        plain = [device for _, device in self.at.values() if not device.board]
        self.free = {device.id: device.free_units + freed.get(device.id, 0) for device in plain}
        self._plain = [(node, device) for node in self.usable for device in node.devices if _open(device)]
        # Placements only use units up: what found no room, and what is larger, finds none later.
        self._no_room_from: int | None = None
        self._made = 0

    def take(self, found: Found, wish: Wish, now: float) -> None:
        if found.choice is None:
            self.free[found.device.id] -= found.device.units_for(wish.memory_bytes)
        elif wish.demand is not None:
            self._made += 1
            self.cuts.put(f"new-{self._made}", wish.demand, found.choice, burst=wish.burst, now=now)

    def first_fit(self, wish: Wish) -> Found | None:
        """The device with the highest score that has room, the first by name among equals."""
        for unlike, nodes in self._tiers(wish):
            found = self._cut(wish, unlike) or self._whole(wish, nodes)
            if found is not None:
                return found
        if wish.retry and not wish.isolates:
            self._no_room_from = min(wish.memory_bytes, self._no_room_from or wish.memory_bytes)
        return None

    def _tiers(self, wish: Wish) -> Iterator[tuple[frozenset[str], frozenset[str] | None]]:
        """Nodes by score, the best first: those that GPUs may not be on, and the tier's own (None: all others)."""
        failed, taken = wish.failed, wish.taken
        yield failed | taken, None
        if taken - failed:
            yield failed, taken - failed
        if wish.retry and failed - taken:
            yield failed & taken, failed - taken
        if wish.retry and failed & taken:
            yield frozenset(), failed & taken

    def _cut(self, wish: Wish, unlike: frozenset[str]) -> Found | None:
        if wish.demand is None:
            return None
        found = self.cuts.find(
            wish.demand, wish.slots, wish.lacking, burst=wish.burst, nodes=unlike, gpus=wish.promised
        )
        if found is None:
            return None
        choice, slots = found
        return Found(*self.at[choice.gpu], choice, Place(choice.slot, choice.start, wish.burst), slots)

    def _whole(self, wish: Wish, nodes: frozenset[str] | None) -> Found | None:
        if wish.isolates or (self._no_room_from is not None and wish.memory_bytes >= self._no_room_from):
            return None
        for node, device in self._plain:
            mine = node.id in nodes if nodes is not None else node.id not in wish.failed | wish.taken
            if mine and device.units_for(wish.memory_bytes) <= self.free[device.id]:
                return Found(node, device)
        return None

    # --- for people ---------------------------------------------------------------------------------------------------

    def candidates(self, wish: Wish, chosen: str = "") -> tuple[Candidate, ...]:
        """How each device is judged now, the best first; of a large fleet the best ``MOST_CANDIDATES``."""
        judge = self.cuts.judge(wish.demand, wish.slots, burst=wish.burst, promised=wish.promised)
        judged = []
        for order, (node, device) in enumerate(self.at.values()):
            verdict = judge(device.id) if device.board else self._verdict(device, wish)
            why = self._why_not(node, device, wish) or verdict.why_not
            free_bytes = device.memory_bytes * verdict.units_free // verdict.units
            rank = -_score(node, wish) - verdict.score if not why else -free_bytes
            judged.append(((device.id != chosen, bool(why), rank, order), node, device, why, verdict))
        best = heapq.nsmallest(MOST_CANDIDATES, judged, key=lambda one: one[0])
        return tuple(_candidate(node, device, wish, why, verdict) for _, node, device, why, verdict in best)

    def no_room_reason(self, wish: Wish) -> str:
        """Why it fits nowhere: what was needed, and what the devices have."""
        found = [(node, device) for node in self.usable for device in node.devices]
        if not found:
            return "No node is connected that takes replicas"
        plain = [(device, f"{node.name} {device.label}") for node, device in found if not device.board]
        told = []
        if len(plain) < len(found):
            told.append(self.cuts.why_none(wish.demand, burst=wish.burst, promised=wish.promised))
        if plain and wish.isolates and wish.demand is not None:
            need = wish.demand.isolation.label
            told.append(f"{len(plain)} devices cannot be cut, and it needs {need} isolation")
        elif plain:
            told.append(self._roomiest(wish.memory_bytes, plain))
        return ". ".join(told)

    def _roomiest(self, memory_bytes: int, plain: list[tuple[Device, str]]) -> str:
        devices = heapq.nlargest(3, plain, key=lambda pair: self.free[pair[0].id] * pair[0].unit_bytes)
        told = [
            f"{label} has {gb(self.free[device.id] * device.unit_bytes)} of {gb(device.memory_bytes)}"
            for device, label in devices
        ]
        if len(plain) > 3:
            told.append(f"and {len(plain) - 3} more have no more")
        return f"No device has {gb(memory_bytes)} free: {', '.join(told)}"

    def _why_not(self, node: Node, device: Device, wish: Wish) -> str:
        if self.why_not[node.id]:
            return self.why_not[node.id]
        if device.unfit or device.leaving:
            return device.unfit or "it is being emptied"
        return _RETRY_LATER if node.id in wish.failed and not wish.retry else ""

    def _verdict(self, device: Device, wish: Wish) -> Verdict:
        """Of a device that is not cut."""
        need, free = device.units_for(wish.memory_bytes), self.free[device.id]
        why = ""
        if wish.isolates and wish.demand is not None:
            why = f"its processes share memory and faults; it needs {wish.demand.isolation.label} isolation"
        elif need > device.units:
            why = f"needs {gb(wish.memory_bytes)}; the device has {gb(device.memory_bytes)}"
        elif need > free:
            free_bytes = free * device.unit_bytes
            why = f"needs {need} of {device.units} units ({gb(wish.memory_bytes)}); {free} are free ({gb(free_bytes)})"
        return Verdict(why, 0.0, None, None, device.units, free, need)


def _candidate(node: Node, device: Device, wish: Wish, why: str, verdict: Verdict) -> Candidate:
    slot, start = (verdict.slot, verdict.start) if not why else (None, None)
    return Candidate(
        device_id=device.id,
        device=device.label,
        node_id=node.id,
        node=node.name,
        fits=not why,
        why_not=why,
        score=None if why else round(_score(node, wish) + verdict.score, 3),
        score_why="" if why else score_why(node, wish),
        free_bytes=device.memory_bytes * verdict.units_free // verdict.units,
        memory_bytes=device.memory_bytes,
        units_free=verdict.units_free,
        units_needed=verdict.units_needed,
        slot=f"{slot.kind.label} {slot.profile}" if slot is not None else "",
        start=start,
    )


def _open(device: Device) -> bool:
    return not device.board and not device.unfit and not device.leaving


def _score(node: Node, wish: Wish) -> int:
    return 2 * (node.id not in wish.failed) + (node.id not in wish.taken)


def score_why(node: Node, wish: Wish) -> str:
    failed = "a replica of it failed here" if node.id in wish.failed else "none of its replicas failed here"
    sibling = "another of its replicas is here" if node.id in wish.taken else "none of its replicas is here"
    return f"{failed}, {sibling}"


def place_label(place: Place) -> str:
    if place.slot.kind is Isolation.WHOLE:
        return "the whole GPU"
    return f"{place.slot.kind.label} {place.slot.profile} at {place.start}"


def names_of(ids: Collection[str], nodes: Sequence[Node]) -> list[str]:
    return [node.name for node in nodes if node.id in ids]


def gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
