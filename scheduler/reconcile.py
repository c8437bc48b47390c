"""What is and what should be in, what to do out. Pure: no database, no clock, no chance.

Each rule looks at one replica or one deployment; all see the same free units, which placements use up as they are
planned. Applying the actions and asking again gives no further action, so a tick may run twice or be lost. Beside the
actions stand the decisions: why each is what it is, and for who waits why it still does.

    unplaced --Place--> on its node --(agent: loading, ready, crashed and tried again)--> Drain --> End
                                    --silent too long--> MarkLost: drained if it returns, replaced at once
                                    --crashed too often--> End as failed: replaced elsewhere or later
                                    --its node drains--> serves on until another is ready elsewhere, then Drain
"""

from __future__ import annotations

from typing import Any, Literal

from scheduler.decisions import Candidate, Decision, Kind
from scheduler.placing import Floor, Wish, gb, names_of, score_why
from scheduler.world import (
    Action,
    CreateReplica,
    Deployment,
    DesiredWorld,
    Device,
    DrainReplica,
    EndReplica,
    Explain,
    Failure,
    MarkLost,
    Node,
    ObservedWorld,
    PlaceReplica,
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
# After failing everywhere a deployment is tried again: a minute later, then doubled up to ten.
RETRY_S = 60.0
LONGEST_RETRY_S = 600.0
# A node silent for so long is taken to be gone for good; should it return, its agent drains what it finds.
NODE_FORGOTTEN_S = 600.0
# Of so many decisions of one tick the candidates are kept: judging a fleet for each of thousands takes too long.
MOST_JUDGED = 200
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


def reconcile(observed: ObservedWorld, desired: DesiredWorld, now: float) -> Plan:
    tick = _Tick(observed, desired, now)
    return Plan(tick.actions, tick.decisions)


class _Tick:
    def __init__(self, observed: ObservedWorld, desired: DesiredWorld, now: float) -> None:
        self.now = now
        self.observed = observed
        self.nodes = {node.id: node for node in observed.nodes}
        self.floor = Floor(observed.nodes, now)
        self.actions: list[Action] = []
        self.decisions: list[Planned] = []
        self.failures = list(observed.failures)
        self.names = {deployment.id: deployment.name for deployment in desired.deployments}
        self.waiting: list[tuple[Deployment, Replica | None, Wish, str | None]] = []
        self.no_room: dict[int, tuple[str, tuple[Candidate, ...]]] = {}
        self.refused: set[str] = set()
        counted: dict[str, list[Replica]] = {deployment.id: [] for deployment in desired.deployments}
        for replica in sorted(observed.replicas, key=_age):
            if not self._keeps(replica):
                continue
            if replica.deployment in counted:
                counted[replica.deployment].append(replica)
            else:
                self._drain(replica, "Its deployment is gone", "scale", {})
        for deployment in desired.deployments:
            self._scale(deployment, counted[deployment.id])
        for deployment, waiting, wish, hold in self.waiting:
            self._explain(deployment, waiting, wish, hold)

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
        if action is not None:
            self.actions.append(action)
        return action

    def _end(self, replica: Replica, state: Literal["stopped", "failed", "lost"], reason: str) -> Action:
        action = EndReplica(replica.id, state, reason)
        self.actions.append(action)
        if replica.device in self.floor.devices:
            self.floor.give_back(replica.device, replica.memory_bytes)
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

    def _scale(self, deployment: Deployment, replicas: list[Replica]) -> None:
        """As many as wanted that stay. Those on a draining node are extra: they serve until enough others are ready."""
        leaving = [replica for replica in replicas if self._is_leaving(replica)]
        staying = [replica for replica in replicas if not self._is_leaving(replica)]
        surplus = len(staying) - deployment.count
        inputs = {"wanted": deployment.count, "had": len(replicas)}
        reason = "Scaled down" if deployment.count else "Its deployment was stopped"
        for replica in sorted(staying, key=_dispensable)[: max(0, surplus)]:
            staying.remove(replica)
            self._drain(replica, reason, "scale", inputs)
        self._empty(deployment, staying, leaving)
        taken = [replica.node for replica in staying if replica.node is not None]
        for replica in staying:
            if replica.node is None:
                self._place(deployment, replica, taken)
        for _ in range(deployment.count - len(staying)):
            self._place(deployment, None, taken)

    def _is_leaving(self, replica: Replica) -> bool:
        node = self.nodes.get(replica.node) if replica.node is not None else None
        return node is not None and node.draining

    def _empty(self, deployment: Deployment, staying: list[Replica], leaving: list[Replica]) -> None:
        """Lets go of those on draining nodes that others stand in for; the rest serves on."""
        ready = sum(replica.state == "ready" and replica.missing_since is None for replica in staying)
        needed = max(0, deployment.count - ready)
        for replica in sorted(leaving, key=_dispensable)[: max(0, len(leaving) - needed)]:
            inputs = {"wanted": deployment.count, "ready_elsewhere": ready, "on_draining_nodes": len(leaving)}
            if deployment.count == 0:
                self._drain(replica, "Its deployment was stopped", "scale", inputs)
                continue
            node = self.nodes[replica.node or ""]
            reason = f"Node {node.name} is drained: {ready} of {deployment.count} replicas are ready elsewhere"
            self._drain(replica, reason, "drain", inputs)

    def _place(self, deployment: Deployment, replica: Replica | None, taken: list[str]) -> None:
        """Seats ``replica`` (None: a new one), or has it wait with the reason. ``taken``: nodes of its siblings."""
        memory_bytes = replica.memory_bytes if replica is not None else deployment.memory_bytes
        failures = [failure for failure in self.failures if failure.deployment == deployment.id]
        hold = self._hold(failures)
        wish = Wish(memory_bytes, frozenset(f.node for f in failures), frozenset(taken), retry=hold is None)
        found = self.floor.first_fit(wish)
        if found is None:
            self.waiting.append((deployment, replica, wish, hold))
            return
        node, device = found
        name = replica.id if replica is not None else None
        reason = f"Placed on {device.label} of {node.name}"
        action = PlaceReplica(deployment.id, name, node.id, device.id, memory_bytes, reason)
        self.actions.append(action)
        self.decisions.append(Planned(self._placement(deployment, name, wish, node, device), action))
        self.floor.take(device, memory_bytes)
        taken.append(node.id)

    def _placement(
        self, deployment: Deployment, replica: str | None, wish: Wish, node: Node, device: Device
    ) -> Decision:
        detailed = len(self.decisions) < MOST_JUDGED
        candidates = self.floor.candidates(wish, device.id) if detailed else ()
        fitting = sum(candidate.fits for candidate in candidates)
        among = f"the best of {fitting} devices with room" if fitting > 1 else "the one device with room"
        return Decision(
            kind="place",
            deployment=deployment.id,
            summary=f"{deployment.name}: a replica is placed on {node.name} {device.label}",
            why=f"{among if detailed else 'the first device with room'}: {score_why(node, wish)}",
            replica=replica or "",
            node=node.id,
            device=device.id,
            inputs=self._inputs(deployment, wish),
            candidates=candidates,
        )

    def _inputs(self, deployment: Deployment, wish: Wish) -> dict[str, Any]:
        return {
            "memory_bytes": wish.memory_bytes,
            "service_class": deployment.service_class,
            "wanted": deployment.count,
            "siblings_on": names_of(wish.taken, self.floor.nodes),
            "failed_on": names_of(wish.failed, self.floor.nodes),
            "nodes_usable": len(self.floor.usable),
            "devices": len(self.floor.devices),
        }

    def _explain(self, deployment: Deployment, replica: Replica | None, wish: Wish, hold: str | None) -> None:
        # After all placements: the reason names what is free then, and is the same at the next tick.
        if wish.memory_bytes not in self.no_room:
            plain = Wish(wish.memory_bytes, frozenset(), frozenset(), retry=True)
            found = self.floor.no_room_reason(wish.memory_bytes), self.floor.candidates(plain)
            self.no_room[wish.memory_bytes] = found
        why, candidates = self.no_room[wish.memory_bytes]
        reason = hold or why
        action: Action | None = None
        if replica is None:
            action = CreateReplica(deployment.id, reason)
        elif replica.reason != reason:
            action = Explain(replica.id, reason)
        if action is not None:
            self.actions.append(action)
        if deployment.id not in self.refused:
            self.refused.add(deployment.id)
            candidates = self.floor.candidates(wish) if hold is not None else candidates
            summary = f"{deployment.name}: no place for a replica of {gb(wish.memory_bytes)}"
            inputs = self._inputs(deployment, wish)
            waits = replica.id if replica is not None else ""
            decision = Decision("refuse", deployment.id, summary, reason, waits, inputs=inputs, candidates=candidates)
            self.decisions.append(Planned(decision, None))

    def _hold(self, failures: list[Failure]) -> str | None:
        """Why a deployment that failed must wait before a node is tried once more; None when it need not."""
        if not failures:
            return None
        last = max(failures, key=lambda failure: failure.at)
        pause = min(LONGEST_RETRY_S, RETRY_S * 2 ** min(len(failures) - 1, 10))
        if self.now - last.at >= pause:
            return None
        node = self.nodes.get(last.node)
        where = f" on {node.name}" if node is not None else ""
        times = f"{len(failures)} times" if len(failures) > 1 else "once"
        said = f" Last{where}: {last.reason.rstrip('.')}." if last.reason else ""
        return f"It failed {times} where it could run.{said} The next try is {pause:.0f} s after the last"


def _age(replica: Replica) -> tuple[float, str]:
    return replica.created_at, replica.id


def _dispensable(replica: Replica) -> tuple[bool, bool, float, str]:
    """First who waits for room, then who is not ready, the newest first among equals."""
    return replica.node is not None, replica.state == "ready", -replica.created_at, replica.id
