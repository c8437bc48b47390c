"""What is and what should be in, what to do out. Pure: no database, no clock, no chance.

Each rule looks at one replica or one deployment; all see the same free units, which placements use up as they are
planned. Applying the actions and asking again gives no further action, so a tick may run twice or be lost.

    unplaced --Place--> on its node --(agent: loading, ready, crashed and tried again)--> Drain --> End
                                    --silent too long--> MarkLost: drained if it returns, replaced at once
                                    --crashed too often--> MarkFailed: ended, replaced elsewhere or later
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from scheduler.watch import NODE_HEARD_S

# A liveness key lives 10 s; a replica may be missing for 5 s more. Both must have passed while somebody looked.
LIVENESS_TTL_S = 10.0
LOST_AFTER_S = 5.0
GRACE_S = LIVENESS_TTL_S + LOST_AFTER_S
# The agent restarts a crashed runtime with pauses of 0.5 s to 8 s; this many in a row, and it will not come right.
MAX_RESTARTS = 5
# After failing everywhere a deployment is tried again: a minute later, then doubled up to ten.
RETRY_S = 60.0
LONGEST_RETRY_S = 600.0
# A node silent for so long is taken to be gone for good; should it return, its agent drains what it finds.
NODE_FORGOTTEN_S = 600.0


@dataclass(frozen=True)
class Device:
    """``label``: as people call it. ``units``: equal shares of its memory; ``used_units`` of them have an owner."""

    id: str
    label: str
    memory_bytes: int
    units: int
    used_units: int = 0

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
    id: str
    name: str
    heard_at: float | None
    cordoned: bool
    devices: tuple[Device, ...]

    def heard(self, now: float, within_s: float = NODE_HEARD_S) -> bool:
        return self.heard_at is not None and now - self.heard_at <= within_s


@dataclass(frozen=True)
class Replica:
    """``node`` and ``device`` None: not placed yet. ``run``: desired. State, reason, restarts: as last observed.

    ``missing_since``: since when its liveness has run out; None while it lives, or while nobody looked.
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


@dataclass(frozen=True)
class Deployment:
    """``count`` replicas of ``memory_bytes`` each."""

    id: str
    name: str
    count: int
    memory_bytes: int


@dataclass(frozen=True)
class Failure:
    """A replica that was given up, after its deployment was last changed."""

    deployment: str
    node: str
    at: float


@dataclass(frozen=True)
class ObservedWorld:
    """``observing_since``: None while the control plane is blind; then nothing is declared lost."""

    nodes: tuple[Node, ...]
    replicas: tuple[Replica, ...]
    observing_since: float | None
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True)
class DesiredWorld:
    deployments: tuple[Deployment, ...]


@dataclass(frozen=True)
class CreateReplica:
    """A replica for which there is no room yet: it waits, with the reason."""

    deployment: str
    reason: str


@dataclass(frozen=True)
class PlaceReplica:
    """``replica`` None: a new one."""

    deployment: str
    replica: str | None
    node: str
    device: str
    memory_bytes: int
    reason: str


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


def reconcile(observed: ObservedWorld, desired: DesiredWorld, now: float) -> list[Action]:
    return _Plan(observed, desired, now).actions


class _Plan:
    def __init__(self, observed: ObservedWorld, desired: DesiredWorld, now: float) -> None:
        self.now = now
        self.observed = observed
        self.nodes = {node.id: node for node in observed.nodes}
        by_name = sorted(observed.nodes, key=lambda node: node.name)
        self.usable = [node for node in by_name if node.heard(now) and not node.cordoned]
        self.devices = {device.id: device for node in observed.nodes for device in node.devices}
        self.free = {device.id: device.free_units for device in self.devices.values()}
        self.actions: list[Action] = []
        self.failures = list(observed.failures)
        self.waiting: list[tuple[Deployment, Replica | None, str | None]] = []
        # Placements only use units up: what found no room, and what is larger, finds none later.
        self.no_room_from: int | None = None
        self.reasons: dict[int, str] = {}
        counted: dict[str, list[Replica]] = {deployment.id: [] for deployment in desired.deployments}
        for replica in sorted(observed.replicas, key=_age):
            if not self._keeps(replica):
                continue
            if replica.deployment in counted:
                counted[replica.deployment].append(replica)
            else:
                self._drain(replica, "Its deployment is gone")
        for deployment in desired.deployments:
            self._scale(deployment, counted[deployment.id])
        for deployment, waiting, hold in self.waiting:
            self._explain(deployment, waiting, hold)

    # --- replicas that are --------------------------------------------------------------------------------------

    def _keeps(self, replica: Replica) -> bool:
        """Whether ``replica`` counts towards its deployment; plans its end where it does not."""
        if not replica.run:
            self._finish(replica)
            return False
        broken = replica.state in ("failed", "lost")
        if replica.node is not None and broken and replica.restarts >= MAX_RESTARTS:
            reason = f"Given up after {replica.restarts} restarts in a row. {replica.reason}"
            self._end(replica, "failed", reason)
            self.failures.append(Failure(replica.deployment, replica.node, self.now))
            return False
        lost = self._lost_reason(replica)
        if lost is not None:
            self._let_go(replica, MarkLost(replica.id, lost))
            return False
        return True

    def _finish(self, replica: Replica) -> None:
        if replica.node not in self.nodes or replica.state == "stopped":
            self._end(replica, "lost" if replica.state == "lost" else "stopped", replica.reason or "Stopped")
        else:
            self._let_go(replica, None)

    def _let_go(self, replica: Replica, action: Action | None) -> None:
        """``action`` when its node can still answer; the end when the node is gone for good."""
        node = self.nodes.get(replica.node) if replica.node is not None else None
        if node is None:
            self._end(replica, "lost", "Its node is gone")
        elif not node.heard(self.now, NODE_FORGOTTEN_S) and self._sees_for(NODE_FORGOTTEN_S):
            reason = f"Node {node.name} was not heard for {NODE_FORGOTTEN_S / 60:.0f} minutes"
            self._end(replica, "lost", reason)
        elif action is not None:
            self.actions.append(action)

    def _end(self, replica: Replica, state: Literal["stopped", "failed", "lost"], reason: str) -> None:
        self.actions.append(EndReplica(replica.id, state, reason))
        device = self.devices.get(replica.device) if replica.device is not None else None
        if device is not None:
            self.free[device.id] += device.units_for(replica.memory_bytes)

    def _lost_reason(self, replica: Replica) -> str | None:
        if replica.node is None or replica.missing_since is None or not self._sees_for(GRACE_S):
            return None
        node = self.nodes.get(replica.node)
        if node is None:
            return "Its node is gone"
        if not node.heard(self.now, GRACE_S) and self.now - replica.missing_since >= LOST_AFTER_S:
            return f"Neither node {node.name} nor the runtime was heard for {GRACE_S:.0f} s"
        # Before it is ready, and while its agent restarts it, the agent's word is what counts.
        if replica.state == "ready" and self.now - replica.missing_since >= LOST_AFTER_S:
            return f"The runtime on {node.name} sent no sign of life for {GRACE_S:.0f} s"
        return None

    def _sees_for(self, seconds: float) -> bool:
        since = self.observed.observing_since
        return since is not None and self.now - since >= seconds

    def _drain(self, replica: Replica, reason: str) -> None:
        if replica.node is None:
            self._end(replica, "stopped", reason)
        else:
            self._let_go(replica, DrainReplica(replica.id, reason))

    # --- deployments ----------------------------------------------------------------------------------------------

    def _scale(self, deployment: Deployment, replicas: list[Replica]) -> None:
        surplus = len(replicas) - deployment.count
        for replica in sorted(replicas, key=_dispensable)[: max(0, surplus)]:
            replicas.remove(replica)
            reason = "Scaled down" if deployment.count else "Its deployment was stopped"
            self._drain(replica, reason)
        taken = [replica.node for replica in replicas if replica.node is not None]
        for replica in replicas:
            if replica.node is None:
                self._place(deployment, replica, taken)
        for _ in range(deployment.count - len(replicas)):
            self._place(deployment, None, taken)

    def _place(self, deployment: Deployment, replica: Replica | None, taken: list[str]) -> None:
        """Seats ``replica`` (None: a new one), or has it wait with the reason. ``taken``: nodes of its siblings."""
        memory_bytes = replica.memory_bytes if replica is not None else deployment.memory_bytes
        hold = self._hold(deployment.id)
        found = self._first_fit(deployment.id, memory_bytes, taken, retry=hold is None)
        if found is not None:
            node, device = found
            self.free[device.id] -= device.units_for(memory_bytes)
            taken.append(node.id)
            reason = f"Placed on {device.label} of {node.name}"
            name = replica.id if replica is not None else None
            self.actions.append(PlaceReplica(deployment.id, name, node.id, device.id, memory_bytes, reason))
        else:
            self.waiting.append((deployment, replica, hold))

    def _explain(self, deployment: Deployment, replica: Replica | None, hold: str | None) -> None:
        # After all placements: the reason names what is free then, and is the same at the next tick.
        memory_bytes = replica.memory_bytes if replica is not None else deployment.memory_bytes
        if memory_bytes not in self.reasons:
            self.reasons[memory_bytes] = no_room_reason(self.usable, memory_bytes, self.free)
        reason = hold or self.reasons[memory_bytes]
        if replica is None:
            self.actions.append(CreateReplica(deployment.id, reason))
        elif replica.reason != reason:
            self.actions.append(Explain(replica.id, reason))

    def _first_fit(
        self, deployment: str, memory_bytes: int, taken: Sequence[str], *, retry: bool
    ) -> tuple[Node, Device] | None:
        """The first device with room: nodes where no replica of it failed first, of these nodes without a sibling.

        While ``retry`` is False, nodes where one failed are left out.
        """
        if self.no_room_from is not None and memory_bytes >= self.no_room_from:
            return None
        failed = {failure.node for failure in self.failures if failure.deployment == deployment}
        nodes = sorted(self.usable, key=lambda node: (node.id in failed, node.id in taken))  # stable: then by name
        for node in nodes:
            if node.id in failed and not retry:
                continue
            for device in node.devices:
                if device.units_for(memory_bytes) <= self.free[device.id]:
                    return node, device
        if retry:
            self.no_room_from = memory_bytes
        return None

    def _hold(self, deployment: str) -> str | None:
        """Why a deployment that failed must wait before a node is tried once more; None when it need not."""
        times = [failure.at for failure in self.failures if failure.deployment == deployment]
        if not times:
            return None
        pause = min(LONGEST_RETRY_S, RETRY_S * 2 ** min(len(times) - 1, 10))
        if self.now - max(times) >= pause:
            return None
        return f"It failed {len(times)} times where it could run; the next try is {pause:.0f} s after the last"


def _age(replica: Replica) -> tuple[float, str]:
    return replica.created_at, replica.id


def _dispensable(replica: Replica) -> tuple[bool, bool, float, str]:
    """First who waits for room, then who is not ready, the newest first among equals."""
    return replica.node is not None, replica.state == "ready", -replica.created_at, replica.id


def no_room_reason(nodes: Iterable[Node], memory_bytes: int, free: dict[str, int]) -> str:
    """Why ``memory_bytes`` fit nowhere on ``nodes``: what was needed, and what the roomiest devices have."""
    found = [(device, f"{node.name} {device.label}") for node in nodes for device in node.devices]
    if not found:
        return "No node is connected that takes replicas"
    devices = sorted(found, key=lambda pair: -free[pair[0].id] * pair[0].unit_bytes)
    told = [
        f"{label} has {gb(free[device.id] * device.unit_bytes)} of {gb(device.memory_bytes)}"
        for device, label in devices[:3]
    ]
    rest = f", and {len(devices) - 3} more have no more" if len(devices) > 3 else ""
    return f"No device has {gb(memory_bytes)} free: {', '.join(told)}{rest}"


def gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
