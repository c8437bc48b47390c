"""What agents say of their hosts and devices."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection, transaction

from berth.core.errors import Conflict
from berth.deployments.services import create_replica
from berth.fleet.models import Gpu, Node
from berth.fleet.selectors import node_by_token, schedulable_devices
from berth.fleet.services import cordon_node, create_node, ensure_node, observe_node, reserve_seat
from gpuruntime import protocol
from helpers.factories import GIB, device, hello, make_deployment, make_node

pytestmark = pytest.mark.django_db


def observed(*devices: protocol.Device, generation: int = 3) -> protocol.Observed:
    return protocol.Observed(generation=generation, devices=list(devices), replicas=[])


def test_hello_and_reports_are_kept() -> None:
    node, token = create_node(name="gpu-1", actor="t")
    said = hello("gpu-1", device(0), device(1), provider="simulated", address="10.0.0.7", cpu_count=64)
    node = observe_node(node=node, seen=said)
    assert (node.provider, node.address, node.cpu_count) == ("simulated", "10.0.0.7", 64)
    assert node.connected_at is not None

    node = observe_node(node=node, seen=observed(device(0, memory_used_bytes=5, utilisation=0.5, power_w=300.0)))
    assert node.observed_generation == 3
    rows = {g.index: (g.present, g.memory_used_bytes, g.utilisation, g.power_w) for g in node.gpus.all()}
    assert rows == {0: (True, 5, 0.5, 300.0), 1: (False, 0, None, None)}
    observe_node(node=node, seen=observed(device(0), device(1)))
    assert [g.present for g in node.gpus.order_by("index")] == [True, True]
    found = node_by_token("gpu-1", token)
    assert found is not None
    assert found.id == node.id
    assert node_by_token("gpu-2", token) is None


def test_a_device_is_cut_anew_only_while_nobody_sits_on_it() -> None:
    node = make_node(None, device(0, units=4))
    observe_node(node=node, seen=observed(device(0, units=8)))
    gpu = node.gpus.get()
    assert gpu.units == 8
    reserve_seat(replica=create_replica(deployment=make_deployment(), reason=""), gpu=gpu, memory_bytes=7 * GIB)
    observe_node(node=node, seen=observed(device(0, units=4)))
    gpu.refresh_from_db()
    assert gpu.units == 8


def test_a_node_is_ensured_by_name_and_its_token_follows() -> None:
    first = ensure_node(name="local", token="one")
    assert ensure_node(name="local", token="one").id == first.id
    ensure_node(name="local", token="two")
    assert node_by_token("local", "one") is None
    assert node_by_token("local", "two") is not None
    with pytest.raises(Conflict):
        create_node(name="local", actor="t")


def test_only_usable_devices_are_scheduled_in_a_stable_order() -> None:
    b, a = make_node("b", device(1), device(0)), make_node("a")
    gone, cordoned = make_node("c"), make_node("d")
    observe_node(node=gone, seen=observed())
    cordon_node(node=cordoned, cordoned=True, actor="t")
    reserve_seat(
        replica=create_replica(deployment=make_deployment(), reason=""), gpu=a.gpus.get(), memory_bytes=3 * GIB
    )
    rows = [(g.node_id, g.index, g.units_free) for g in schedulable_devices()]
    assert rows == [(a.id, 0, 2), (b.id, 0, 4), (b.id, 1, 4)]


@pytest.mark.django_db(transaction=True)
def test_a_report_and_a_seat_at_the_same_time_do_not_deadlock() -> None:
    """Seats lock the device, then the node; a report that began with the node would wait for both at once."""
    node = make_node(None, device(0))
    errors: list[BaseException] = []

    def report() -> None:
        try:
            observe_node(node=node, seen=observed(device(0)))
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    reporting = threading.Thread(target=report)
    with transaction.atomic():
        Gpu.objects.select_for_update().get(node=node)
        reporting.start()
        _until_it_waits_for_a_lock()
        Node.objects.filter(id=node.id).update(generation=7)
    reporting.join()
    assert errors == []
    node.refresh_from_db()
    assert (node.generation, node.observed_generation) == (7, 3)


def _until_it_waits_for_a_lock() -> None:
    deadline = time.monotonic() + 5
    with connection.cursor() as cursor:
        while time.monotonic() < deadline:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone() != (0,):
                return
            time.sleep(0.01)
    raise AssertionError("the report waited for nothing")
