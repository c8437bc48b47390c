"""Who registers, cancels, retries and removes which model."""

from __future__ import annotations

from typing import Any

import pytest

from berth.catalog.models import Model
from helpers.api_cases import World, problem, url
from helpers.factories import make_model

pytestmark = pytest.mark.django_db
HUB = {"name": "tiny", "source_kind": "hub", "source": "acme/tiny"}


@pytest.fixture
def world() -> World:
    return World()


def post(world: World, who: str, *path: str, body: Any = None) -> Any:
    return world.client(who).post(url("models", *path), body, format="json")


def test_a_tenants_admin_registers_for_the_tenant_and_others_see_nothing(world: World) -> None:
    body = {**HUB, "tenant": world.tenant.id}
    problem(post(world, "developer", body=body), 403)
    problem(post(world, "outsider", body=body), 404, "tenant")
    problem(post(world, "admin", body=HUB), 403)
    problem(post(world, "admin", body={**body, "source_kind": "gguf", "source": "/x"}), 400, "source_kind")
    made = post(world, "admin", body=body)
    assert made.status_code == 201, made.content
    row = made.json()
    assert (row["tenant"]["id"], row["state"], row["phase"], row["requirements"]) == (
        world.tenant.id, "registering", "queued", [],
    )  # fmt: skip
    for verb in ("cancel", "retry"):
        problem(post(world, "outsider", row["id"], verb), 404)
        problem(post(world, "viewer", row["id"], verb), 403)
    problem(world.client("outsider").delete(url("models", row["id"])), 404)
    problem(world.client("admin").delete(url("models", row["id"])), 409)
    assert post(world, "admin", row["id"], "cancel").json()["state"] == "cancelled"
    assert post(world, "admin", row["id"], "retry").json()["state"] == "registering"
    problem(post(world, "admin", body=body), 409, "name")
    assert [found["id"] for found in world.client("viewer").get(url("models")).json()["results"]] == [row["id"]]
    assert world.client("outsider").get(url("models")).json()["results"] == []


def test_the_platforms_models_are_everyones_to_see_and_the_operators_to_change(world: World) -> None:
    model = make_model(state="failed", reason="too large")
    for verb in ("cancel", "retry"):
        problem(post(world, "owner", model.id, verb), 403)
    problem(world.client("owner").delete(url("models", model.id)), 403)
    assert world.client("viewer").get(url("models", model.id)).json()["reason"] == "too large"
    problem(post(world, "operator", model.id, "cancel"), 409)
    Model.objects.filter(id=model.id).update(source_kind="hub", source="acme/tiny")
    assert post(world, "operator", model.id, "retry").json()["state"] == "registering"
    assert post(world, "operator", model.id, "cancel").json()["state"] == "cancelled"
    assert world.client("operator").delete(url("models", model.id)).status_code == 204


def test_what_a_model_needs_in_each_format(world: World) -> None:
    rows = world.client("viewer").get(url("models", make_model().id)).json()["requirements"]
    by_format = {(row["engine"], row["dtype"], row["kv_dtype"]): row for row in rows}
    bf16, int8 = by_format["native", "bf16", "auto"], by_format["native", "int8", "int8"]
    # 30 layers, keys and values of 3 heads of 64 numbers: 2 bytes each, or 1 and a scale of 4 bytes a head.
    assert (bf16["kv_bytes_per_token"], int8["kv_bytes_per_token"]) == (2 * 30 * 3 * 64 * 2, 2 * 30 * 3 * (64 + 4))
    assert bf16["weights_bytes"] > int8["weights_bytes"]
    for row in rows:
        kv = row["context_length"] * row["kv_bytes_per_token"]
        assert row["smallest_bytes"] == row["weights_bytes"] + row["workspace_bytes"] + kv
