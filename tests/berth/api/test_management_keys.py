"""A key on the management API: its tenant only, never an operator, at most a developer, reads only where it says so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from berth.audit.models import AuditEvent
from berth.tenants.models import ApiKey, Membership
from berth.tenants.services import change_tenant, create_key, revoke_key, rotate_key
from helpers.api_cases import World, bearer, problem, url
from helpers.factories import make_deployment

pytestmark = pytest.mark.django_db


def make(world: World, *scopes: str, by: str | None = "owner", **values: Any) -> tuple[ApiKey, str]:
    maker = world.people[by] if by else None
    key, token = create_key(tenant=world.tenant, name="k", actor="test", created_by=maker, **values)
    ApiKey.objects.for_tenant(world.tenant.id).filter(id=key.id).update(scopes=list(scopes))
    return key, token


def test_management_does_what_a_developer_does() -> None:
    world = World()
    theirs, ours = make_deployment(tenant=world.other), make_deployment(tenant=world.tenant)
    key, token = make(world, "management", by="operator")
    client = bearer(token)

    seen = client.get(url("deployments")).json()["results"]
    assert [row["id"] for row in seen] == [ours.id]
    problem(client.get(url("deployments", theirs.id)), 404)
    problem(client.get(url("deployments") + f"?tenant={world.other.id}"), 404, "tenant")
    assert [row["id"] for row in client.get(url("tenants")).json()["results"]] == [world.tenant.id]
    made = client.post(url("keys"), {"tenant": world.tenant.id, "name": "made"}, format="json")
    assert made.status_code == 201
    problem(client.post(url("keys"), {"tenant": world.other.id, "name": "made"}, format="json"), 404)
    for method, path, body in (
        ("post", url("deployments", ours.id, "stop"), None),
        ("patch", url("tenants", world.tenant.id), {"name": "x"}),
        ("patch", url("tenants", world.tenant.id), {"weight": 9}),
        ("post", url("tenants"), {"name": "x", "slug": "x"}),
    ):
        problem(getattr(client, method)(path, body, format="json"), 403)
    problem(client.get(url("audit") + f"?tenant={world.tenant.id}"), 403)
    problem(client.get(url("nodes")), 403)
    assert ApiKey.objects.for_tenant(world.tenant.id).get(id=key.id).last_used_at is not None


def test_management_read_writes_nothing() -> None:
    world = World()
    _, token = make(world, "management:read")
    client = bearer(token)
    assert client.get(url("keys")).status_code == 200
    events = AuditEvent.objects.for_platform().count()
    for path in ("keys", "deployments", "keys/playground"):
        problem(client.post(url(path), {"tenant": world.tenant.id, "name": "x"}, format="json"), 403)
    assert AuditEvent.objects.for_platform().count() == events


def test_a_key_of_inference_manages_nothing() -> None:
    world = World()
    _, token = make(world, "inference")
    problem(bearer(token).get(url("keys")), 403)


def test_a_key_leaves_no_heirs() -> None:
    """Whoever found a key cannot outlive its revocation with another one."""
    world = World()
    one, token = make(world, "management")
    other, _ = make(world, "management:read")
    harmless, _ = make(world, "inference")
    client, body = bearer(token), {"tenant": world.tenant.id, "name": "heir"}
    for scopes in (["management"], ["inference", "management:read"]):
        problem(client.post(url("keys"), {**body, "scopes": scopes}, format="json"), 403)
    for key in (one, other):
        problem(client.post(url("keys", key.id, "rotate"), {"grace_seconds": 60}, format="json"), 403)
        problem(client.patch(url("keys", key.id), {"expires_at": None}, format="json"), 403)
    assert client.post(url("keys", harmless.id, "rotate"), {"grace_seconds": 60}, format="json").status_code == 200
    assert client.post(url("keys", other.id, "revoke")).status_code == 200


def test_a_rotated_keys_old_secret_works_until_the_grace_ends() -> None:
    world = World()
    key, old = make(world, "management")
    key, new = rotate_key(key=key, grace=timedelta(minutes=5), actor="test")
    for token in (old, new):
        assert bearer(token).get(url("keys")).status_code == 200
    past = timezone.now() - timedelta(seconds=1)
    ApiKey.objects.for_tenant(world.tenant.id).filter(id=key.id).update(previous_until=past)
    problem(bearer(old).get(url("keys")), 401)
    assert bearer(new).get(url("keys")).status_code == 200


def test_its_makers_part_is_its_limit() -> None:
    world = World()
    _, token = make(world, "management", by="viewer")
    problem(bearer(token).post(url("keys"), {"tenant": world.tenant.id, "name": "x"}, format="json"), 403)
    assert bearer(token).get(url("keys")).status_code == 200
    Membership.objects.for_tenant(world.tenant.id).filter(user=world.people["viewer"]).delete()
    problem(bearer(token).get(url("keys")), 403)


def test_a_key_that_no_person_made_serves_its_tenant() -> None:
    world = World()
    _, token = make(world, "management", by=None)
    made = bearer(token).get(url("tenants")).json()["results"]
    assert [row["id"] for row in made] == [world.tenant.id]


@pytest.mark.parametrize("end", ["revoked", "expired", "suspended", "wrong", "playground", "inactive"])
def test_what_is_no_valid_key_is_refused(end: str) -> None:
    world = World()
    values: dict[str, Any] = {"expires_at": timezone.now() + timedelta(hours=1)} if end == "expired" else {}
    key, token = make(world, "management", playground=end == "playground", **values)
    if end == "revoked":
        revoke_key(key=key, actor="test")
    elif end == "expired":
        past = timezone.now() - timedelta(seconds=1)
        ApiKey.objects.for_tenant(world.tenant.id).filter(id=key.id).update(expires_at=past)
    elif end == "suspended":
        change_tenant(tenant=world.tenant, actor="test", suspended=True)
    elif end == "wrong":
        token = token[:-2] + ("aa" if token[-2:] != "aa" else "bb")
    elif end == "inactive":
        world.people["owner"].is_active = False
        world.people["owner"].save()
    problem(bearer(token).get(url("keys")), 403 if end in ("playground", "inactive") else 401)


def test_a_bearer_is_never_mixed_with_a_cookie() -> None:
    """A wrong key is 401 though the browser is signed in; and what is a person's own takes no key."""
    world = World()
    client = world.client("owner")
    problem(client.get(url("keys"), headers={"Authorization": "Bearer nonsense"}), 401)
    assert client.get(url("keys"), headers={"Authorization": "Basic eDp5"}).status_code == 200
    _, token = make(world, "management")
    problem(bearer(token).get(url("settings")), 401)


def test_a_key_needs_no_csrf_token() -> None:
    world = World()
    _, token = make(world, "management")
    client = APIClient(enforce_csrf_checks=True)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    answer = client.post(url("keys"), {"tenant": world.tenant.id, "name": "x"}, format="json")
    assert answer.status_code == 201
