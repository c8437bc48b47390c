"""A device's minutes: means and maxima of samples, put together for long times, forgotten in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from berth.deployments.services import create_replica
from berth.fleet import history
from berth.fleet.models import Gpu, GpuMinute, Node
from berth.fleet.seats import reserve_seat
from berth.fleet.tasks import forget_history, sample_devices
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment, make_node

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 30, 12, 0, 5, tzinfo=UTC)


def show(gpu: Gpu, at: datetime, **values: object) -> None:
    Node.objects.filter(id=gpu.node_id).update(last_seen_at=at)
    Gpu.objects.filter(id=gpu.id).update(**values)
    history.sample(at)


def test_a_minute_is_the_mean_of_its_samples_and_the_most_memory() -> None:
    gpu = make_node().gpus.get()
    show(gpu, NOON, memory_used_bytes=5, utilisation=0.2, temperature_c=40, power_w=None)
    reserve_seat(replica=create_replica(deployment=make_deployment(), reason=""), gpu=gpu, memory_bytes=77)
    show(gpu, NOON + timedelta(seconds=10), memory_used_bytes=9, utilisation=0.5, temperature_c=46)
    show(gpu, NOON + timedelta(seconds=20), memory_used_bytes=7, utilisation=0.8, temperature_c=52)
    show(gpu, NOON + timedelta(seconds=60), memory_used_bytes=1, utilisation=0.0, temperature_c=30, power_w=70)
    first, second = history.points(gpu, 60, NOON + timedelta(minutes=2))
    assert (first.at, first.memory_used_bytes, first.promised_bytes) == (NOON.replace(second=0), 9, 77)
    assert (first.utilisation, first.temperature_c, first.power_w) == (pytest.approx(0.5), pytest.approx(46), None)
    assert (second.memory_used_bytes, second.utilisation, second.power_w) == (1, 0.0, 70)
    assert GpuMinute.objects.order_by("at").values_list("samples", flat=True)[0] == 3


def test_what_was_not_measured_is_no_zero() -> None:
    gpu = make_node().gpus.get()
    for second, busy in ((0, None), (10, 0.8), (20, None), (60, None)):
        show(gpu, NOON + timedelta(seconds=second), memory_used_bytes=1, utilisation=busy)
    first, second_minute = history.points(gpu, 60, NOON + timedelta(minutes=2))
    assert (first.utilisation, second_minute.utilisation) == (pytest.approx(0.8), None)


def test_silent_nodes_and_absent_devices_leave_a_gap() -> None:
    gpu = make_node().gpus.get()
    Node.objects.update(last_seen_at=NOON - timedelta(seconds=16))
    history.sample(NOON)
    show(gpu, NOON, present=False)
    assert history.points(gpu, 60, NOON) == []


def test_long_times_have_no_more_points_than_a_chart_has_room_for() -> None:
    gpu = make_node().gpus.get()
    start = NOON.replace(second=0) - timedelta(days=1)
    GpuMinute.objects.bulk_create(
        GpuMinute(gpu=gpu, at=start + timedelta(minutes=n), memory_used_bytes=n, promised_bytes=0, utilisation=n % 4)
        for n in range(1440)
    )
    points = history.points(gpu, 1440, NOON.replace(second=0))
    assert len(points) == 360
    assert [(point.memory_used_bytes, point.utilisation) for point in points[1:3]] == [(7, 1.5), (11, 1.5)]
    assert history.forget(NOON.replace(second=0) - timedelta(hours=12)) == 720


def test_the_tasks_and_the_route() -> None:
    gpu = make_node().gpus.get()
    sample_devices()
    GpuMinute.objects.create(
        gpu=gpu, at=NOON - timedelta(days=900), memory_used_bytes=0, promised_bytes=0, utilisation=0
    )
    forget_history()
    client = World().client("operator")
    (point,) = client.get(url("gpus", gpu.id, "history")).json()
    assert set(point) == {"at", "memory_used_bytes", "promised_bytes", "utilisation", "temperature_c", "power_w"}
    for minutes in ("0", "-1", "x", "43201", "1e3", "²"):
        problem(client.get(url("gpus", gpu.id, "history") + f"?minutes={minutes}"), 400, "minutes")
    problem(World().client("owner").get(url("gpus", gpu.id, "history")), 403)
