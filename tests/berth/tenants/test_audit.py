"""Every service of the app leaves an event with before and after, and no event holds a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyotp
import pytest
from django.utils import timezone

from berth.audit.models import AuditEvent
from berth.tenants import services
from berth.tenants.models import Membership, Role, UserSession
from berth.tenants.sessions import SessionStore, kept
from helpers.factories import PASSWORD, make_tenant, make_user, unique

NO_EVENT = {"note_key_use"}  # traffic, not a change by somebody
pytestmark = pytest.mark.django_db


def _session(user: Any) -> UserSession:
    store = SessionStore()
    store["_auth_user_id"] = user.id
    store.create()
    return UserSession.objects.get(session_key=kept(store.session_key))


def test_every_service_leaves_its_event_and_no_secret() -> None:
    tenant, user = make_tenant(), make_user()
    member = services.add_member(tenant=tenant, user=make_user(), role=Role.VIEWER, actor="t")
    key, token = services.create_key(tenant=tenant, name="k", actor="t")
    invitation, invited = services.invite(tenant=tenant, email=f"{unique('a')}@example.com", role="viewer", actor="t")
    accepted = services.invite(tenant=tenant, email=f"{unique('b')}@example.com", role="viewer", actor="t")[1]
    told: list[str] = [token, invited, accepted, PASSWORD]

    def tell(made: Any) -> Any:
        told.extend([made] if isinstance(made, str) else made)
        return made

    def factor() -> None:
        secret, uri = services.begin_factor(user=user, actor="t")
        tell([secret, uri])

    def confirm() -> None:
        secret = told[-2]
        tell(services.confirm_factor(user=user, code=pyotp.TOTP(secret).now(), actor="t"))

    def email() -> str:
        return f"{unique('c')}@example.com"

    calls: dict[str, Callable[[], Any]] = {
        "create_tenant": lambda: services.create_tenant(name="x", slug=unique("x"), actor="t"),
        "change_tenant": lambda: services.change_tenant(tenant=tenant, name="y", actor="t"),
        "set_quota": lambda: services.set_quota(tenant=tenant, guaranteed_bytes=1, burst_bytes=2, actor="t"),
        "lift_quota": lambda: services.lift_quota(tenant=tenant, actor="t"),
        "create_user": lambda: services.create_user(email=email(), password=PASSWORD, actor="t"),
        "change_user": lambda: services.change_user(user=user, name="z", actor="t"),
        "set_password": lambda: services.set_password(user=user, password=PASSWORD, actor="t"),
        "add_member": lambda: services.add_member(tenant=tenant, user=make_user(), role="viewer", actor="t"),
        "join_tenant": lambda: services.join_tenant(
            tenant=tenant, user=make_user(), role="viewer", actor="t", by="owner"
        ),
        "change_member": lambda: services.change_member(membership=member, role="admin", actor="t"),
        "remove_member": lambda: services.remove_member(membership=member, actor="t"),
        "invite": lambda: tell(services.invite(tenant=tenant, email=email(), role="viewer", actor="t")[1]),
        "resend_invitation": lambda: tell(services.resend_invitation(invitation=invitation, actor="t")[1]),
        "revoke_invitation": lambda: services.revoke_invitation(invitation=invitation, actor="t"),
        "accept_invitation": lambda: services.accept_invitation(token=accepted, password=PASSWORD),
        "create_key": lambda: tell(services.create_key(tenant=tenant, name="l", actor="t")[1]),
        "change_key": lambda: services.change_key(key=key, name="m", actor="t"),
        "rotate_key": lambda: tell(services.rotate_key(key=key, grace=timedelta(hours=1), actor="t")[1]),
        "revoke_key": lambda: services.revoke_key(key=key, actor="t"),
        "delete_key": lambda: services.delete_key(key=key, actor="t"),
        "begin_factor": factor,
        "confirm_factor": confirm,
        "renew_recovery_codes": lambda: tell(services.renew_recovery_codes(user=user, actor="t")),
        "disable_factor": lambda: services.disable_factor(user=user, actor="t"),
        "end_session": lambda: services.end_session(session=_session(user), actor="t"),
        "end_sessions": lambda: (tell(_session(user).session_key), services.end_sessions(user=user, actor="t")),
    }
    assert set(calls) == set(services.__all__) - NO_EVENT
    for name, call in calls.items():
        before = AuditEvent.objects.for_platform().count()
        call()
        assert AuditEvent.objects.for_platform().count() > before, name

    rows = AuditEvent.objects.for_platform().values_list("object_id", "before", "after", "actor")
    written = json.dumps(list(rows))
    for secret in {part for one in told for part in (one, one.partition(".")[2]) if len(part) > 5}:
        assert secret not in written


def test_a_change_says_what_was_and_what_is() -> None:
    tenant = make_tenant()
    user = make_user(tenant=tenant, role=Role.VIEWER)
    row = Membership.objects.for_tenant(tenant.id).get(user=user)
    services.change_member(membership=row, role="admin", actor="somebody@example.com")
    key, _ = services.create_key(tenant=tenant, name="old", actor="t")
    ends = timezone.now() + timedelta(days=1)
    services.change_key(key=key, name="new", expires_at=ends, actor="t")
    member, changed = (
        AuditEvent.objects.for_tenant(tenant.id).filter(action=action).latest("id")
        for action in ("member.set", "key.change")
    )
    assert (member.actor, member.before, member.after["role"]) == ("somebody@example.com", {"role": "viewer"}, "admin")
    assert changed.before == {"name": "old", "expires_at": None}
    assert changed.after == {"name": "new", "expires_at": ends.isoformat()}
