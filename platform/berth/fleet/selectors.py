"""Reads of nodes, devices and seats: the operator's, and the scheduler's."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from django.db.models import Count, F, IntegerField, OuterRef, Prefetch, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from berth.fleet.models import Gpu, Node, Seat, Slice, SliceUnit
from berth.fleet.tokens import token_digest


def node_by_token(name: str, token: str) -> Node | None:
    """The node ``name`` when ``token`` is its own. In constant time once the name is known."""
    node = Node.objects.filter(name=name).first()
    if node is None or not hmac.compare_digest(node.token_digest, token_digest(token)):
        return None
    return node


def nodes() -> QuerySet[Node]:
    """With devices, and on each device its seats with their replicas' names."""
    return Node.objects.prefetch_related(Prefetch("gpus", queryset=devices().order_by("index")))


def without_devices(rows: QuerySet[Node]) -> QuerySet[Node]:
    """Of ``nodes``: as if they had none, for who asks of the nodes alone. A thousand devices cost a second."""
    return rows.prefetch_related(None).prefetch_related(Prefetch("gpus", queryset=Gpu.objects.none()))


def devices() -> QuerySet[Gpu]:
    """``units_free``: units that no slice owns."""
    taken = SliceUnit.objects.filter(gpu=OuterRef("pk")).order_by().values("gpu").annotate(n=Count("id")).values("n")
    free = F("units") - Coalesce(Subquery(taken, output_field=IntegerField()), Value(0))
    seats = Seat.objects.select_related("replica__deployment", "slice").prefetch_related("slice__units")
    return Gpu.objects.annotate(units_free=free).prefetch_related(Prefetch("slices__seats", queryset=seats))


def slices() -> QuerySet[Slice]:
    """With their device, node, units, and seats with their replicas' names."""
    seats = Seat.objects.select_related("replica__deployment", "slice").prefetch_related("slice__units")
    rows = Slice.objects.select_related("gpu__node")
    return rows.prefetch_related("units", Prefetch("seats", queryset=seats.order_by("id")))


def schedulable_devices() -> QuerySet[Gpu]:
    """Present devices of nodes that are not cordoned, in a stable order."""
    usable = devices().filter(present=True, node__cordoned=False).select_related("node")
    return usable.order_by("node__name", "index", "id")


def seats() -> QuerySet[Seat]:
    """With what ``part_of`` reads of them."""
    return Seat.objects.select_related("slice__gpu").prefetch_related("slice__units").order_by("id")


class SeatPart(NamedTuple):
    """``units``: of its slice, which may have other seats; ``of_units``: those of its device."""

    seat: str
    slice: str
    memory_bytes: int
    units: int
    of_units: int


def part_of(row: Seat) -> SeatPart:
    """``row``: of ``seats``."""
    return SeatPart(row.id, row.slice_id, row.memory_bytes, len(row.slice.units.all()), row.slice.gpu.units)


def device_shares(parts: Sequence[SeatPart]) -> dict[str, float]:
    """What each seat, by id, is of its device: its slice's units of all, split by memory with the slice's others.

    ``parts``: of every slice in it all its seats.
    """
    memory: Counter[str] = Counter()
    for part in parts:
        memory[part.slice] += part.memory_bytes
    shares = {}
    for part in parts:
        of_device = part.units / max(1, part.of_units)
        of_slice = part.memory_bytes / memory[part.slice] if memory[part.slice] else 1.0
        shares[part.seat] = of_device * of_slice
    return shares
