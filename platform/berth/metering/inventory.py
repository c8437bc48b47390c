"""What the aggregator needs of the database each few seconds: whose replicas sit where, and which tenants there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from berth.deployments.models import Replica
from berth.fleet.models import Gpu, Seat
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
    live = Replica.objects.for_platform().filter(ended_at=None).select_related("deployment").order_by("id")
    replicas = tuple(
        ReplicaRow(
            row.id, row.tenant_id, row.deployment_id, row.deployment.name, row.state, row.state in ("ready", "draining")
        )
        for row in live
    )
    return Inventory(
        tenants=tuple(Tenant.objects.order_by("id").values_list("id", flat=True)),
        seats=seats,
        replicas=replicas,
        devices=Gpu.objects.filter(present=True).count(),
        used_by=dict(used),
    )


def _seats() -> tuple[SeatShare, ...]:
    """A slice is its units of all its device's; seats on one slice split it by their memory."""
    rows = list(
        Seat.objects.select_related("slice__gpu", "replica").prefetch_related("slice__units").order_by("id"),
    )
    memory: Counter[str] = Counter()
    for row in rows:
        memory[row.slice_id] += row.memory_bytes
    shares = []
    for row in rows:
        gpu = row.slice.gpu
        of_device = len(row.slice.units.all()) / max(1, gpu.units)
        of_slice = row.memory_bytes / memory[row.slice_id] if memory[row.slice_id] else 1.0
        replica = row.replica
        shares.append(SeatShare(replica.id, replica.deployment_id, replica.tenant_id, gpu.id, of_device * of_slice))
    return tuple(shares)
