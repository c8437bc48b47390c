"""The capacity quota over REST: what is set, what is reserved, what is refused and with which figures."""

from __future__ import annotations

import re

import pytest

from berth.deployments.models import Deployment
from berth.deployments.needs import needs_of_deployment
from berth.deployments.services import create_deployment, stop_deployment
from berth.tenants.models import CapacityQuota
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment

pytestmark = pytest.mark.django_db
MIB = 1 << 20


def reserved_of(deployment: Deployment) -> int:
    """What the fit check shows of one replica, times its replicas."""
    return needs_of_deployment(deployment).total_bytes * deployment.replica_count


def test_operators_set_it_and_its_people_read_it() -> None:
    world = World()
    operator, owner, viewer = (world.client(name) for name in ("operator", "owner", "viewer"))
    path = url("tenants", world.tenant.id, "quota")
    assert viewer.get(path).json() == {"guaranteed_bytes": None, "burst_bytes": None, "reserved_bytes": 0}

    values = {"guaranteed_bytes": 3 << 30, "burst_bytes": 1 << 30}
    problem(owner.put(path, values, format="json"), 403)
    assert operator.put(path, values, format="json").json() == {**values, "reserved_bytes": 0}
    assert viewer.get(path).json() == {**values, "reserved_bytes": 0}
    assert viewer.get(url("tenants", world.tenant.id)).json()["quota"] == values
    for wrong in ({"guaranteed_bytes": -1}, {"burst_bytes": 1 << 62}, {"burst_bytes": None}):
        problem(operator.put(path, {**values, **wrong}, format="json"), 400, next(iter(wrong)))
    assert CapacityQuota.objects.get(tenant=world.tenant).burst_bytes == 1 << 30

    problem(owner.delete(path), 403)
    assert operator.delete(path).status_code == 204
    assert viewer.get(path).json()["guaranteed_bytes"] is None


def test_reserved_is_what_its_running_deployments_take() -> None:
    world = World()
    viewer = world.client("viewer")
    one = make_deployment(tenant=world.tenant, kv_bytes=200 * MIB, replica_count=2)
    two = make_deployment(tenant=world.tenant, kv_bytes=300 * MIB)
    make_deployment(tenant=world.other, kv_bytes=300 * MIB)
    path = url("tenants", world.tenant.id, "quota")
    assert viewer.get(path).json()["reserved_bytes"] == reserved_of(one) + reserved_of(two)
    stop_deployment(deployment=two, actor="t")
    assert viewer.get(path).json()["reserved_bytes"] == reserved_of(one)
    assert viewer.get(url("tenants", world.tenant.id)).json()["reserved_bytes"] == reserved_of(one)


def test_more_than_the_quota_is_refused_with_its_figures_and_less_is_always_allowed() -> None:
    world = World()
    operator, admin = world.client("operator"), world.client("admin")
    held = make_deployment(tenant=world.tenant, kv_bytes=200 * MIB, replica_count=3)
    one = reserved_of(held) // 3
    quota = url("tenants", world.tenant.id, "quota")
    operator.put(quota, {"guaranteed_bytes": 3 * one, "burst_bytes": one - 1}, format="json")

    body = {
        "tenant": world.tenant.id, "name": "another", "model": held.model_id, "service_class": held.service_class_id,
        "kv_bytes": 200 * MIB,
    }  # fmt: skip
    answer = admin.post(url("deployments"), body, format="json")
    problem(answer, 409)
    said = answer.json()
    assert said["code"] == "over_quota"
    figures = [int(number) for number in re.findall(r"(\d+) (?:MiB|guaranteed|burst)", said["detail"])]
    assert figures == [4 * one // MIB, (4 * one - 1) // MIB, 3 * one // MIB, (one - 1) // MIB]
    assert Deployment.objects.for_tenant(world.tenant.id).count() == 1

    operator.put(quota, {"guaranteed_bytes": one, "burst_bytes": 0}, format="json")
    path = url("deployments", held.id)
    problem(admin.patch(path, {"replica_count": 4}, format="json"), 409)
    assert admin.patch(path, {"replica_count": 2}, format="json").status_code == 200, "less, though still over"
    problem(admin.patch(path, {"replica_count": 3}, format="json"), 409)
    assert admin.patch(path, {"default_max_tokens": 99}, format="json").status_code == 200
    assert admin.patch(path, {"replica_count": 1}, format="json").status_code == 200

    operator.put(quota, {"guaranteed_bytes": 2 * one, "burst_bytes": 0}, format="json")
    exact = create_deployment(
        tenant=world.tenant, name="exact", model=held.model, service_class=held.service_class, actor="t",
        kv_bytes=200 * MIB,
    )  # fmt: skip
    assert admin.get(quota).json()["reserved_bytes"] == 2 * one == 2 * reserved_of(exact)
