"""How far the drain of a node is: read from what its replicas and their successors do, so that it is never stale."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from berth.deployments.models import Replica, ReplicaState
from berth.deployments.selectors import annotate_live
from berth.fleet.models import Node


@dataclass(frozen=True, slots=True)
class Move:
    """One replica that leaves. ``state``: serving, waiting (no room for a successor) or ending.

    ``running``: requests that it has still to finish; None when nobody knows at the moment.
    """

    replica: str
    deployment: str
    deployment_name: str
    tenant: str
    state: str
    successor: str | None
    successor_node: str | None
    reason: str
    running: int | None


@dataclass(frozen=True, slots=True)
class Drain:
    """``state``: replacing, blocked, ending or done."""

    state: str
    reason: str
    requested_at: datetime
    requested_by: str
    total: int
    left: int
    moves: tuple[Move, ...]


def annotate_drains(nodes: Sequence[Node]) -> None:
    """Sets ``drain`` on each: None, or how far it is. Two queries, and one question to Redis, when any is drained."""
    draining = {node.id: node for node in nodes if node.drain_requested_at is not None}
    for node in nodes:
        node.drain = None  # type: ignore[attr-defined]
    if not draining:
        return
    living = Replica.objects.for_platform().filter(ended_at=None).select_related("deployment", "node").order_by("id")
    leaving: defaultdict[str, list[Replica]] = defaultdict(list)
    for row in living.filter(node_id__in=draining):
        leaving[row.node_id or ""].append(row)
    annotate_live(row for rows in leaving.values() for row in rows)
    deployments = {row.deployment_id for rows in leaving.values() for row in rows}
    successors: defaultdict[str, list[Replica]] = defaultdict(list)
    for row in living.filter(deployment_id__in=deployments, run=True):
        if row.node is None or row.node.drain_requested_at is None:
            successors[row.deployment_id].append(row)
    for node in draining.values():
        node.drain = _drain(node, leaving[node.id], successors)  # type: ignore[attr-defined]


def _drain(node: Node, rows: Sequence[Replica], successors: dict[str, list[Replica]]) -> Drain:
    moves = tuple(_move(row, successors.get(row.deployment_id, [])) for row in rows)
    waiting = [move for move in moves if move.state == "waiting"]
    if waiting:
        state = "blocked"
        reason = f"{len(waiting)} of {len(moves)} have no room elsewhere and go on serving. {waiting[0].reason}"
    elif any(move.state == "serving" for move in moves):
        state, reason = "replacing", "Replicas elsewhere are getting ready; until then these go on serving"
    elif moves:
        state, reason = "ending", "They take no new request and finish what they run"
    else:
        state, reason = "done", "Nothing runs here"
    assert node.drain_requested_at is not None
    return Drain(
        state=state,
        reason=reason,
        requested_at=node.drain_requested_at,
        requested_by=node.drain_requested_by,
        total=max(node.drain_total, len(moves)),
        left=len(moves),
        moves=moves,
    )


def _move(row: Replica, successors: Sequence[Replica]) -> Move:
    unready = [other for other in successors if other.state != ReplicaState.READY]
    # Whoever waits for room is the news, then whoever is on the way; a ready one has done its part.
    other = min(unready, key=lambda other: other.node_id is not None, default=None)
    if not row.run:
        state, reason, other = "ending", row.reason, None
    elif other is not None and other.node_id is None:
        state, reason = "waiting", other.reason
    else:
        state, reason = "serving", other.reason if other is not None else "Its successor is being placed"
    return Move(
        replica=row.id,
        deployment=row.deployment_id,
        deployment_name=row.deployment.name,
        tenant=row.tenant_id,
        state=state,
        successor=other.id if other is not None else None,
        successor_node=other.node.name if other is not None and other.node is not None else None,
        reason=reason,
        running=_running(row),
    )


def _running(row: Replica) -> int | None:
    stats: dict[str, Any] | None = row.stats  # type: ignore[attr-defined]
    return None if stats is None else int(stats.get("running", 0)) + int(stats.get("queued", 0))
