"""What the aggregator needs of the database each few seconds: whose replicas sit where, and which tenants there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from django.db.models import Count

from berth.deployments.models import Replica
from berth.fleet.models import Gpu, Seat
from berth.fleet.selectors import SeatPart, device_shares
from berth.metering.cells import SeatShare
from berth.tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    id: str
    tenant_id: str
    deployment_id: str
    deployment: str
    state: str
    state_is_serving: bool


@dataclass(frozen=True, slots=True)
class Inventory:
    tenants: tuple[str, ...] = ()
    seats: tuple[SeatShare, ...] = ()
    replicas: tuple[ReplicaRow, ...] = ()
    devices: int = 0
    used_by: dict[str, int] = field(default_factory=dict)

    @property
    def used(self) -> int:
        return len({seat.device_id for seat in self.seats})


def read_inventory() -> Inventory:
    seats = _seats()
    used = Counter(tenant for tenant, _ in {(seat.tenant_id, seat.device_id) for seat in seats})
    live = Replica.objects.for_platform().filter(ended_at=None).order_by("id")
    replicas = tuple(
        ReplicaRow(id, tenant, deployment, name, state, state in ("ready", "draining"))
        for id, tenant, deployment, name, state in live.values_list(
            "id", "tenant_id", "deployment_id", "deployment__name", "state"
        )
    )
    return Inventory(
        tenants=tuple(Tenant.objects.order_by("id").values_list("id", flat=True)),
        seats=seats,
        replicas=replicas,
        devices=Gpu.objects.filter(present=True).count(),
        used_by=dict(used),
    )


def _seats() -> tuple[SeatShare, ...]:
    """Columns instead of rows: there are thousands, and they are read every few seconds."""
    rows = list(Seat.objects.order_by("id").annotate(units=Count("slice__units")).values_list(*_SEAT, named=True))
    shares = device_shares(
        [SeatPart(row.id, row.slice_id, row.memory_bytes, row.units, row.slice__gpu__units) for row in rows]
    )
    return tuple(
        SeatShare(row.replica_id, row.replica__deployment_id, row.replica__tenant_id, row.slice__gpu_id, shares[row.id])
        for row in rows
    )


_SEAT = (
    "id", "slice_id", "memory_bytes", "units", "slice__gpu_id", "slice__gpu__units", "replica_id",
    "replica__deployment_id", "replica__tenant_id",
)  # fmt: skip
