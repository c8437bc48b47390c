"""What the scheduler sees, what it wants and what it may do: plain data, without a database or a clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler.decisions import Decision
from scheduler.packing.model import Demand, Isolation, Slot
from scheduler.watch import NODE_HEARD_S


@dataclass(frozen=True)
class Device:
    """``label``: as people call it. ``units``: equal shares of its memory; ``used_units`` of them have an owner.

    ``board``: a GPU that is cut by scheduler/geometry; empty: it has its units and nothing else. ``kinds``: what it can
    be. ``blocked``: instances (profile, start) that are nobody's and cannot be removed. ``unfit``: why its health lets
    nothing new on it; empty where it does. ``leaving``: what sits there is to be moved off;
    ``fenced``: at once, since its processes may be broken.
    """

    id: str
    label: str
    memory_bytes: int
    units: int
    used_units: int = 0
    board: str = ""
    kinds: frozenset[Isolation] = frozenset()
    blocked: tuple[tuple[str, int], ...] = ()
    unfit: str = ""
    leaving: bool = False
    fenced: bool = False

    @property
    def unit_bytes(self) -> int:
        return self.memory_bytes // self.units

    @property
    def free_units(self) -> int:
        return max(0, self.units - self.used_units)

    def units_for(self, memory_bytes: int) -> int:
        return max(1, -(-memory_bytes * self.units // self.memory_bytes))


@dataclass(frozen=True)
class Node:
    """A draining node is to be emptied; like a cordoned one it takes nothing new. ``domain``: what fails together."""

    id: str
    name: str
    heard_at: float | None
    cordoned: bool
    devices: tuple[Device, ...]
    draining: bool = False
    domain: str = ""

    def heard(self, now: float, within_s: float = NODE_HEARD_S) -> bool:
        return self.heard_at is not None and now - self.heard_at <= within_s


@dataclass(frozen=True, slots=True)
class Place:
    """Where on a GPU that is cut. ``start``: its first unit in the slot's cut; ``burst``: beyond a guarantee."""

    slot: Slot
    start: int
    burst: bool = False


@dataclass(frozen=True)
class Replica:
    """``node`` and ``device`` None: not placed yet. ``run``: desired. State, reason, restarts: as last observed.

    ``missing_since``: since when its liveness has run out; None while it lives, or while nobody looked. ``place``:
    where on its device; None where that is not cut. ``replaces``: the replica that goes once this one is ready; until
    then this one is no replica of its deployment's number. ``trust``: whose it is, its deployment's trust domain.
    """

    id: str
    deployment: str
    node: str | None
    run: bool
    state: str
    reason: str
    created_at: float
    memory_bytes: int
    device: str | None = None
    restarts: int = 0
    missing_since: float | None = None
    place: Place | None = None
    replaces: str = ""
    trust: str = ""


@dataclass(frozen=True)
class Deployment:
    """``count`` replicas of ``memory_bytes`` each. ``service_class``: its name, for who reads why.

    ``demand``: what it needs of GPUs that are cut, under this id; its ``isolation`` also says whether a device without
    cuts will do.
    """

    id: str
    name: str
    count: int
    memory_bytes: int
    service_class: str = ""
    demand: Demand | None = None


@dataclass(frozen=True)
class Failure:
    """A replica that was given up, after its deployment was last changed, and for what."""

    deployment: str
    node: str
    at: float
    reason: str = ""


@dataclass(frozen=True)
class ObservedWorld:
    """``observing_since``: None while the control plane is blind; then nothing is declared lost. ``cached``: (node,
    model), where the weights lie already.
    """

    nodes: tuple[Node, ...]
    replicas: tuple[Replica, ...]
    observing_since: float | None
    failures: tuple[Failure, ...] = ()
    cached: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class DesiredWorld:
    """``held``: GPUs that a plan is about to move replicas onto: others go elsewhere while there is room elsewhere.

    ``unwanted``: replicas that a plan lets go: they are the first to go where there are too many.
    """

    deployments: tuple[Deployment, ...]
    held: frozenset[str] = frozenset()
    unwanted: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CreateReplica:
    """A replica for which there is no room yet: it waits, with the reason."""

    deployment: str
    reason: str


@dataclass(frozen=True)
class PlaceReplica:
    """``replica`` None: a new one, which is to replace ``replaces``. ``place`` None: on any free units of a device that
    is not cut.
    """

    deployment: str
    replica: str | None
    node: str
    device: str
    memory_bytes: int
    reason: str
    place: Place | None = None
    replaces: str = ""


@dataclass(frozen=True)
class DrainReplica:
    replica: str
    reason: str


@dataclass(frozen=True)
class MarkLost:
    """It keeps its seat: its process may live. Drained when it returns."""

    replica: str
    reason: str


@dataclass(frozen=True)
class EndReplica:
    """Nothing of it runs, or will: its seat is free."""

    replica: str
    state: Literal["stopped", "failed", "lost"]
    reason: str


@dataclass(frozen=True)
class Explain:
    """The same state for another reason."""

    replica: str
    reason: str


Action = CreateReplica | PlaceReplica | DrainReplica | MarkLost | EndReplica | Explain


@dataclass(frozen=True)
class Planned:
    """A decision, and the action that carries it out; None where there is nothing more to do."""

    decision: Decision
    action: Action | None


@dataclass(frozen=True)
class Plan:
    actions: list[Action]
    decisions: list[Planned]
