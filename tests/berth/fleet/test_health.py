"""A GPU's health in the database: judged by reports and by speed, and what an operator says of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from berth.audit.models import AuditEvent
from berth.core.errors import Conflict, NoRoom
from berth.deployments.models import Replica
from berth.deployments.services import create_replica
from berth.fleet.health import clear_gpu, faults_of, fence_gpu, judge
from berth.fleet.models import Gpu, Node, Seat
from berth.fleet.services import observe_node, release_seat, reserve_seat
from berth.fleet.speeds import judge_speeds
from berth.metering.models import GoodputMinute
from gpuruntime.protocol import Device, DeviceSignals, Observed
from helpers.api_cases import World, problem, url
from helpers.factories import GIB, device, hello, make_deployment, make_node

pytestmark = pytest.mark.django_db


def gpu_device(**signals: Any) -> Device:
    said = DeviceSignals(**{"epoch": "a", **signals})
    return device(0, kind="gpu", uuid="GPU-0", name="NVIDIA H100", memory_bytes=80 * GIB, signals=said)


def make_gpu_node() -> Node:
    return make_node(None, gpu_device())


def report(node: Node, **signals: Any) -> Gpu:
    observe_node(node=node, seen=Observed(generation=1, devices=[gpu_device(**signals)], replicas=[]))
    return node.gpus.get()


def seated(gpu: Gpu, deployment: Any = None) -> Replica:
    replica = create_replica(deployment=deployment or make_deployment(), reason="")
    reserve_seat(replica=replica, gpu=gpu, memory_bytes=GIB)
    return replica


def events(gpu: Gpu) -> list[tuple[str, str, str]]:
    rows = AuditEvent.objects.for_platform().filter(object_id=gpu.id).order_by("id")
    return [(row.action, row.actor, row.after["health"]) for row in rows]


def test_a_report_is_judged_and_its_news_is_kept(django_capture_on_commit_callbacks: Any) -> None:
    node = make_gpu_node()
    gpu = report(node, xids={"13": 4, "31": 1})
    assert (gpu.health, gpu.health_reason, gpu.health_since, events(gpu)) == ("healthy", "", None, [])
    with django_capture_on_commit_callbacks() as told:
        gpu = report(node, xids={"13": 4, "31": 1, "95": 1})
    assert gpu.health == "fenced"
    assert gpu.health_reason.startswith(
        "The driver reported XID 95: a memory error that may have reached any process. "
    )
    assert gpu.health_since is not None
    assert events(gpu) == [("gpu.judge", "system", "fenced")]
    assert len(told) == 2, "the console and the scheduler"
    with django_capture_on_commit_callbacks() as told:
        again = report(node, xids={"13": 5, "31": 1, "95": 2})
    assert (again.health_since, events(again), told) == (gpu.health_since, events(gpu), [])
    assert [(fault.key, fault.severity, fault.count) for fault in faults_of(again)] == [("xid:95", "fence", 2)]


def test_a_draining_gpu_is_fenced_once_nobody_sits_there() -> None:
    node = make_gpu_node()
    replica = seated(node.gpus.get())
    assert report(node, xids={"48": 1}).health == "draining"
    assert report(node, xids={"48": 1}).health == "draining"
    release_seat(replica=replica)
    gpu = report(node, xids={"48": 1})
    assert gpu.health == "fenced"
    assert [health for *_, health in events(gpu)] == ["draining", "fenced"]


def test_a_reboot_leads_back_over_probation() -> None:
    node = make_gpu_node()
    report(node, xids={"79": 1})
    said = hello(node.name, gpu_device(epoch="b"), provider="nvml", boot_id="another")
    observe_node(node=node, seen=said)
    gpu = node.gpus.select_related("node").get()
    assert gpu.health == "probation"
    with pytest.raises(NoRoom, match="probation: Its faults are gone"):
        seated(gpu)
    now = timezone.now()
    assert not judge(gpu, DeviceSignals(epoch="b"), now + timedelta(minutes=5))
    assert judge(gpu, DeviceSignals(epoch="b"), now + timedelta(minutes=11))
    assert (gpu.health, gpu.health_reason) == ("healthy", "")


@pytest.mark.parametrize(
    "signals", [{"row_remap_pending": True}, {"recovery_action": "drain_and_reset"}, {"lost": True}]
)
def test_nothing_new_sits_on_one_that_is_not_healthy(signals: dict[str, Any]) -> None:
    node = make_gpu_node()
    gpu = report(node, **signals)
    with pytest.raises(NoRoom, match=f"is {gpu.health}: "):
        seated(gpu)


def test_a_device_that_tells_nothing_stays_healthy_and_costs_no_query(django_assert_num_queries: Any) -> None:
    gpu = Gpu.objects.select_related("node").get(id=make_node(None, device(0)).gpus.get().id)
    with django_assert_num_queries(0):
        assert not judge(gpu, None, timezone.now())
        assert not judge(gpu, DeviceSignals(epoch="a"), timezone.now())


def test_what_another_version_remembered_is_no_obstacle() -> None:
    node = make_gpu_node()
    node.gpus.update(signals={"faults": [1, 2]})
    assert report(node, xids={"95": 1}).health == "fenced"


def test_an_operator_fences_and_clears() -> None:
    gpu = make_gpu_node().gpus.get()
    row = fence_gpu(gpu=gpu, reason="fans are changed", actor="ann@example.com")
    fence_gpu(gpu=gpu, reason="fans are changed", actor="ann@example.com")
    assert row.health == "fenced"
    assert row.health_reason.startswith("Fenced by ann@example.com: fans are changed.")
    row = clear_gpu(gpu=gpu, actor="bob@example.com")
    clear_gpu(gpu=gpu, actor="bob@example.com")
    assert row.health == "probation"
    assert events(gpu) == [("gpu.fence", "ann@example.com", "fenced"), ("gpu.clear", "bob@example.com", "probation")]


def test_nobody_clears_what_its_driver_asks_for() -> None:
    node = make_gpu_node()
    gpu = report(node, recovery_action="gpu_reset")
    with pytest.raises(Conflict, match="The driver asks for a reset of the GPU") as refused:
        clear_gpu(gpu=gpu, actor="ann@example.com")
    assert refused.value.code == "still_faulty"
    gpu = Gpu.objects.select_related("node").get(id=gpu.id)
    assert not judge(gpu, DeviceSignals(epoch="a"), timezone.now())
    assert judge(gpu, DeviceSignals(epoch="a"), timezone.now() + timedelta(seconds=11))
    assert gpu.health == "probation"


def test_the_routes() -> None:
    world = World()
    operator, owner = world.client("operator"), world.client("owner")
    gpu = make_gpu_node().gpus.get()
    for verb in ("fence", "clear"):
        problem(owner.post(url("gpus", gpu.id, verb), {"reason": "x"}, format="json"), 403)
    problem(operator.post(url("gpus", gpu.id, "fence"), {}, format="json"), 400, "reason")
    problem(operator.post(url("gpus", gpu.id, "fence"), {"reason": "x" * 201}, format="json"), 400, "reason")
    seen = operator.get(url("gpus", gpu.id))
    assert (seen.json()["health"], seen.json()["takes_new"], seen.json()["faults"]) == ("healthy", True, [])
    headers = {"if-match": seen["etag"]}
    answer = operator.post(url("gpus", gpu.id, "fence"), {"reason": "dust"}, format="json", headers=headers)
    body = answer.json()
    assert (body["health"], body["takes_new"]) == ("fenced", False)
    assert body["health_since"]
    fault = body["faults"][0]
    assert (fault["key"], fault["severity"], fault["count"]) == ("operator", "fence", 0)
    assert "dust" in fault["sentence"]
    problem(operator.post(url("gpus", gpu.id, "clear"), headers=headers), 412)
    assert operator.get(url("gpus") + "?health=fenced").json()["results"][0]["id"] == gpu.id
    assert operator.get(url("gpus") + "?health=suspect").json()["results"] == []
    answer = operator.post(url("gpus", gpu.id, "clear"), headers={"if-match": answer["etag"]})
    assert (answer.status_code, answer.json()["health"]) == (200, "probation")


def worked(replica: Replica, ideal_s: float, *, busy_s: float = 40.0) -> None:
    Seat.objects.filter(replica=replica).update(created_at=timezone.now() - timedelta(hours=1))
    GoodputMinute.objects.create(
        minute=timezone.now() - timedelta(minutes=2),
        tenant_id=replica.tenant_id,
        deployment_id=replica.deployment_id,
        replica_id=replica.id,
        window={"busy_s": busy_s, "executed_ideal_s": ideal_s, "provisioned_s": 60.0},
    )


def test_one_that_is_slower_than_its_siblings_becomes_suspect() -> None:
    deployment, now = make_deployment(), timezone.now()
    nodes = [make_gpu_node() for _ in range(4)]
    replicas = [seated(node.gpus.get(), deployment) for node in nodes]
    for replica, ideal_s in zip(replicas, (20.0, 20.4, 19.8, 10.0), strict=True):
        worked(replica, ideal_s)
    assert judge_speeds(now) == [], "it must last"
    gpu = nodes[3].gpus.select_related("node").get()
    assert gpu.signals["slow"] == pytest.approx(0.5, abs=0.01)
    assert [node.gpus.get().signals.get("slow", 0) for node in nodes[:3]] == [0, 0, 0]
    assert judge_speeds(now + timedelta(minutes=1)) == []
    assert judge_speeds(now + timedelta(minutes=2.5)) == []
    GoodputMinute.objects.for_platform().update(minute=now + timedelta(minutes=2))
    assert judge_speeds(now + timedelta(minutes=3)) == [gpu.id]
    gpu.refresh_from_db()
    assert gpu.health == "suspect"
    assert "slower than their siblings" in gpu.health_reason


def test_who_hardly_works_or_has_just_come_is_not_measured() -> None:
    deployment, now = make_deployment(), timezone.now()
    nodes = [make_gpu_node() for _ in range(4)]
    replicas = [seated(node.gpus.get(), deployment) for node in nodes]
    for replica, busy_s in zip(replicas, (40.0, 40.0, 40.0, 5.0), strict=True):
        worked(replica, 20.0 if busy_s > 10 else 1.0, busy_s=busy_s)
    judge_speeds(now)
    assert "slow" not in nodes[3].gpus.get().signals
    Seat.objects.filter(replica=replicas[0]).update(created_at=now)
    GoodputMinute.objects.for_platform().filter(replica_id=replicas[0].id).update(
        window={"busy_s": 40.0, "executed_ideal_s": 1.0}
    )
    judge_speeds(now)
    assert "slow" not in nodes[0].gpus.get().signals
