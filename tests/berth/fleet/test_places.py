"""Seats at places of a GPU that is cut: the rules under the device's lock, and what the agent is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from berth.core.errors import NoRoom
from berth.deployments.models import Deployment
from berth.deployments.replicas import create_replica, end_replica
from berth.fleet.health import fence_gpu
from berth.fleet.models import Gpu, Seat, Slice, SliceUnit
from berth.fleet.seats import reserve_seat
from berth.fleet.selectors import device_shares, part_of, seats
from berth.fleet.services import desired_for, observe_node
from gpuruntime import protocol
from helpers.factories import cut_device, hello, make_deployment, make_node, make_tenant
from helpers.races import both
from scheduler.geometry.boards import board
from scheduler.packing.model import Isolation, Slot
from scheduler.world import Place

H100 = "h100-sxm-80gb"


def gpu_of(key: str = H100) -> Gpu:
    cut = cut_device(key)
    node = make_node(None, cut)
    return observe_node(node=node, seen=hello(node.name, cut, provider="nvml")).gpus.get()


def at(kind: Isolation, profile: str, start: int, key: str = H100) -> Place:
    return Place(Slot(key, kind, profile), start)


def sit(gpu: Gpu, place: Place, deployment: Deployment | None = None, memory_bytes: int = 1 << 30) -> Seat:
    replica = create_replica(deployment=deployment or make_deployment(), reason="")
    return reserve_seat(replica=replica, gpu=gpu, memory_bytes=memory_bytes, place=place)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("key", "kind", "profile", "start", "size", "units"),
    [
        (H100, Isolation.MIG, "3g.40gb", 4, 4, [4, 5, 6, 7]),
        (H100, Isolation.WHOLE, "whole", 0, 8, list(range(8))),
        ("a30-24gb", Isolation.MIG, "1g.6gb", 3, 1, [6, 7]),  # 4 slices and 8 shares: 8 units
        ("a30-24gb", Isolation.MPS, "1/4", 2, 2, [2, 3]),
        ("rtx-pro-6000-96gb", Isolation.MIG, "1g.24gb", 3, 3, list(range(6, 12))),  # 12 slices and 8 shares: 24 units
        ("rtx-pro-6000-96gb", Isolation.TIME_SLICE, "1/2", 4, 4, list(range(12, 24))),
    ],
)
def test_a_seat_takes_its_units_and_its_part_of_the_device(
    key: str, kind: Isolation, profile: str, start: int, size: int, units: list[int]
) -> None:
    gpu = gpu_of(key)
    seat = sit(gpu, at(kind, profile, start, key))
    assert sorted(SliceUnit.objects.filter(slice=seat.slice).values_list("index", flat=True)) == units
    assert (seat.slice.kind, seat.slice.profile, seat.slice.start, seat.slice.size) == (
        kind.label,
        profile,
        start,
        size,
    )
    assert device_shares([part_of(row) for row in seats().filter(id=seat.id)])[seat.id] == len(units) / gpu.units
    (told,) = desired_for(gpu.node).slices
    wanted = board(key).cut(kind.cut)
    assert (told.device_uuid, told.kind, told.start, told.size) == (gpu.uuid, kind.label, start, size)
    assert (told.of_units, told.profile_id) == (wanted.units, wanted.profile(profile).id)
    assert told.memory_bytes == wanted.profile(profile).memory_mib << 20
    assert told.thread_percentage == 100 * wanted.profile(profile).sms // board(key).sms
    assert desired_for(gpu.node).replicas[0].slice_id == told.slice_id == seat.slice_id


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("place", "memory_bytes", "why"),
    [
        (at(Isolation.MIG, "1g.10gb", 4), 1, "1g.10gb at 4 is not free"),
        (at(Isolation.MIG, "2g.20gb", 3), 1, "it may start at"),
        (at(Isolation.MPS, "1/8", 0), 1, "is mig, not mps"),
        (at(Isolation.WHOLE, "whole", 0), 1, "is mig, not whole"),
        (at(Isolation.MIG, "1g.10gb", 0), 10 << 30, "needs 10240 MiB; 1g.10gb has 9984 MiB"),
    ],
)
def test_what_the_tables_do_not_allow_is_refused_and_leaves_nothing(place: Place, memory_bytes: int, why: str) -> None:
    gpu = gpu_of()
    sit(gpu, at(Isolation.MIG, "3g.40gb", 4))
    before = list(SliceUnit.objects.values_list("slice_id", "index"))
    with pytest.raises(NoRoom, match=why):
        sit(gpu, place, memory_bytes=memory_bytes)
    assert list(SliceUnit.objects.values_list("slice_id", "index")) == before
    assert Slice.objects.count() == Seat.objects.count() == 1


@pytest.mark.django_db
def test_shares_are_for_one_owner_and_a_fenced_gpu_for_nobody() -> None:
    gpu, owner = gpu_of(), make_tenant()
    mine, also_mine = make_deployment(tenant=owner), make_deployment(tenant=owner)
    sit(gpu, at(Isolation.TIME_SLICE, "1/4", 0), mine)
    sit(gpu, at(Isolation.TIME_SLICE, "1/4", 2), also_mine)
    with pytest.raises(NoRoom, match="is shared within"):
        sit(gpu, at(Isolation.TIME_SLICE, "1/4", 4))
    fence_gpu(gpu=gpu, reason="smoke", actor="ann@example.com")
    with pytest.raises(NoRoom, match=r"is fenced: Fenced by ann@example\.com: smoke"):
        sit(gpu, at(Isolation.TIME_SLICE, "1/4", 4), mine)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_want_the_same_units_one_gets_them() -> None:
    gpu = gpu_of()
    first, second = (create_replica(deployment=make_deployment(), reason="") for _ in range(2))

    def take(replica: Any, place: Place) -> Any:
        return lambda: reserve_seat(replica=replica, gpu=gpu, memory_bytes=1, place=place)

    wide, narrow = at(Isolation.MIG, "2g.20gb", 0), at(Isolation.MIG, "1g.10gb", 1)
    assert both(take(first, wide), take(second, narrow)) == ["done", "no_room"]
    assert Seat.objects.count() == 1


@pytest.mark.django_db
def test_what_the_agent_says_of_slices_is_kept_and_strays_are_blocked() -> None:
    gpu = gpu_of()
    seat = sit(gpu, at(Isolation.MIG, "1g.10gb", 0))

    def report(*seen: protocol.ObservedSlice) -> None:
        device = cut_device(H100, uuid=gpu.uuid)
        observed = protocol.Observed(generation=1, devices=[device], replicas=[], slices=list(seen))
        observe_node(node=gpu.node, seen=observed)

    values: dict[str, Any] = {"device_uuid": gpu.uuid, "kind": "mig", "profile": "1g.10gb", "size": 1}
    mine = protocol.ObservedSlice(slice_id=seat.slice_id, start=0, state="ready", uuid="MIG-1", **values)
    stray = protocol.ObservedSlice(slice_id="", start=3, state="foreign", reason="nobody here made it", **values)
    report(mine, stray)
    row = Slice.objects.get(id=seat.slice_id)
    assert (row.state, row.uuid) == ("ready", "MIG-1")
    assert desired_for(gpu.node).slices[0].uuid == "MIG-1"
    again = protocol.ObservedSlice(slice_id=seat.slice_id, start=0, state="creating", **values)
    report(again, stray)  # an agent that began anew and has not looked yet is told what was there
    assert desired_for(gpu.node).slices[0].uuid == "MIG-1"
    report(mine, stray)
    with pytest.raises(NoRoom, match="is not free"):
        sit(gpu, at(Isolation.MIG, "1g.10gb", 3))
    sit(gpu, at(Isolation.MIG, "1g.10gb", 2))
    report(mine)
    sit(gpu, at(Isolation.MIG, "1g.10gb", 3))
    end_replica(replica=seat.replica, state="stopped", reason="")
    report(mine)  # one more word of a slice that nobody has
    assert Slice.objects.filter(id=seat.slice_id).count() == 0
