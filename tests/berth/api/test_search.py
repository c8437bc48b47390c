"""One search over everything: by a part of a name or an id, and only what the person may see."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from berth.metering.models import UsageRecord
from berth.tenants.services import create_key
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment, make_model, make_node

pytestmark = pytest.mark.django_db


def find(world: World, who: str, text: str, **more: str) -> list[dict[str, Any]]:
    answer = world.client(who).get(url("search"), {"q": text, **more})
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()
    return found


def test_each_kind_is_found_by_name_and_by_id() -> None:
    world = World()
    model = make_model("zebra-model")
    made = {
        "deployment": make_deployment(tenant=world.tenant, name="zebra-chat", model=model).id,
        "key": create_key(tenant=world.tenant, name="zebra key", actor="test")[0].id,
        "model": model.id,
        "node": make_node("zebra-node").id,
    }
    by_name = find(world, "operator", "ZEBRA")
    assert {row["kind"]: row["id"] for row in by_name} == made
    for kind, one in made.items():
        assert [(row["kind"], row["id"]) for row in find(world, "operator", one)] == [(kind, one)]
    row = next(row for row in by_name if row["kind"] == "deployment")
    tenant = {"id": world.tenant.id, "name": world.tenant.name, "slug": world.tenant.slug}
    assert row == {
        "kind": "deployment",
        "id": made["deployment"],
        "name": "zebra-chat",
        "tenant": tenant,
        "url": f"/deployments/{made['deployment']}",
    }
    assert [row["kind"] for row in find(world, "owner", "zebra")] == ["deployment", "key", "model"]
    assert [row["kind"] for row in find(world, "outsider", "zebra")] == ["model"]


def test_a_tenants_own_model_is_its_own() -> None:
    world = World()
    make_model("zebra-own", tenant=world.tenant)
    assert [row["tenant"]["id"] for row in find(world, "viewer", "zebra")] == [world.tenant.id]
    assert find(world, "outsider", "zebra") == []


def test_a_request_is_found_by_its_id_alone() -> None:
    world = World()
    values = {"arrived_at": timezone.now(), "outcome": "completed", "counted_by": "door"}
    UsageRecord.objects.create(request_id="req_1", tenant_id=world.tenant.id, **values)
    assert [row["url"] for row in find(world, "viewer", "req_1")] == ["/requests/req_1"]
    assert find(world, "outsider", "req_1") == []
    assert find(world, "owner", "req_") == []


def test_people_and_tenants() -> None:
    world = World()
    email = world.people["viewer"].email
    assert [row["name"] for row in find(world, "owner", email)] == [email]
    assert find(world, "outsider", email) == []
    assert [row["kind"] for row in find(world, "owner", world.tenant.slug)] == ["tenant"]
    assert find(world, "owner", world.other.slug) == []
    assert find(world, "operator", world.other.slug, tenant=world.tenant.id) == []


def test_names_that_begin_so_come_first_and_there_are_few() -> None:
    world = World()
    for name in ("b-ox", "a-ox", "ox-z", "ox-a", "c-ox", "d-ox", "e-ox"):
        create_key(tenant=world.tenant, name=name, actor="test")
    assert [row["name"] for row in find(world, "owner", "ox")] == ["ox-a", "ox-z", "a-ox", "b-ox", "c-ox"]
    assert find(world, "owner", "%") == []


def test_what_is_no_question() -> None:
    client = World().client("owner")
    for query in ("", "?q=", "?q=%00", "?q=" + "x" * 201):
        problem(client.get(url("search") + query), 400, "q")
    problem(client.get(url("search") + "?q=x&tenant=ten_none"), 404, "tenant")
    problem(World().client("nobody").get(url("search") + "?q=x"), 401)
