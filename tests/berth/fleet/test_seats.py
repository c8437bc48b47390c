from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from berth.core.errors import Conflict, NoRoom
from berth.deployments.services import create_replica, end_replica
from berth.fleet.models import Gpu, Node, Seat, Slice, SliceUnit
from berth.fleet.seats import units_needed
from berth.fleet.services import cordon_node, observe_node, release_seat, reserve_seat
from gpuruntime import protocol
from helpers.factories import GIB, device, make_deployment, make_gpu, make_node


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("memory", "units"), [(0, 1), (1, 1), (2 * GIB, 1), (2 * GIB + 1, 2), (4 * GIB, 2), (8 * GIB, 4), (8 * GIB + 1, 5)]
)
def test_units_are_rounded_up(memory: int, units: int) -> None:
    assert units_needed(memory, make_gpu(memory_bytes=8 * GIB, units=4)) == units


@pytest.mark.django_db
def test_seats_take_the_first_free_units_and_give_them_back() -> None:
    gpu, deployment = make_gpu(units=4), make_deployment()
    first, second, third = (create_replica(deployment=deployment, reason="") for _ in range(3))

    reserve_seat(replica=first, gpu=gpu, memory_bytes=2 * GIB)
    reserve_seat(replica=second, gpu=gpu, memory_bytes=3 * GIB)
    assert release_seat(replica=first)
    seat = reserve_seat(replica=third, gpu=gpu, memory_bytes=4 * GIB)

    assert sorted(unit.index for unit in seat.slice.units.all()) == [0, 3]
    assert sorted(SliceUnit.objects.filter(gpu=gpu).values_list("index", flat=True)) == [0, 1, 2, 3]
    assert not release_seat(replica=first)
    third.refresh_from_db()
    assert (third.node_id, third.memory_bytes) == (gpu.node_id, 4 * GIB)


@pytest.mark.django_db
def test_what_does_not_fit_is_refused_with_the_figures_and_leaves_nothing() -> None:
    gpu, deployment = make_gpu(memory_bytes=8 * GIB, units=4), make_deployment()
    reserve_seat(replica=create_replica(deployment=deployment, reason=""), gpu=gpu, memory_bytes=4 * GIB)
    late = create_replica(deployment=deployment, reason="")

    with pytest.raises(NoRoom, match=r"needs 3 of 4 units \(5120 MiB\) on CPU .* 2 are free \(4096 MiB\)"):
        reserve_seat(replica=late, gpu=gpu, memory_bytes=5 * GIB)

    assert Seat.objects.filter(slice__gpu=gpu).count() == 1
    assert Slice.objects.filter(gpu=gpu).count() == 1


@pytest.mark.django_db
def test_a_seat_is_reserved_once_and_only_for_the_living() -> None:
    one, other = make_node(None, device(0), device(1)).gpus.order_by("index")
    deployment = make_deployment()
    replica = create_replica(deployment=deployment, reason="")
    seat = reserve_seat(replica=replica, gpu=one, memory_bytes=GIB)

    assert reserve_seat(replica=replica, gpu=one, memory_bytes=GIB).id == seat.id
    with pytest.raises(Conflict, match="another device"):
        reserve_seat(replica=replica, gpu=other, memory_bytes=GIB)
    end_replica(replica=replica, state="stopped", reason="scaled down")
    with pytest.raises(Conflict, match="ended"):
        reserve_seat(replica=replica, gpu=one, memory_bytes=GIB)
    assert not Slice.objects.exists()


@pytest.mark.django_db
def test_no_seat_on_a_cordoned_node_or_a_device_that_is_gone() -> None:
    gpu, replica = make_gpu(), create_replica(deployment=make_deployment(), reason="")
    cordon_node(node=gpu.node, cordoned=True, actor="test")
    with pytest.raises(NoRoom, match="cordoned"):
        reserve_seat(replica=replica, gpu=gpu, memory_bytes=1)
    cordon_node(node=gpu.node, cordoned=False, actor="test")
    observe_node(node=gpu.node, seen=protocol.Observed(generation=0, devices=[], replicas=[]))
    with pytest.raises(NoRoom, match="gone"):
        reserve_seat(replica=replica, gpu=gpu, memory_bytes=1)


@pytest.mark.django_db
def test_every_change_of_seats_raises_both_generations() -> None:
    gpu, replica = make_gpu(), create_replica(deployment=make_deployment(), reason="")

    def generations() -> tuple[int, int]:
        return Gpu.objects.get(id=gpu.id).generation, Node.objects.get(id=gpu.node_id).generation

    before = generations()
    reserve_seat(replica=replica, gpu=gpu, memory_bytes=1)
    between = generations()
    end_replica(replica=replica, state="failed", reason="crashed")
    after = generations()
    assert all(a < b < c for a, b, c in zip(before, between, after, strict=True))


@pytest.mark.django_db(transaction=True)
def test_racing_threads_never_get_more_seats_than_units() -> None:
    units, racers = 3, 8
    gpu, deployment = make_gpu(memory_bytes=3 * GIB, units=units), make_deployment()
    replicas = [create_replica(deployment=deployment, reason="") for _ in range(racers)]
    start = Barrier(racers)

    def race(number: int) -> bool:
        start.wait(10)
        try:
            reserve_seat(replica=replicas[number], gpu=gpu, memory_bytes=GIB)
        except NoRoom:
            return False
        finally:
            connection.close()
        return True

    for _ in range(3):
        with ThreadPoolExecutor(racers) as pool:
            won = list(pool.map(race, range(racers)))
        assert sum(won) == units
        assert Seat.objects.filter(slice__gpu=gpu).count() == units
        assert sorted(SliceUnit.objects.values_list("index", flat=True)) == [0, 1, 2]
        for number, seated in enumerate(won):
            assert release_seat(replica=replicas[number]) is seated
