"""What holds, from rows made by hand; expected rates are written out here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis
from django.conf import settings
from django.utils import timezone

from berth.alerts import rules
from berth.alerts.models import Rule
from berth.alerts.thresholds import Thresholds
from berth.deployments.models import Deployment, Replica, ReplicaState
from berth.fleet.health import fence_gpu, judge
from berth.fleet.models import Gpu, Node
from berth.metering.models import GoodputMinute
from berth.slas.models import Contract
from berth.tenants.models import CapacityQuota
from gpuruntime.protocol import DeviceSignals
from helpers.factories import GIB, make_deployment, make_gpu, make_node

pytestmark = pytest.mark.django_db
LIMITS = Thresholds()


@pytest.fixture(autouse=True)
def _no_kept_budget() -> None:
    redis.Redis.from_url(settings.REDIS_URL).delete("berth:alerts:budget")


@pytest.fixture
def deployment() -> Deployment:
    return make_deployment()


def minute(deployment: Deployment, ago: timedelta, **window: Any) -> None:
    GoodputMinute.objects.create(
        minute=timezone.now() - ago,
        tenant_id=deployment.tenant_id,
        deployment_id=deployment.id,
        class_name="chat",
        window=window,
        offered=window.get("offered", 0),
        good=window.get("good", 0),
    )


def found(limits: Thresholds = LIMITS) -> dict[str, Any]:
    return {condition.rule: condition for condition in rules.evaluate(timezone.now(), limits)}


def target_of(deployment: Deployment) -> float:
    contract: Contract = Contract.objects.for_platform().select_related("service_class").get(deployment=deployment)
    return contract.level().attainment_target


def test_a_quiet_house_has_no_conditions(deployment: Deployment) -> None:
    minute(deployment, timedelta(minutes=2), offered=100, good=100)
    assert found() == {}


def test_a_burn_must_show_in_both_windows(deployment: Deployment) -> None:
    budget = 1 - target_of(deployment)
    # All of it missed 40 minutes ago, nothing since: the long window burns, the short one does not.
    minute(deployment, timedelta(minutes=40), offered=100, good=0, reasons={"prefill": 90, "queued": 10})
    minute(deployment, timedelta(minutes=2), offered=10, good=10)
    assert Rule.SLA_BURN_FAST not in found()
    minute(deployment, timedelta(minutes=1), offered=40, good=0, reasons={"prefill": 40})
    condition = found()[Rule.SLA_BURN_FAST]
    assert condition.values["offered"] == 150
    assert condition.values["burn_1h"] == pytest.approx((140 / 150) / budget, abs=0.01)
    assert condition.values["burn_5m"] == pytest.approx((40 / 50) / budget, abs=0.01)
    assert condition.values["reasons"] == {"prefill": 130, "queued": 10}
    assert condition.tenant_id == deployment.tenant_id
    assert deployment.name in condition.summary


def test_a_slow_burn_is_seen_in_six_hours(deployment: Deployment) -> None:
    missed = round(8 * (1 - target_of(deployment)) * 1000)  # eight times as fast as it may
    for hours in (0.3, 2, 5):
        minute(deployment, timedelta(hours=hours), offered=1000, good=1000 - missed)
    holds = found()
    assert Rule.SLA_BURN_SLOW in holds
    assert Rule.SLA_BURN_FAST not in holds


def test_few_requests_say_nothing(deployment: Deployment) -> None:
    minute(deployment, timedelta(minutes=1), offered=LIMITS.least_requests - 1, good=0)
    assert found() == {}


def test_the_budget_of_a_month(deployment: Deployment) -> None:
    missed = round(0.9 * (1 - target_of(deployment)) * 10_000)
    minute(deployment, timedelta(days=10), offered=10_000, good=10_000 - missed)
    condition = found()[Rule.BUDGET_NEAR]
    assert condition.values["budget_left"] == pytest.approx(0.1, abs=0.001)


def test_a_limit_is_near_by_use_or_by_refusals(deployment: Deployment) -> None:
    contract = Contract.objects.for_platform().get(deployment=deployment)
    contract.guaranteed_requests_per_min, contract.burst_requests_per_min = 80, 20
    contract.save()
    for ago in range(1, 5):
        minute(deployment, timedelta(minutes=ago), offered=95, good=95)
    assert Rule.LIMIT_NEAR not in found()  # 380 in five minutes are 76 of 100 a minute
    minute(deployment, timedelta(seconds=30), offered=30, good=30)
    assert found()[Rule.LIMIT_NEAR].values["share"] == pytest.approx(0.82)
    GoodputMinute.objects.for_platform().delete()
    minute(deployment, timedelta(minutes=1), over_quota=3)
    assert found()[Rule.LIMIT_NEAR].values["refused"] == 3


def test_capacity_that_is_nearly_used(deployment: Deployment) -> None:
    from berth.deployments.replicas import create_replica
    from berth.fleet.seats import reserve_seat

    reserve_seat(replica=create_replica(deployment=deployment, reason=""), gpu=make_gpu(), memory_bytes=GIB)
    CapacityQuota.objects.create(tenant=deployment.tenant, guaranteed_bytes=GIB, burst_bytes=GIB)
    assert Rule.QUOTA_NEAR not in found()
    CapacityQuota.objects.update(burst_bytes=0)
    assert found()[Rule.QUOTA_NEAR].values == {"used_bytes": GIB, "allowed_bytes": GIB, "threshold": 0.8}


def test_failures_and_restarts_make_a_crash_loop(deployment: Deployment) -> None:
    def replica(**values: Any) -> None:
        Replica.objects.create(tenant=deployment.tenant, deployment=deployment, **values)

    now = timezone.now()
    replica(state=ReplicaState.FAILED, ended_at=now - timedelta(minutes=30), reason="exit 1")
    replica(state=ReplicaState.FAILED, ended_at=now - timedelta(hours=2))
    replica(state=ReplicaState.LOADING, restarts=1)
    assert Rule.CRASH_LOOP not in found()
    replica(state=ReplicaState.LOADING, restarts=1, reason="the engine died")
    condition = found()[Rule.CRASH_LOOP]
    assert condition.values["crashes"] == 3
    assert "the engine died" in condition.summary


def test_a_silent_node_and_one_that_never_spoke() -> None:
    node, new = make_node(), make_node()
    Node.objects.filter(id=new.id).update(last_seen_at=None)
    assert Rule.NODE_LOST not in found()
    Node.objects.filter(id=node.id).update(last_seen_at=timezone.now() - timedelta(seconds=31))
    condition = found()[Rule.NODE_LOST]
    assert (condition.subject_name, condition.tenant_id) == (node.name, None)
    assert condition.hold > timedelta(0)


def test_a_gpu_that_is_not_healthy_and_one_that_an_operator_fenced() -> None:
    gpu = make_gpu()
    fence_gpu(gpu=gpu, reason="fans are changed", actor="ann@example.com")
    assert Rule.GPU_UNHEALTHY not in found(), "they know"
    row = Gpu.objects.select_related("node").get(id=gpu.id)
    judge(row, DeviceSignals(epoch="a", row_remap_pending=True), timezone.now())
    row.save()
    condition = found()[Rule.GPU_UNHEALTHY]
    assert (condition.severity, condition.subject_id, condition.tenant_id) == ("critical", gpu.id, None)
    assert condition.values == {"health": "fenced", "faults": ["remap_pending"], "replicas": 0}
    assert condition.summary.startswith(f"GPU cpu-0 of node {gpu.node.name} is fenced: Fenced by ann@example.com")
