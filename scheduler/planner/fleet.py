"""The world as the packing sees it: GPUs that are cut, and who sits on them. Pure.

A replica is going when it is to stop, when what it sits on is being emptied, or when it is isolated less than its
deployment asks for now: a plan for later leaves its seat out, while who looks for a place now finds its units taken. A
GPU on which something sits that the tables do not allow (units from before it had a board, an instance that another
tool made) takes nothing new, with that as the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from scheduler.geometry.layouts import layouts
from scheduler.packing.books import Books
from scheduler.packing.model import Demand, Fleet, Gpu, Isolation, Seat
from scheduler.packing.plans import beyond_guarantee
from scheduler.world import Device, Node, Replica

# The demand of a seat that is going: nobody has to keep away from it.
GOING = ""
# Who does not serve yet is beyond the guarantee before all who do.
_LATER_S = 1e12


def fleet_of(
    nodes: Iterable[Node],
    replicas: Iterable[Replica],
    now: float,
    cached: frozenset[tuple[str, str]] = frozenset(),
    demands: Mapping[str, Demand] | None = None,
) -> Fleet:
    """For a plan: without those that are going. ``demands``: by deployment; they say anew who is burst."""
    nodes, replicas = tuple(nodes), tuple(replicas)
    gone = going(nodes, replicas, demands)
    staying = [replica for replica in replicas if replica.id not in gone]
    return books_of(nodes, staying, now, cached=cached, demands=demands)[0].snapshot()


def books_of(
    nodes: Iterable[Node],
    replicas: Iterable[Replica],
    now: float,
    *,
    cached: frozenset[tuple[str, str]] = frozenset(),
    demands: Mapping[str, Demand] | None = None,
    leaving: Collection[str] = (),
) -> tuple[Books, dict[str, str]]:
    """Books with every seat, and by GPU why it takes nothing new. ``leaving``: replicas that are going."""
    gpus: list[Gpu] = []
    closed: dict[str, str] = {}
    for node in nodes:
        reason = why_unusable(node, now)
        for device in node.devices:
            if device.board:
                odd = _odd(device)
                why = reason or device.unfit or ("it is being emptied" if device.leaving else "") or odd
                closed[device.id] = why
                blocked = () if odd else device.blocked
                domain = node.domain or node.id
                gpus.append(Gpu(device.id, device.board, node.id, domain, device.kinds, not why, blocked))
    fleet, oddities = Fleet(tuple(gpus), (), cached), dict[str, str]()
    where = {gpu.id for gpu in gpus}
    misplaced: list[Seat] = []
    seats = tuple(_seats(where, replicas, demands, leaving, oddities))
    books = Books(replace(fleet, seats=seats), misplaced)
    oddities |= {seat.gpu: f"{seat.replica} sits where no table allows it to be" for seat in misplaced}
    if oddities:
        closed |= {gpu: closed[gpu] or reason for gpu, reason in oddities.items()}
        shut = tuple(replace(gpu, takes_new=gpu.takes_new and gpu.id not in oddities) for gpu in gpus)
        books = Books(replace(books.snapshot(), gpus=shut))
    return books, {gpu: reason for gpu, reason in closed.items() if reason}


def going(nodes: Iterable[Node], replicas: Iterable[Replica], demands: Mapping[str, Demand] | None = None) -> set[str]:
    """Replicas that are to stop, whose node or device is to be emptied, or that are isolated less than is asked now."""
    nodes, demands = tuple(nodes), demands or {}
    drained = {node.id for node in nodes if node.draining}
    emptied = {device.id for node in nodes for device in node.devices if device.leaving}
    return {
        one.id
        for one in replicas
        if not one.run
        or one.node in drained
        or one.device in emptied
        or isolates_less(one, demands.get(one.deployment))
    }


def isolates_less(replica: Replica, demand: Demand | None) -> bool:
    """Whether where it sits is below the isolation of ``demand``, as when a contract asks for more than before."""
    if demand is None or replica.node is None:
        return False
    return (replica.place.slot.kind if replica.place is not None else Isolation.MPS) < demand.isolation


def why_unusable(node: Node, now: float) -> str:
    """Why ``node`` takes no replica now; empty where it does."""
    if node.draining:
        return "the node is being drained"
    if node.cordoned:
        return "the node is cordoned"
    if node.heard_at is None:
        return "the node never joined"
    return "" if node.heard(now) else f"the node was not heard for {now - node.heard_at:.0f} s"


def _serves(replica: Replica) -> bool:
    return replica.state == "ready" and replica.missing_since is None


def trust_of(replica: Replica, demand: Demand | None) -> str:
    """Nobody shares with one of whom nothing is known."""
    return replica.trust or (demand.trust if demand is not None else f"of {replica.deployment}")


def _odd(device: Device) -> str:
    """What is wrong with its blocked instances, which then are left out; empty where the table knows them."""
    try:
        if device.blocked:
            layouts(device.board, "mig").state_of(device.blocked)
    except LookupError:
        names = ", ".join(f"{profile} at {start}" for profile, start in device.blocked)
        return f"it holds instances that nobody here made: {names}"
    return ""


def _seats(
    gpus: Collection[str],
    replicas: Iterable[Replica],
    demands: Mapping[str, Demand] | None,
    leaving: Collection[str],
    odd: dict[str, str],
) -> Iterator[Seat]:
    """``odd`` is told of GPUs on which somebody sits without a place."""
    replicas = tuple(replicas)
    sitting = [replica for replica in replicas if replica.device in gpus]
    beyond = _beyond(replicas, demands, leaving) if demands is not None else set()
    for replica in sitting:
        if replica.device is None:
            continue
        if replica.place is None:
            odd[replica.device] = f"{replica.id} sits there from before it was cut"
            continue
        demand = demands.get(replica.deployment) if demands is not None else None
        is_going = replica.id in leaving or not replica.run
        yield Seat(
            replica=replica.id,
            demand=GOING if is_going else replica.deployment,
            trust=trust_of(replica, demand),
            gpu=replica.device,
            slot=replica.place.slot,
            start=replica.place.start,
            since=replica.created_at,
            burst=replica.id in beyond if demands is not None else replica.place.burst,
        )


def _beyond(replicas: tuple[Replica, ...], demands: Mapping[str, Demand], leaving: Collection[str]) -> set[str]:
    """Replicas beyond their deployment's guarantee. Nobody who moves is: it does not give way to others meanwhile."""
    known = {replica.id for replica in replicas if replica.run}
    replaced = {replica.replaces for replica in replicas if replica.run}
    counted = [
        Seat(
            replica=one.id,
            demand=one.deployment,
            trust="",
            gpu=one.device,
            slot=one.place.slot,
            start=one.place.start,
            since=one.created_at + (0.0 if _serves(one) else _LATER_S),
        )
        for one in replicas
        if one.place is not None and one.device is not None and one.run and one.id not in leaving
        if one.deployment in demands and one.replaces not in known
    ]
    return beyond_guarantee(counted, demands) - replaced
