"""One generated matrix: every route of tenants' rows, every role, another tenant's object: 404 and nothing happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.core import serializers
from django.utils import timezone

from berth.api.urls import router
from berth.api.views import TenantViewSet
from berth.audit.services import record
from berth.core.ids import new_id
from berth.core.scoping import TenantOwned
from berth.deployments.services import create_replica
from berth.metering.models import UsageRecord
from berth.slas.models import Contract
from berth.tenants.models import Membership, Role, Tenant
from berth.tenants.services import create_key
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment, make_user

DETAIL = ("retrieve", "partial_update", "destroy")
METHODS = {"list": "get", "retrieve": "get", "create": "post", "partial_update": "patch", "destroy": "delete"}


def _usage(tenant: Tenant) -> str:
    values = {"tenant_id": tenant.id, "arrived_at": timezone.now(), "outcome": "completed", "counted_by": "door"}
    return str(UsageRecord.objects.create(request_id=new_id("req"), **values).request_id)


MAKERS: dict[str, Callable[[Tenant], str]] = {
    "members": lambda t: Membership.objects.for_tenant(t.id).order_by("id").values_list("id", flat=True)[0],
    "keys": lambda t: create_key(tenant=t, name="k", actor="test")[0].id,
    "contracts": lambda t: str(Contract.objects.for_tenant(t.id).get(deployment=make_deployment(tenant=t)).id),
    "deployments": lambda t: make_deployment(tenant=t).id,
    "replicas": lambda t: create_replica(deployment=make_deployment(tenant=t), reason="").id,
    "usage": _usage,
    "audit": lambda t: str(record(actor="test", action="test", tenant_id=t.id).id),
}


def _routes() -> list[tuple[str, str, str]]:
    """(resource, method, path with ID) of every route of a viewset of tenants' rows."""
    found = []
    for prefix, view, _ in router.registry:
        if not issubclass(view, TenantViewSet):
            continue
        found += [(prefix, METHODS[name], f"{prefix}/ID") for name in DETAIL if hasattr(view, name)]
        for action in view.get_extra_actions():
            if action.detail:
                found += [(prefix, method, f"{prefix}/ID/{action.url_path}") for method in action.mapping]
    return found


ROUTES = _routes()
BODIES: dict[str, Any] = {"scale": {"replicas": 5}, "clone": {"name": "stolen"}}


def _everything_of(tenant: Tenant) -> str:
    models = [m for m in apps.get_models() if issubclass(m, TenantOwned)]
    rows = [row for m in models for row in m._default_manager.for_tenant(tenant.id).order_by("pk")]  # type: ignore[attr-defined]
    return str(serializers.serialize("json", rows))


def test_the_matrix_covers_every_resource_of_tenants() -> None:
    assert {prefix for prefix, _, _ in ROUTES} == set(MAKERS)
    assert len(ROUTES) >= 18


@pytest.mark.django_db
@pytest.mark.parametrize("role", Role.values)
def test_another_tenants_object_is_not_found_whatever_one_tries(role: str) -> None:
    world = World()
    world.people["foreign"] = make_user(tenant=world.other, role=role)
    client = world.client("foreign")
    made = {prefix: make(world.tenant) for prefix, make in MAKERS.items()}
    before = _everything_of(world.tenant), _everything_of(world.other)

    for prefix, method, path in ROUTES:
        body = BODIES.get(path.rsplit("/", 1)[-1], {"replica_count": 9, "weight": 9})
        send = getattr(client, method)
        answer = send(url(path.replace("ID", made[prefix])), None if method == "get" else body, format="json")
        assert world.tenant.id not in answer.content.decode(), path
        problem(answer, 404)
    for prefix in MAKERS:
        problem(client.get(url(prefix) + f"?tenant={world.tenant.id}"), 404, "tenant")
        rows = client.get(url(prefix)).json()
        assert world.tenant.id not in str(rows), prefix

    assert (_everything_of(world.tenant), _everything_of(world.other)) == before


@pytest.mark.django_db
@pytest.mark.parametrize("role", Role.values)
def test_nothing_is_made_for_another_tenant(role: str) -> None:
    world = World()
    world.people["foreign"] = make_user(tenant=world.other, role=role)
    client, tenant = world.client("foreign"), world.tenant.id
    model = make_deployment(tenant=world.other).model
    before = _everything_of(world.tenant)

    deployment = {"tenant": tenant, "name": "theirs", "model": model.id, "service_class": "chat"}
    for path, body in (
        ("keys", {"tenant": tenant, "name": "theirs"}),
        ("keys/playground", {"tenant": tenant}),
        ("deployments", deployment),
    ):
        problem(client.post(url(path), body, format="json"), 404, "tenant")
    problem(client.patch(url("tenants", tenant), {"name": "Mine"}, format="json"), 404)
    for path in ("usage/summary", "goodput"):
        problem(client.get(url(path) + f"?tenant={tenant}"), 404, "tenant")

    assert _everything_of(world.tenant) == before


@pytest.mark.django_db
def test_a_membership_that_ended_opens_nothing_more() -> None:
    world = World()
    key = MAKERS["keys"](world.tenant)
    assert world.client("owner").get(url("keys", key)).status_code == 200
    Membership.objects.for_tenant(world.tenant.id).filter(user=world.people["owner"]).delete()
    problem(world.client("owner").get(url("keys", key)), 404)
    assert world.client("owner").get(url("me")).json()["memberships"] == []
