"""What happened to a deployment, told once, newest first; who may ask; the platform's own and what contracts grant."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from berth.catalog.models import Model
from berth.decisions.services import Taken, record_decisions
from berth.deployments.models import Deployment, Replica
from berth.deployments.platform import platform_tenant
from berth.deployments.services import (
    change_class,
    change_deployment,
    create_replica,
    end_replica,
    observe_replicas,
    stop_deployment,
)
from berth.fleet.seats import reserve_seat
from berth.slas.models import Contract
from berth.slas.services import change_contract, ensure_default_classes, grant_contract
from berth.tenants.models import PLATFORM_TENANT, Tenant
from gpuruntime import protocol
from helpers.api_cases import World, pages, problem, rows_of, url
from helpers.factories import make_deployment, make_model, make_node
from scheduler.decisions import Decision as Planned

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


def live_through(deployment: Deployment) -> Replica:
    """Placed, crashed, ready, scaled and ended."""
    node = make_node()
    replica: Replica = create_replica(deployment=deployment, reason="Placed")
    reserve_seat(replica=replica, gpu=node.gpus.get(), memory_bytes=1)
    placed = Planned("place", deployment.id, "placed on a", "the one device with room")
    record_decisions(taken=[Taken(placed, deployment.tenant_id, "d", "a", replica.id)], now=timezone.now())
    for state, restarts, reason in (("failed", 1, "exit code 1: out of memory"), ("ready", 1, "")):
        seen = protocol.ObservedReplica(replica_id=replica.id, state=state, restarts=restarts, reason=reason, epoch="e")  # type: ignore[arg-type]
        observe_replicas(node=node, observed=protocol.Observed(generation=1, devices=[], replicas=[seen]))
    change_deployment(deployment=deployment, actor="ann@example.com", replica_count=2)
    end_replica(replica=replica, state="stopped", reason="Scaled down")
    return replica


def test_everything_is_told_once_newest_first(world: World) -> None:
    deployment = make_deployment(tenant=world.tenant)
    replica = live_through(deployment)
    live_through(make_deployment(tenant=world.tenant))
    body = world.client("viewer").get(url("deployments", deployment.id, "events")).json()
    assert body["next"] is None
    told = [(row["kind"], row["object"]) for row in body["results"]]
    assert told == [
        ("replica.end", replica.id),
        ("deployment.change", deployment.id),
        ("replica.ready", replica.id),
        ("replica.restart", replica.id),
        ("decision.place", replica.id),
        ("deployment.create", deployment.id),
    ]
    by_kind = {row["kind"]: row for row in body["results"]}
    assert by_kind["replica.end"]["reason"] == "Scaled down"
    assert by_kind["replica.restart"]["reason"] == "exit code 1: out of memory"
    assert by_kind["deployment.change"]["actor"] == "ann@example.com"
    assert (by_kind["deployment.change"]["before"], by_kind["deployment.change"]["after"]) == (
        {"replica_count": 1}, {"replica_count": 2},
    )  # fmt: skip
    assert by_kind["decision.place"]["reason"] == "the one device with room"


def test_pages_lose_and_repeat_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.deployments.api.EVENTS", 2)
    deployment = make_deployment(tenant=world.tenant)
    live_through(deployment)
    client = world.client("owner")
    found = pages(client, url("deployments", deployment.id, "events"))
    assert all(len(body["results"]) <= 2 for body in found)
    seen = [row["id"] + row["kind"] for row in rows_of(found)]
    assert len(seen) == len(set(seen)) == 6
    for cursor in ("x", "1.000000~x", "9" * 12 + ".000000~" + deployment.id, "~"):
        problem(client.get(url("deployments", deployment.id, "events") + f"?cursor={cursor}"), 404)


def test_the_class_changes_without_touching_a_replica(world: World) -> None:
    classes = ensure_default_classes()
    deployment = make_deployment(tenant=world.tenant, service_class=classes["chat"])
    path = url("deployments", deployment.id, "class")
    problem(world.client("developer").post(path, {"service_class": "batch"}, format="json"), 403)
    problem(world.client("admin").post(path, {"service_class": "none"}, format="json"), 400, "service_class")
    answer = world.client("admin").post(path, {"service_class": "batch"}, format="json")
    assert answer.json()["service_class"]["name"] == "batch"
    versions = Contract.objects.for_tenant(world.tenant.id).filter(deployment=deployment).order_by("version")
    assert [(row.version, row.service_class.name) for row in versions] == [(1, "chat"), (2, "batch")]
    assert change_class(deployment=deployment, service_class=classes["batch"], actor="t").service_class_id


def granted(world: World, owner: Tenant) -> Deployment:
    deployment = make_deployment(tenant=owner)
    grant_contract(
        tenant=world.tenant, deployment=deployment, service_class=ensure_default_classes()["chat"], actor="test"
    )
    return deployment


def test_the_platforms_own_is_made_by_operators_and_used_by_contract(world: World) -> None:
    body = {"name": "shared", "model": make_model().id, "service_class": ensure_default_classes()["chat"].name}
    for tenant in ({}, {"tenant": None}):
        problem(world.client("owner").post(url("deployments"), {**body, **tenant}, format="json"), 400, "tenant")
    problem(world.client("owner").post(url("deployments"), {**body, "tenant": PLATFORM_TENANT}, format="json"), 404)
    made = world.client("operator").post(url("deployments"), body, format="json").json()
    assert (made["owner"], made["access"], made["tenant"]["id"]) == ("platform", "owner", PLATFORM_TENANT)
    problem(world.client("owner").get(url("deployments", made["id"])), 404)

    deployment = Deployment.objects.for_tenant(PLATFORM_TENANT).get()
    grant_contract(tenant=world.tenant, deployment=deployment, service_class=deployment.service_class, actor="test")
    seen = world.client("viewer").get(url("deployments", made["id"])).json()
    assert (seen["owner"], seen["access"], seen["name"]) == ("platform", "contract", "shared")
    assert made["id"] in [row["id"] for row in world.client("viewer").get(url("deployments")).json()["results"]]
    assert platform_tenant().id == PLATFORM_TENANT
    assert platform_tenant().name == "Platform"
    assert PLATFORM_TENANT not in {row["id"] for row in world.client("operator").get(url("tenants")).json()["results"]}


def test_a_guest_sees_the_class_of_its_own_contract(world: World) -> None:
    """In force, though another is to come; the owner sees the deployment's own."""
    classes = ensure_default_classes()
    deployment = make_deployment(tenant=world.other, service_class=classes["chat"])
    contract = grant_contract(tenant=world.tenant, deployment=deployment, service_class=classes["batch"], actor="test")
    later = timezone.now() + timedelta(hours=1)
    change_contract(contract=contract, service_class=classes["rag"], valid_from=later, actor="test")
    for person, expected in (("viewer", "batch"), ("operator", "chat")):
        client = world.client(person)
        assert client.get(url("deployments", deployment.id)).json()["service_class"]["name"] == expected
        rows = client.get(url("deployments")).json()["results"]
        assert [row["service_class"]["name"] for row in rows if row["id"] == deployment.id] == [expected]


def test_a_guest_reads_and_changes_nothing_and_learns_of_no_other_tenant(world: World) -> None:
    deployment = granted(world, world.other)
    owner = world.client("owner")
    answer = owner.get(url("deployments", deployment.id))
    assert world.other.id not in answer.content.decode()
    assert world.other.name not in answer.content.decode()
    assert (answer.json()["access"], answer.json()["tenant"]["name"]) == ("contract", "Platform")
    problem(owner.patch(url("deployments", deployment.id), {"replica_count": 9}, format="json"), 403)
    problem(owner.delete(url("deployments", deployment.id)), 403)
    for verb, body in (("stop", None), ("scale", {"replicas": 0}), ("clone", {"name": "x"}), ("class", {})):
        problem(owner.post(url("deployments", deployment.id, verb), body, format="json"), 403)
    problem(owner.get(url("deployments", deployment.id, "events")), 403)
    assert world.client("outsider").get(url("deployments", deployment.id)).json()["access"] == "owner"
    Contract.objects.for_tenant(world.tenant.id).update(valid_until=timezone.now())
    problem(owner.get(url("deployments", deployment.id)), 404)


def test_a_tenants_model_is_its_own(world: World) -> None:
    own = Model.objects.get(id=make_model(tenant=world.tenant).id)
    body = {"name": "mine", "model": own.id, "service_class": ensure_default_classes()["chat"].name}
    for who, tenant, field in (("outsider", world.other, "model"), ("operator", world.other, "model")):
        problem(world.client(who).post(url("deployments"), {**body, "tenant": tenant.id}, format="json"), 400, field)
    problem(world.client("outsider").get(url("models", own.id)), 404)
    answer = world.client("owner").post(url("deployments"), {**body, "tenant": world.tenant.id}, format="json")
    assert answer.status_code == 201, answer.content
    stop_deployment(deployment=Deployment.objects.for_tenant(world.tenant.id).get(), actor="test")
