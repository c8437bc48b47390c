"""What is and what should be in, what to do out. Pure: no database, no clock, no chance.

Each rule looks at one replica or one deployment; places are found once all have been looked at, and placements use
them up as they are planned (scheduler/seating.py). Applying the actions and asking again gives no further action, so a
tick may run twice or be lost. Beside the actions stand the decisions: why each is what it is, and for who waits why it
still does.

    unplaced --Place--> on its node --(agent: loading, ready, crashed and tried again)--> Drain --> End
                                    --silent too long--> MarkLost: drained if it returns, replaced at once
                                    --crashed too often--> End as failed: replaced elsewhere or later
                                    --its node or GPU drains--> serves on until another is ready elsewhere, then Drain
                                    --more isolation is promised than it has--> the same
                                    --its GPU is fenced--> Drain: replaced at once
                                    --another that replaces it is ready--> Drain
                                    --it is beyond a guarantee and others' guarantees find no room--> Drain
"""

from __future__ import annotations

from typing import Any, Literal

from scheduler.decisions import Decision, Kind
from scheduler.packing.online import Policy
from scheduler.placing import Floor
from scheduler.planner.cuts import Cuts
from scheduler.planner.demands import policy_of
from scheduler.planner.fleet import books_of, going, isolates_less
from scheduler.seating import Crew, Seating
from scheduler.world import (
    Action,
    Deployment,
    DesiredWorld,
    DrainReplica,
    EndReplica,
    Failure,
    MarkLost,
    ObservedWorld,
    Plan,
    Planned,
    Replica,
)

# A liveness key lives 10 s; a replica may be missing for 5 s more. Both must have passed while somebody looked.
LIVENESS_TTL_S = 10.0
LOST_AFTER_S = 5.0
GRACE_S = LIVENESS_TTL_S + LOST_AFTER_S
# The agent restarts a crashed runtime with pauses of 0.5 s to 8 s; this many in a row, and it will not come right.
MAX_RESTARTS = 5
# A node silent for so long is taken to be gone for good; should it return, its agent drains what it finds.
NODE_FORGOTTEN_S = 600.0
# One that is to replace another and is not ready by then never will be.
LONGEST_HANDOVER_S = 1800.0
_DONE: dict[Kind, str] = {
    "replace": "the replica is to be replaced",
    "scale": "the replica is let go",
    "drain": "the replica moves off",
}
_DONE_ON: dict[Kind, str] = {
    "replace": "the replica on {} is to be replaced",
    "scale": "the replica on {} is let go",
    "drain": "the replica on {} moves off",
}


def reconcile(observed: ObservedWorld, desired: DesiredWorld, now: float, policy: Policy | None = None) -> Plan:
    """``policy``: which slots are kept free for whom; by default what the deployments ask for weighs alone."""
    tick = _Tick(observed, desired, now)
    tick.seat(policy)
    return Plan(tick.actions, tick.decisions)


class _Tick:
    def __init__(self, observed: ObservedWorld, desired: DesiredWorld, now: float) -> None:
        self.now = now
        self.observed, self.desired = observed, desired
        self.nodes = {node.id: node for node in observed.nodes}
        self.devices = {device.id: device for node in observed.nodes for device in node.devices}
        self.actions: list[Action] = []
        self.decisions: list[Planned] = []
        self.failures = list(observed.failures)
        self.names = {deployment.id: deployment.name for deployment in desired.deployments}
        self.demands = {one.id: one.demand for one in desired.deployments if one.demand is not None and one.count}
        self.leaving = going(observed.nodes, observed.replicas, self.demands)
        self.ended: set[str] = set()
        counted: dict[str, list[Replica]] = {deployment.id: [] for deployment in desired.deployments}
        for replica in sorted(observed.replicas, key=_age):
            if not self._keeps(replica):
                continue
            if replica.deployment in counted:
                counted[replica.deployment].append(replica)
            else:
                self._drain(replica, "Its deployment is gone", "scale", {})
        self.crews = [self._scale(deployment, counted[deployment.id]) for deployment in desired.deployments]

    def seat(self, policy: Policy | None) -> None:
        """Places for what is missing, on what is free once all that ends has ended."""
        observed, now = self.observed, self.now
        policy = policy or policy_of(self.demands.values())
        freed: dict[str, int] = {}
        for replica in observed.replicas:
            device = self.devices.get(replica.device or "")
            if device is not None and replica.id in self.ended:
                freed[device.id] = freed.get(device.id, 0) + device.units_for(replica.memory_bytes)
        sitting = [replica for replica in observed.replicas if replica.id not in self.ended]
        books, closed = books_of(
            observed.nodes, sitting, now, cached=observed.cached, demands=self.demands, leaving=self.leaving
        )
        Seating(
            Floor(observed.nodes, now, Cuts(books, closed, policy), freed),
            self.crews,
            failures=self.failures,
            demands=self.demands,
            policy=policy,
            held=self.desired.held,
            now=now,
            actions=self.actions,
            decisions=self.decisions,
        ).run()

    # --- replicas that are --------------------------------------------------------------------------------------

    def _keeps(self, replica: Replica) -> bool:
        """Whether ``replica`` counts towards its deployment; plans its end where it does not."""
        if not replica.run:
            self._finish(replica)
            return False
        broken = replica.state in ("failed", "lost")
        if replica.node is not None and broken and replica.restarts >= MAX_RESTARTS:
            reason = f"Given up after {replica.restarts} restarts in a row. {replica.reason}"
            inputs = {"restarts": replica.restarts, "most_restarts": MAX_RESTARTS, "last_reason": replica.reason}
            self._decide("replace", replica, reason, inputs, self._end(replica, "failed", reason))
            self.failures.append(Failure(replica.deployment, replica.node, self.now, reason))
            return False
        lost = self._lost_reason(replica)
        if lost is not None:
            missing = self.now - replica.missing_since if replica.missing_since is not None else 0.0
            inputs = {"missing_s": round(missing, 1), "grace_s": GRACE_S, "state": replica.state}
            self._decide("replace", replica, lost, inputs, self._let_go(replica, MarkLost(replica.id, lost)))
            return False
        device = self.devices.get(replica.device) if replica.device is not None else None
        if device is not None and device.fenced:
            self._drain(replica, f"{self._where(replica)} is fenced: {device.unfit}", "drain", {"health": device.unfit})
            return False
        return True

    def _finish(self, replica: Replica) -> None:
        if replica.node not in self.nodes or replica.state == "stopped":
            self._end(replica, "lost" if replica.state == "lost" else "stopped", replica.reason or "Stopped")
        else:
            self._let_go(replica, None)

    def _let_go(self, replica: Replica, action: Action | None) -> Action | None:
        """``action`` when its node can still answer; the end when the node is gone for good."""
        node = self.nodes.get(replica.node) if replica.node is not None else None
        if node is None:
            return self._end(replica, "lost", "Its node is gone")
        if not node.heard(self.now, NODE_FORGOTTEN_S) and self._sees_for(NODE_FORGOTTEN_S):
            reason = f"Node {node.name} was not heard for {NODE_FORGOTTEN_S / 60:.0f} minutes"
            return self._end(replica, "lost", reason)
        self.leaving.add(replica.id)
        if action is not None:
            self.actions.append(action)
        return action

    def _end(self, replica: Replica, state: Literal["stopped", "failed", "lost"], reason: str) -> Action:
        action = EndReplica(replica.id, state, reason)
        self.actions.append(action)
        self.ended.add(replica.id)
        return action

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

    def _where(self, replica: Replica) -> str:
        """As people call it: its device and its node."""
        node = self.nodes.get(replica.node) if replica.node is not None else None
        device = self.devices.get(replica.device) if replica.device is not None else None
        names = [device.label] if device is not None else []
        return " of ".join([*names, node.name] if node is not None else names) or "nowhere"

    def _drain(self, replica: Replica, reason: str, kind: Kind, inputs: dict[str, Any]) -> None:
        if replica.node is None:
            action: Action | None = self._end(replica, "stopped", reason)
        else:
            action = self._let_go(replica, DrainReplica(replica.id, reason))
        self._decide(kind, replica, reason, inputs, action)

    def _decide(self, kind: Kind, replica: Replica, why: str, inputs: dict[str, Any], action: Action | None) -> None:
        """A decision about a replica that is."""
        node = self.nodes.get(replica.node) if replica.node is not None else None
        done = _DONE_ON[kind].format(node.name) if node is not None else _DONE[kind]
        name = self.names.get(replica.deployment, "A deployment that is gone")
        decision = Decision(
            kind=kind,
            deployment=replica.deployment,
            summary=f"{name}: {done}",
            why=why,
            replica=replica.id,
            node=replica.node or "",
            inputs={"memory_bytes": replica.memory_bytes, **inputs},
        )
        self.decisions.append(Planned(decision, action))

    # --- deployments ----------------------------------------------------------------------------------------------

    def _scale(self, deployment: Deployment, replicas: list[Replica]) -> Crew:
        """As many as wanted that stay. Those that are to leave are extra: they serve until enough others are ready.
        So are those that are to replace another: until they are ready the other one counts.
        """
        staying, heirs = self._heirs(self._handed_over(replicas))
        leaving = [replica for replica in staying if replica.id in self.leaving]
        staying = [replica for replica in staying if replica.id not in self.leaving]
        surplus = len(staying) - deployment.count
        inputs = {"wanted": deployment.count, "had": len(replicas)}
        reason = "Scaled down" if deployment.count else "Its deployment was stopped"
        for replica in sorted(staying, key=self._dispensable)[: max(0, surplus)]:
            staying.remove(replica)
            self._drain(replica, reason, "scale", inputs)
            self._drain_heirs(replica, heirs, reason, inputs)
        self._empty(deployment, staying, leaving)
        return Crew(deployment, staying)

    def _dispensable(self, replica: Replica) -> tuple[bool, bool, bool, float, str]:
        """First who waits for room, then who is not ready, then whom a plan lets go; the newest among equals."""
        wanted = replica.id not in self.desired.unwanted
        return replica.node is not None, replica.state == "ready", wanted, -replica.created_at, replica.id

    def _handed_over(self, replicas: list[Replica]) -> list[Replica]:
        """Those that are left once each that is ready has replaced whom it replaces."""
        left = {replica.id: replica for replica in replicas}
        for replica in replicas:
            old = left.get(replica.replaces)
            if old is None or replica.id not in left or not _ready(replica):
                continue
            if replica.id in self.leaving and old.id not in self.leaving:
                continue
            reason = f"Replaced by {replica.id} on {self._where(replica)}: make-before-break"
            self._drain(old, reason, "drain", {"replaced_by": replica.id})
            del left[old.id]
        return list(left.values())

    def _heirs(self, replicas: list[Replica]) -> tuple[list[Replica], list[Replica]]:
        """Those that count, and those that wait to replace one of them. Who stands in for one that leaves counts."""
        known = {replica.id for replica in replicas}
        counting, heirs = [], []
        for replica in replicas:
            if replica.replaces not in known or (replica.replaces in self.leaving and replica.id not in self.leaving):
                counting.append(replica)
                continue
            reason = self._no_heir(replica)
            if not reason:
                heirs.append(replica)
            elif _ready(replica):  # it serves: let go once others stand in for it
                counting.append(replica)
            else:
                self._drain(replica, reason, "scale", {"replaces": replica.replaces})
        return counting, heirs

    def _no_heir(self, replica: Replica) -> str:
        """Why it will not replace the other; empty while it may."""
        if replica.node is None:
            return "The place that it was made for is gone"
        if replica.id in self.leaving:
            return f"{self._where(replica)} is being emptied before it took over"
        if self.now - replica.created_at > LONGEST_HANDOVER_S:
            return f"It did not take over within {LONGEST_HANDOVER_S / 60:.0f} minutes"
        return ""

    def _drain_heirs(self, replica: Replica, heirs: list[Replica], reason: str, inputs: dict[str, Any]) -> None:
        for heir in [heir for heir in heirs if heir.replaces == replica.id]:
            heirs.remove(heir)
            self._drain(heir, reason, "scale", inputs)
            self._drain_heirs(heir, heirs, reason, inputs)

    def _empty(self, deployment: Deployment, staying: list[Replica], leaving: list[Replica]) -> None:
        """Lets go of those that are to leave and that others stand in for; the rest serves on."""
        ready = sum(_ready(replica) for replica in staying)
        needed = max(0, deployment.count - ready)
        for replica in sorted(leaving, key=self._dispensable)[: max(0, len(leaving) - needed)]:
            inputs = {"wanted": deployment.count, "ready_elsewhere": ready, "on_draining_nodes": len(leaving)}
            if deployment.count == 0:
                self._drain(replica, "Its deployment was stopped", "scale", inputs)
                continue
            stand_in = f"{ready} of {deployment.count} replicas are ready elsewhere"
            self._drain(replica, f"{self._why_leaving(replica)}: {stand_in}", "drain", inputs)

    def _why_leaving(self, replica: Replica) -> str:
        node = self.nodes[replica.node or ""]
        if node.draining:
            return f"Node {node.name} is drained"
        device, demand = self.devices.get(replica.device or ""), self.demands.get(replica.deployment)
        if demand is not None and isolates_less(replica, demand) and not (device is not None and device.leaving):
            return f"{self._where(replica)} gives less than the {demand.isolation.label} isolation that is promised"
        reason = device.unfit if device is not None else ""
        return f"{self._where(replica)} is emptied, {reason or 'as it was asked to be'}"


def _ready(replica: Replica) -> bool:
    return replica.state == "ready" and replica.missing_since is None


def _age(replica: Replica) -> tuple[float, str]:
    return replica.created_at, replica.id
