"""The fleet and what is asked of it as the packing takes them, from the database as it is now."""

from __future__ import annotations

from django.utils import timezone

from berth.plans import world
from scheduler.packing.model import Demand, Fleet
from scheduler.planner.fleet import fleet_of


def current() -> tuple[Fleet, dict[str, Demand]]:
    """The GPUs of known boards with who sits where, and the demand of every deployment that is to run, by its id.

    Ids are the public ones; a GPU's node is the node's id. Of a fleet without such GPUs nothing more is read.
    """
    nodes = world.nodes()
    boards = boards_of(nodes)
    if not boards:
        return Fleet(()), {}
    replicas = world.replicas()
    fleet = fleet_of(nodes, replicas, timezone.now().timestamp(), world.cached())
    return fleet, world.demands_of(world.deployments(replicas, boards))


def boards_of(nodes: tuple[world.plan.Node, ...]) -> tuple[str, ...]:
    return tuple(sorted({device.board for node in nodes for device in node.devices if device.board}))
