"""Seats: who sits on which units of which device. Never more seats than units, whoever races.

Locks are taken in one order: the replica's row, then the Gpu's, then the node's.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from berth.core.errors import Conflict, NoRoom
from berth.core.notify import desired_changed
from berth.deployments.models import Replica
from berth.fleet.models import Gpu, Node, Seat, Slice, SliceUnit


def units_needed(memory_bytes: int, gpu: Gpu) -> int:
    """The smallest number of the device's units that holds ``memory_bytes``; at least one."""
    return max(1, -(-memory_bytes * gpu.units // gpu.memory_bytes))


@transaction.atomic
def reserve_seat(*, replica: Replica, gpu: Gpu, memory_bytes: int) -> Seat:
    """A seat on the first free units of ``gpu``. Idempotent for a replica that sits there.

    Raises ``NoRoom`` with the figures; ``Conflict`` when the replica ended or sits elsewhere.
    """
    row: Replica = Replica.objects.for_platform().select_for_update().get(id=replica.id)
    if row.ended_at is not None:
        raise Conflict(f"Replica {row.id} has ended")
    seated = Seat.objects.select_related("slice").filter(replica=row).first()
    if seated is not None:
        if seated.slice.gpu_id == gpu.id:
            return seated
        raise Conflict(f"Replica {row.id} sits on another device")
    device = Gpu.objects.select_for_update(of=("self",)).select_related("node").get(id=gpu.id)
    wanted = _free_units(device, memory_bytes)
    slice_ = Slice.objects.create(gpu=device, memory_bytes=len(wanted) * device.memory_bytes // device.units)
    SliceUnit.objects.bulk_create(SliceUnit(gpu=device, index=index, slice=slice_) for index in wanted)
    seat = Seat.objects.create(slice=slice_, replica=row, memory_bytes=memory_bytes)
    row.node, row.memory_bytes = device.node, memory_bytes
    row.save(update_fields=["node", "memory_bytes"])
    replica.node, replica.memory_bytes = row.node, memory_bytes
    _raise_generations(device)
    return seat


@transaction.atomic
def release_seat(*, replica: Replica) -> bool:
    """Free the replica's units. Idempotent; True when it had a seat."""
    Replica.objects.for_platform().select_for_update().filter(id=replica.id).first()
    seat = Seat.objects.select_related("slice").filter(replica_id=replica.id).first()
    if seat is None:
        return False
    device = Gpu.objects.select_for_update().get(id=seat.slice.gpu_id)
    seat.delete()
    if not Seat.objects.filter(slice_id=seat.slice_id).exists():
        Slice.objects.filter(id=seat.slice_id).delete()
    _raise_generations(device)
    return True


def _free_units(gpu: Gpu, memory_bytes: int) -> list[int]:
    if not gpu.present:
        raise NoRoom(f"{gpu.name} of {gpu.node.name} is gone")
    if gpu.node.cordoned:
        raise NoRoom(f"{gpu.node.name} is cordoned")
    need = units_needed(memory_bytes, gpu)
    taken = set(SliceUnit.objects.filter(gpu=gpu).values_list("index", flat=True))
    free = [index for index in range(gpu.units) if index not in taken]
    if len(free) < need:
        have = len(free) * gpu.memory_bytes // gpu.units
        raise NoRoom(
            f"needs {need} of {gpu.units} units ({memory_bytes >> 20} MiB) on {gpu.name} of {gpu.node.name}; "
            f"{len(free)} are free ({have >> 20} MiB)"
        )
    return free[:need]


def _raise_generations(gpu: Gpu) -> None:
    Gpu.objects.filter(id=gpu.id).update(generation=F("generation") + 1)
    Node.objects.filter(id=gpu.node_id).update(generation=F("generation") + 1)
    desired_changed(gpu.node_id)
