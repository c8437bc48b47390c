"""What the aggregator needs of the database each few seconds: whose replicas sit where, and which tenants there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from berth.deployments.models import Replica
from berth.fleet.models import Gpu
from berth.fleet.selectors import device_shares, seats
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
    rows = list(seats().select_related("slice__gpu", "replica"))
    shares = device_shares(rows)
    return tuple(
        SeatShare(row.replica.id, row.replica.deployment_id, row.replica.tenant_id, row.slice.gpu_id, shares[row.id])
        for row in rows
    )
