from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta

import pytest
from django.utils import timezone

from berth.core.errors import Conflict, Invalid
from berth.tenants import keys
from berth.tenants.models import ApiKey
from berth.tenants.selectors import at_least, role_in, scope_of
from berth.tenants.services import (
    add_member,
    change_tenant,
    create_key,
    create_tenant,
    create_user,
    delete_key,
    note_key_use,
    revoke_key,
    set_password,
)
from helpers.factories import PASSWORD, make_tenant, make_user

OLD, NEW = b"\x01" * 32, b"\x02" * 32


@pytest.fixture
def peppers(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    rotating = {"2": NEW, "1": OLD}
    monkeypatch.setattr(keys, "rotating", lambda name: rotating)
    return rotating


def test_a_token_is_checked_with_the_pepper_it_was_made_with(peppers: dict[str, bytes]) -> None:
    secret = keys.new_secret()
    token = f"key_{'0' * 26}.{secret}"
    old = hmac.new(OLD, secret.encode(), hashlib.sha256).hexdigest()
    new = hmac.new(NEW, secret.encode(), hashlib.sha256).hexdigest()

    assert keys.digest_of(secret) == (new, "2")
    assert keys.verify(token, new, "2")
    assert keys.verify(token, old, "1")
    assert not keys.verify(token, old, "2")
    del peppers["1"]
    assert not keys.verify(token, old, "1")


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t + "a", lambda t: t[:-1] + "é", lambda t: t + "\n"])
def test_a_token_that_is_not_whole_opens_nothing(change: object) -> None:
    secret = keys.new_secret()
    digest, pepper_id = keys.digest_of(secret)
    token = f"key_{'0' * 26}.{secret}"
    assert keys.verify(token, digest, pepper_id)
    assert not keys.verify(change(token), digest, pepper_id)  # type: ignore[operator]
    for strange in ("", ".", secret, f".{secret}", f"key_x.{secret}", "\0" * 99):
        assert keys.split(strange) is None


@pytest.mark.django_db
def test_only_the_digest_is_kept() -> None:
    key, token = create_key(tenant=make_tenant(), name="ci", actor="ann@example.com")
    row = ApiKey.objects.for_platform().get(id=key.id)
    key_id, secret = token.split(".")

    assert key_id == row.id
    assert len(secret) == 43
    assert row.hint == secret[-4:]
    assert secret not in str(vars(row))
    assert keys.verify(token, row.digest, row.pepper_id)


@pytest.mark.django_db
def test_revoking_is_kept_from_the_first_time_and_deleting_removes() -> None:
    key, _ = create_key(tenant=make_tenant(), name="ci", actor="test")
    first = revoke_key(key=key, actor="test").revoked_at
    assert first is not None
    assert revoke_key(key=key, actor="test").revoked_at == first
    delete_key(key=key, actor="test")
    assert not ApiKey.objects.for_platform().filter(id=key.id).exists()


@pytest.mark.django_db
def test_a_playground_key_lives_ten_minutes_and_dead_ones_go() -> None:
    tenant = make_tenant()
    key, _ = create_key(tenant=tenant, name="p", actor="test", playground=True)
    life = key.expires_at - timezone.now()
    assert timedelta(minutes=9, seconds=50) < life <= timedelta(minutes=10)
    ApiKey.objects.for_tenant(tenant.id).update(expires_at=timezone.now() - timedelta(seconds=1))
    create_key(tenant=tenant, name="p", actor="test", playground=True)
    assert ApiKey.objects.for_tenant(tenant.id).count() == 1


@pytest.mark.django_db
def test_what_people_and_tenants_may_not_be() -> None:
    make_tenant("acme")
    with pytest.raises(Conflict, match="acme"):
        create_tenant(name="Acme", slug="acme", actor="test")
    with pytest.raises(Invalid) as refused:
        create_tenant(name="Acme", slug="a c", actor="test")
    assert refused.value.field == "slug"
    for email, password, field in (("nope", PASSWORD, "email"), ("a@example.com", "short", "password")):
        with pytest.raises(Invalid) as refused:
            create_user(email=email, password=password)
        assert refused.value.field == field
    user = create_user(email="a@example.com", password=PASSWORD)
    with pytest.raises(Conflict):
        create_user(email="A@EXAMPLE.COM", password=PASSWORD)
    set_password(user=user, password="another-long-one", actor="test")
    user.refresh_from_db()
    assert user.check_password("another-long-one")
    assert user.password.startswith("argon2$argon2id$")


@pytest.mark.django_db
def test_roles_order_and_scope() -> None:
    one, two = make_tenant(), make_tenant()
    ann, operator = make_user(tenant=one, role="developer"), make_user(operator=True)

    assert [at_least("developer", least) for least in ("viewer", "developer", "admin")] == [True, True, False]
    assert (role_in(ann, one.id), role_in(ann, two.id), role_in(operator, two.id)) == ("developer", None, "owner")
    assert scope_of(ann).tenant_ids == (one.id,)
    assert scope_of(operator).tenant_ids is None
    assert scope_of(operator, two.id).tenant_ids == (two.id,)
    add_member(tenant=one, user=ann, role="admin", actor="test")
    assert role_in(ann, one.id) == "admin"
    with pytest.raises(Invalid):
        add_member(tenant=one, user=ann, role="king", actor="test")


@pytest.mark.django_db
def test_suspending_keeps_the_first_moment() -> None:
    tenant = make_tenant()
    first = change_tenant(tenant=tenant, actor="test", suspended=True).suspended_at
    assert first is not None
    assert change_tenant(tenant=tenant, actor="test", suspended=True).suspended_at == first
    assert change_tenant(tenant=tenant, actor="test", suspended=False).suspended_at is None


@pytest.mark.django_db
def test_last_use_only_moves_forward() -> None:
    key, _ = create_key(tenant=make_tenant(), name="ci", actor="test")
    now = timezone.now()
    for at in (now, now - timedelta(hours=1)):
        note_key_use(used={key.id: at, "key_gone": at})
    key.refresh_from_db()
    assert key.last_used_at == now
