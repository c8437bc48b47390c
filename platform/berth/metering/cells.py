"""From the entries of ``berth:deltas`` to windows. Pure: the same entries always give the same windows.

    kind=requests     verdicts of one gateway: cells (tenant, deployment, class)
    kind=work         what one replica executed since its last report, by tenant
    kind=provisioned  the shares of devices that were reserved, and for how many seconds

A replica's busy, executed and provisioned time belongs to the tenants it worked for, by their share of its executed
ideal seconds; while it worked for nobody, to the owner of its deployment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from berth.metering.records import cells_decoder
from gpuruntime.goodput import Window
from gpuruntime.protocol import Work

Fields = Mapping[str, str]


class SeatShare(msgspec.Struct, array_like=True, frozen=True):
    """One replica's seat: ``share`` of a device, which one, whose."""

    replica_id: str
    deployment_id: str
    tenant_id: str
    device_id: str
    share: float


class Provisioned(msgspec.Struct):
    seconds: float
    seats: list[SeatShare]


@dataclass(slots=True)
class _ReplicaTime:
    deployment_id: str = ""
    owner_id: str = ""
    busy_s: float = 0.0
    executed_ideal_s: float = 0.0
    provisioned_s: float = 0.0
    by_tenant: dict[str, float] = field(default_factory=dict)

    def shares(self) -> dict[str, float]:
        total = sum(self.by_tenant.values())
        if total <= 0:
            return {self.owner_id: 1.0} if self.owner_id else {}
        return {tenant: value / total for tenant, value in self.by_tenant.items()}


@dataclass(frozen=True, slots=True, order=True)
class CellKey:
    """``replica_id`` is empty in cells of requests, ``class_name`` in those of replicas."""

    tenant_id: str
    deployment_id: str
    class_name: str = ""
    replica_id: str = ""


_work_decoder = msgspec.json.Decoder(Work)
_provisioned_decoder = msgspec.json.Decoder(Provisioned)


@dataclass(slots=True)
class Span:
    """What happened in one span of time, whatever its length."""

    requests: dict[CellKey, Window] = field(default_factory=dict)
    replicas: dict[str, _ReplicaTime] = field(default_factory=dict)

    def take(self, fields: Fields) -> None:
        """Adds one entry. Raises ``msgspec.DecodeError`` and ``KeyError`` for what is none."""
        kind = fields["kind"]
        if kind == "requests":
            for cell in cells_decoder.decode(fields["cells"]):
                key = CellKey(cell.tenant_id, cell.deployment_id, cell.class_name)
                self.requests.setdefault(key, Window()).merge(Window.from_json(cell.window))
        elif kind == "work":
            self._work(fields["replica"], _work_decoder.decode(fields["work"]))
        elif kind == "provisioned":
            provisioned = _provisioned_decoder.decode(fields["seats"])
            for seat in provisioned.seats:
                held = self.replica(seat.replica_id)
                held.deployment_id, held.owner_id = seat.deployment_id, seat.tenant_id
                held.provisioned_s += seat.share * provisioned.seconds

    def _work(self, replica_id: str, work: Work) -> None:
        held = self.replica(replica_id)
        held.busy_s += work.busy_s
        held.executed_ideal_s += work.executed_ideal_s
        for tenant, ideal_s in work.ideal_s_by_tenant.items():
            held.by_tenant[tenant] = held.by_tenant.get(tenant, 0.0) + ideal_s

    def replica(self, replica_id: str) -> _ReplicaTime:
        return self.replicas.setdefault(replica_id, _ReplicaTime())

    def cells(self, weights: Span | None = None) -> dict[CellKey, Window]:
        """Every cell. ``weights``: the span whose work divides the replicas' time between tenants; else this one."""
        found = dict(self.requests)
        for replica_id, held in self.replicas.items():
            source = (weights or self).replicas.get(replica_id, held)
            for tenant, share in (source.shares() or held.shares()).items():
                found[CellKey(tenant, held.deployment_id, "", replica_id)] = Window(
                    busy_s=held.busy_s * share,
                    executed_ideal_s=held.executed_ideal_s * share,
                    provisioned_s=held.provisioned_s * share,
                )
        return found


def merged(windows: Any) -> Window:
    total = Window()
    for window in windows:
        total.merge(window)
    return total
