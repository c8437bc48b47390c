"""Seats: who sits on which units of which device. Never more seats than units, whoever races.

Locks are taken in one order: the replica's row, then the Gpu's, then the node's.
"""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import F

from berth.core.errors import Conflict, NoRoom
from berth.core.notify import desired_changed
from berth.deployments.models import Replica
from berth.fleet.models import Gpu, Node, Seat, Slice, SliceUnit
from berth.fleet.places import seat_of, slice_at, sm_percent, units_of, why_no_seat
from scheduler.health import machine
from scheduler.world import Place


def units_needed(memory_bytes: int, gpu: Gpu) -> int:
    """The smallest number of the device's units that holds ``memory_bytes``; at least one."""
    return max(1, -(-memory_bytes * gpu.units // gpu.memory_bytes))


@transaction.atomic
def reserve_seat(*, replica: Replica, gpu: Gpu, memory_bytes: int, place: Place | None = None) -> Seat:
    """A seat at ``place`` of ``gpu``, or on its first free units. Idempotent for a replica that sits there.

    Raises ``NoRoom`` with the figures or what is in the way; ``Conflict`` when the replica ended or sits elsewhere.
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
    _check_open(device)
    seat = _on_units(row, device, memory_bytes) if place is None else _at(row, device, memory_bytes, place)
    row.node, row.memory_bytes = device.node, memory_bytes
    row.save(update_fields=["node", "memory_bytes"])
    replica.node, replica.memory_bytes = row.node, memory_bytes
    _raise_generations(device)
    return seat


def _on_units(replica: Replica, device: Gpu, memory_bytes: int) -> Seat:
    wanted = _free_units(device, memory_bytes)
    slice_ = Slice.objects.create(
        gpu=device,
        start=wanted[0],
        size=len(wanted),
        memory_bytes=len(wanted) * device.memory_bytes // device.units,
    )
    SliceUnit.objects.bulk_create(SliceUnit(gpu=device, index=index, slice=slice_) for index in wanted)
    return Seat.objects.create(slice=slice_, replica=replica, memory_bytes=memory_bytes)


def _at(replica: Replica, device: Gpu, memory_bytes: int, place: Place) -> Seat:
    """The rules of geometry and trust under the device's lock; the unique units are the last word."""
    wanted = seat_of(replica.id, replica.deployment_id, replica.tenant_id, device.id, place)
    slice_ = slice_at(device, place)
    if slice_.memory_bytes < memory_bytes:
        raise NoRoom(f"needs {memory_bytes >> 20} MiB; {slice_.profile} has {slice_.memory_bytes >> 20} MiB")
    if reason := why_no_seat(device, wanted):
        raise NoRoom(reason)
    slice_.save()
    try:
        with transaction.atomic():
            SliceUnit.objects.bulk_create(SliceUnit(gpu=device, index=index, slice=slice_) for index in units_of(place))
    except IntegrityError as error:
        raise NoRoom(f"units of {place.slot.profile} at {place.start} have an owner already") from error
    return Seat.objects.create(
        slice=slice_, replica=replica, memory_bytes=memory_bytes, sm_percent=sm_percent(place), burst=place.burst
    )


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


def _check_open(gpu: Gpu) -> None:
    """Raises ``NoRoom`` where nothing new may sit."""
    if not gpu.present:
        raise NoRoom(f"{gpu.name} of {gpu.node.name} is gone")
    if gpu.node.cordoned:
        raise NoRoom(f"{gpu.node.name} is cordoned")
    if not takes_new(gpu):
        raise NoRoom(f"{gpu.label} of {gpu.node.name} is {gpu.health}: {gpu.health_reason}")


def takes_new(gpu: Gpu) -> bool:
    """Whether its health lets a new replica on it."""
    return machine.takes_new(gpu.health)


def _free_units(gpu: Gpu, memory_bytes: int) -> list[int]:
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
