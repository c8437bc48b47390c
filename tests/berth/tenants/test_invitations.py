"""Invitations: the token once, a term, one acceptance, whoever comes first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from berth.core.errors import BerthError, Conflict, Forbidden, NotFound
from berth.options.services import set_option
from berth.tenants.invitations import Gone, find_invitation
from berth.tenants.models import Invitation, Membership, Role, Tenant, User
from berth.tenants.services import (
    accept_invitation,
    create_user,
    invite,
    resend_invitation,
    revoke_invitation,
)
from helpers.api_cases import BadInputCase, ReadCase, World, WriteCase, problem, url
from helpers.factories import PASSWORD, make_tenant, make_user, unique
from helpers.races import both


def address() -> str:
    return f"{unique('guest')}@example.com"


def age(invitation: Invitation, **by: float) -> None:
    ends = timezone.now() - timedelta(**by)
    Invitation.objects.for_tenant(invitation.tenant_id).filter(id=invitation.id).update(expires_at=ends)


@pytest.mark.django_db
def test_a_new_person_is_made_and_joins_once() -> None:
    tenant, guest = make_tenant(), address()
    invitation, token = invite(tenant=tenant, email=guest.upper(), role=Role.DEVELOPER, actor="test")
    with connection.cursor() as cursor:
        cursor.execute("SELECT i::text FROM tenants_invitation i WHERE id = %s", [invitation.id])
        assert token.partition(".")[2] not in cursor.fetchone()[0]

    member = accept_invitation(token=token, name="Guest", password=PASSWORD)

    assert (member.tenant_id, member.role, member.user.email) == (tenant.id, "developer", guest)
    assert member.user.check_password(PASSWORD)
    with pytest.raises(Gone):
        accept_invitation(token=token, user=member.user)
    assert Membership.objects.for_tenant(tenant.id).count() == 1


@pytest.mark.django_db
def test_what_opens_nothing() -> None:
    tenant = make_tenant()
    invitation, token = invite(tenant=tenant, email=address(), role=Role.VIEWER, actor="test")
    other = invite(tenant=tenant, email=address(), role=Role.VIEWER, actor="test")[1]
    mixed = f"{invitation.id}.{other.partition('.')[2]}"
    for strange in ("", "x", token[:-1], token + "a", mixed, "\0", "é" * 60, f"key_{token[4:]}"):
        with pytest.raises(NotFound):
            find_invitation(strange)
    _, newer = resend_invitation(invitation=invitation, actor="test")
    with pytest.raises(NotFound):
        find_invitation(token)
    age(invitation, seconds=1)
    with pytest.raises(Gone):
        find_invitation(newer)
    _, newest = resend_invitation(invitation=invitation, actor="test")
    assert find_invitation(newest).id == invitation.id
    revoke_invitation(invitation=invitation, actor="test")
    revoke_invitation(invitation=invitation, actor="test")
    with pytest.raises(Gone):
        find_invitation(newest)
    with pytest.raises(Gone):
        resend_invitation(invitation=invitation, actor="test")


@pytest.mark.django_db
def test_one_open_invitation_an_address_and_none_for_members() -> None:
    tenant, guest = make_tenant(), address()
    first, _ = invite(tenant=tenant, email=guest, role=Role.VIEWER, actor="test")
    with pytest.raises(Conflict) as refused:
        invite(tenant=tenant, email=guest, role=Role.ADMIN, actor="test")
    assert refused.value.code == "already_invited"
    invite(tenant=make_tenant(), email=guest, role=Role.ADMIN, actor="test")
    age(first, days=1)
    second, token = invite(tenant=tenant, email=guest, role=Role.ADMIN, actor="test")
    assert Invitation.objects.for_tenant(tenant.id).get(id=first.id).revoked_at is not None
    assert second.role == Role.ADMIN
    accept_invitation(token=token, password=PASSWORD)
    with pytest.raises(Conflict) as refused:
        invite(tenant=tenant, email=guest, role=Role.ADMIN, actor="test")
    assert refused.value.code == "already_member"
    with pytest.raises(Forbidden):
        invite(tenant=tenant, email=address(), role=Role.OWNER, actor="test", by=Role.ADMIN)


@pytest.mark.django_db
def test_it_is_for_one_address_and_a_weak_password_leaves_it_open() -> None:
    _, token = invite(tenant=make_tenant(), email=address(), role=Role.VIEWER, actor="test")
    with pytest.raises(Conflict):
        accept_invitation(token=token, user=make_user())
    with pytest.raises(BerthError) as weak:
        accept_invitation(token=token, password="12345")
    assert weak.value.field == "password"
    assert find_invitation(token).accepted_at is None


@pytest.mark.django_db
def test_its_term_is_the_option() -> None:
    set_option(key="invitation_days", value=3, actor="test")
    invitation, _ = invite(tenant=make_tenant(), email=address(), role=Role.VIEWER, actor="test")
    assert invitation.expires_at - invitation.sent_at == timedelta(days=3)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("known", [True, False])
def test_of_two_accepts_at_once_one_gets_in(known: bool) -> None:
    tenant, guest = make_tenant(), address()
    _, token = invite(tenant=tenant, email=guest, role=Role.VIEWER, actor="test")
    user = create_user(email=guest, password=PASSWORD) if known else None

    def accept() -> Any:
        return accept_invitation(token=token, user=user, password=PASSWORD)

    assert both(accept, accept) == ["done", "invitation_gone"]
    assert Membership.objects.for_tenant(tenant.id).count() == 1
    assert User.objects.filter(email=guest).count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_invitations_at_once_one_is_made() -> None:
    tenant, guest = make_tenant(), address()

    def make() -> Any:
        return invite(tenant=tenant, email=guest, role=Role.VIEWER, actor="test")

    assert both(make, make) == ["already_invited", "done"]


@pytest.mark.django_db
class TestOverHttp:
    def client(self) -> APIClient:
        client = APIClient(enforce_csrf_checks=True)
        client.get(url("session"))
        return client

    def post(self, client: APIClient, path: str, **body: Any) -> Any:
        token = client.cookies["csrftoken"].value
        return client.post(url("invitations", path), body, format="json", HTTP_X_CSRFTOKEN=token)

    def test_from_the_link_to_a_session(self, settings: Any) -> None:
        world, guest = World(), address()
        settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
        body = {"tenant": world.tenant.id, "email": guest, "role": "developer"}
        made = world.client("admin").post(url("invitations"), body, format="json").json()
        assert made["mailed"]
        assert made["url"] in mail.outbox[0].body
        assert mail.outbox[0].to == [guest]
        token = made["url"].partition("#")[2]
        client = self.client()

        look = self.post(client, "look", token=token).json()
        assert look["tenant"]["id"] == world.tenant.id
        assert (look["email"], look["role"], look["has_account"]) == (guest, "developer", False)
        assert look["invited_by"] == world.people["admin"].email
        problem(self.post(client, "accept", token=token), 400, "password")

        me = self.post(client, "accept", token=token, name="Guest", password=PASSWORD).json()
        assert me["memberships"] == [{"tenant": look["tenant"], "role": "developer"}]
        assert client.get(url("me")).json()["user"]["name"] == "Guest"
        assert problem(self.post(client, "look", token=token), 410)["code"] == "invitation_gone"
        states = [row["state"] for row in world.client("admin").get(url("invitations")).json()["results"]]
        assert states == ["accepted"]

    def test_an_account_that_exists_proves_itself(self) -> None:
        tenant = make_tenant()
        user = create_user(email=address(), password=PASSWORD)
        _, token = invite(tenant=tenant, email=user.email, role=Role.VIEWER, actor="test")
        client = self.client()
        assert self.post(client, "look", token=token).json()["has_account"]
        problem(self.post(client, "accept", token=token), 400, "password")
        problem(self.post(client, "accept", token=token, password="wrong"), 401)
        assert not Membership.objects.for_tenant(tenant.id).exists()
        stranger = APIClient()
        stranger.force_login(make_user(), backend="django.contrib.auth.backends.ModelBackend")
        answer = stranger.post(url("invitations", "accept"), {"token": token}, format="json")
        assert problem(answer, 409)["code"] == "another_person"
        assert self.post(client, "accept", token=token, password=PASSWORD).status_code == 200
        assert client.get(url("me")).json()["user"]["id"] == user.id

    def test_without_the_csrf_token_nobody_is_signed_in(self) -> None:
        _, token = invite(tenant=make_tenant(), email=address(), role=Role.VIEWER, actor="test")
        body = {"token": token, "password": PASSWORD}
        problem(self.client().post(url("invitations", "accept"), body, format="json"), 403)


class TestInvitations(ReadCase, WriteCase, BadInputCase):
    path = "invitations"
    reads = "admin"

    def make(self, tenant: Tenant) -> str:
        return invite(tenant=tenant, email=address(), role=Role.VIEWER, actor="test")[0].id

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        body = {"tenant": world.tenant.id, "email": address(), "role": "viewer"}
        return [
            ("admin", "post", self.url(), body, 201),
            ("owner", "post", self.url(), {**body, "email": address(), "role": "owner"}, 201),
            ("admin", "post", self.url(self.make(world.tenant), "resend"), None, 200),
            ("admin", "delete", self.url(self.make(world.tenant)), None, 204),
        ]

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        good = {"tenant": world.tenant.id, "email": address(), "role": "viewer"}
        return [
            ("post", self.url(), {**good, "email": "nobody"}, "email"),
            ("post", self.url(), {**good, "email": "a\0@b.cd"}, "email"),
            ("post", self.url(), {**good, "role": "king"}, "role"),
            ("post", self.url(), {"email": good["email"], "role": "viewer"}, "tenant"),
            ("post", self.url("look"), {}, "token"),
            ("post", self.url("accept"), {"token": "x" * 200}, "token"),
        ]
