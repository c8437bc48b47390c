"""Roles: who may change whom, and that somebody always owns a tenant."""

from __future__ import annotations

from typing import Any

import pytest

from berth.core.errors import Conflict, Forbidden, Invalid, NotFound
from berth.tenants.models import Membership, Role, Tenant
from berth.tenants.services import add_member, change_member, join_tenant, remove_member
from helpers.api_cases import BadInputCase, ReadCase, World, WriteCase, problem, url
from helpers.factories import make_tenant, make_user, unique
from helpers.races import both


def members(tenant: Tenant) -> dict[str, str]:
    rows = Membership.objects.for_tenant(tenant.id)
    return dict(rows.values_list("user_id", "role"))


@pytest.mark.django_db
def test_the_last_owner_stays() -> None:
    tenant = make_tenant()
    first, second = (make_user(tenant=tenant, role=Role.OWNER) for _ in range(2))
    rows = {row.user_id: row for row in Membership.objects.for_tenant(tenant.id)}
    remove_member(membership=rows[first.id], actor="test")
    for change in (
        lambda: remove_member(membership=rows[second.id], actor="test"),
        lambda: change_member(membership=rows[second.id], role=Role.ADMIN, actor="test"),
        lambda: add_member(tenant=tenant, user=second, role=Role.VIEWER, actor="test"),
    ):
        with pytest.raises(Conflict) as refused:
            change()
        assert refused.value.code == "last_owner"
    assert members(tenant) == {second.id: Role.OWNER}
    with pytest.raises(NotFound):
        change_member(membership=rows[first.id], role=Role.ADMIN, actor="test")


@pytest.mark.django_db
def test_an_admin_makes_and_touches_no_owner() -> None:
    tenant = make_tenant()
    owner, other = make_user(tenant=tenant), make_user(tenant=tenant)
    developer = make_user(tenant=tenant, role=Role.DEVELOPER)
    rows = {row.user_id: row for row in Membership.objects.for_tenant(tenant.id)}
    for change in (
        lambda: change_member(membership=rows[owner.id], role=Role.VIEWER, actor="a@b", by=Role.ADMIN),
        lambda: remove_member(membership=rows[other.id], actor="a@b", by=Role.ADMIN),
        lambda: change_member(membership=rows[developer.id], role=Role.OWNER, actor="a@b", by=Role.ADMIN),
        lambda: join_tenant(tenant=tenant, user=make_user(), role=Role.OWNER, actor="a@b", by=Role.ADMIN),
    ):
        with pytest.raises(Forbidden):
            change()
    change_member(membership=rows[developer.id], role=Role.ADMIN, actor="a@b", by=Role.ADMIN)
    assert members(tenant) == {owner.id: "owner", other.id: "owner", developer.id: "admin"}
    with pytest.raises(Invalid):
        change_member(membership=rows[developer.id], role="king", actor="a@b")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", ["demote", "remove"])
def test_two_owners_that_go_at_once_leave_one(way: str) -> None:
    tenant = make_tenant()
    owners = [make_user(tenant=tenant) for _ in range(2)]
    rows = list(Membership.objects.for_tenant(tenant.id).order_by("id"))

    def leave(row: Membership) -> Any:
        if way == "remove":
            return remove_member(membership=row, actor="test")
        return change_member(membership=row, role=Role.VIEWER, actor="test")

    assert both(lambda: leave(rows[0]), lambda: leave(rows[1])) == ["done", "last_owner"]
    left = members(tenant)
    assert [left.get(owner.id) for owner in owners].count(Role.OWNER) == 1


class TestMembers(ReadCase, WriteCase, BadInputCase):
    path = "members"

    def make(self, tenant: Tenant) -> str:
        user = make_user(tenant=tenant, role=Role.VIEWER)
        return str(Membership.objects.for_tenant(tenant.id).get(user=user).id)

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        body = {"tenant": world.tenant.id, "email": make_user().email, "role": "viewer"}
        owner = {"tenant": world.tenant.id, "email": make_user().email, "role": "owner"}
        return [
            ("admin", "post", self.url(), body, 201),
            ("owner", "post", self.url(), owner, 201),
            ("admin", "patch", self.url(self.make(world.tenant)), {"role": "developer"}, 200),
            ("owner", "patch", self.url(self.make(world.tenant)), {"role": "owner"}, 200),
            ("admin", "delete", self.url(self.make(world.tenant)), None, 204),
        ]

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        good = {"tenant": world.tenant.id, "email": make_user().email, "role": "viewer"}
        return [
            ("post", self.url(), {**good, "email": f"{unique('nobody')}@example.com"}, "email"),
            ("post", self.url(), {**good, "email": "x"}, "email"),
            ("post", self.url(), {**good, "role": "king"}, "role"),
            ("post", self.url(), {"email": good["email"], "role": "viewer"}, "tenant"),
            ("patch", self.url(self.make(world.tenant)), {"role": None}, "role"),
        ]

    def test_anyone_may_leave(self, world: World) -> None:
        mine = Membership.objects.for_tenant(world.tenant.id).get(user=world.people["viewer"])
        client = world.client("viewer")
        assert client.delete(self.url(mine.id)).status_code == 204
        problem(client.get(url("tenants", world.tenant.id)), 404)
        owner = Membership.objects.for_tenant(world.tenant.id).get(user=world.people["owner"])
        body = problem(world.client("owner").delete(self.url(owner.id)), 409)
        assert body["code"] == "last_owner"

    def test_who_is_a_member_is_not_added_again(self, world: World) -> None:
        body = {"tenant": world.tenant.id, "email": world.people["viewer"].email, "role": "admin"}
        assert problem(world.client("owner").post(self.url(), body, format="json"), 409)["code"] == "already_member"
        assert members(world.tenant)[world.people["viewer"].id] == "viewer"
