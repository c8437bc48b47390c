"""Writes of tenants, people, memberships and keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email, validate_slug
from django.db import IntegrityError, transaction
from django.utils import timezone

from berth.audit.services import changes, record
from berth.core.errors import Conflict, Invalid
from berth.core.notify import changed
from berth.core.version import raise_version
from berth.tenants import keys
from berth.tenants.models import ApiKey, Membership, Role, Tenant, User

PLAYGROUND_KEY_LIFE = timedelta(minutes=10)


@transaction.atomic
def create_tenant(*, name: str, slug: str, actor: str, weight: int = 1) -> Tenant:
    try:
        validate_slug(slug)
    except ValidationError as error:
        raise Invalid(f"{slug!r}: letters, digits, hyphens and underscores only", field="slug") from error
    try:
        with transaction.atomic():
            tenant = Tenant.objects.create(name=name, slug=slug, weight=weight)
    except IntegrityError as error:
        raise Conflict(f"A tenant with the slug {slug!r} exists", field="slug", code="slug_taken") from error
    record(actor=actor, action="tenant.create", obj=tenant, after={"name": name, "slug": slug}, tenant_id=tenant.id)
    raise_version()
    return tenant


@transaction.atomic
def change_tenant(*, tenant: Tenant, actor: str, suspended: bool | None = None, **values: Any) -> Tenant:
    """``values``: name, weight. A suspended tenant's keys stop working; nothing of it is deleted."""
    tenant = Tenant.objects.select_for_update().get(id=tenant.id)
    if suspended is not None and suspended != (tenant.suspended_at is not None):
        values["suspended_at"] = timezone.now() if suspended else None
    before, after = changes(tenant, values)
    if after:
        for field, value in after.items():
            setattr(tenant, field, value)
        tenant.save(update_fields=list(after))
        record(actor=actor, action="tenant.change", obj=tenant, before=before, after=after, tenant_id=tenant.id)
        raise_version()
    return tenant


@transaction.atomic
def create_user(*, email: str, password: str, name: str = "", is_operator: bool = False, actor: str = "system") -> User:
    """Raises ``Invalid`` for a weak password or a malformed address, ``Conflict`` for one that has an account."""
    email = email.strip().lower()
    try:
        validate_email(email)
    except ValidationError as error:
        raise Invalid(f"{email!r} is not an e-mail address", field="email") from error
    user = User(email=email, name=name, is_operator=is_operator)
    _set_password(user, password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError as error:
        raise Conflict(f"{email} has an account", field="email", code="email_taken") from error
    record(actor=actor, action="user.create", obj=user, after={"email": email, "is_operator": is_operator})
    return user


@transaction.atomic
def set_password(*, user: User, password: str, actor: str) -> None:
    _set_password(user, password)
    user.save(update_fields=["password"])
    record(actor=actor, action="user.set_password", obj=user)


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="password") from error
    user.set_password(password)


@transaction.atomic
def add_member(*, tenant: Tenant, user: User, role: str, actor: str) -> Membership:
    """Add a person or change the role of one who is a member. Idempotent."""
    if role not in Role.values:
        raise Invalid(f"{role!r}: expected one of {', '.join(Role.values)}", field="role")
    members = Membership.objects.for_tenant(tenant.id).select_for_update()
    membership = members.filter(user=user).first()
    before = membership.role if membership is not None else None
    if membership is not None and before == role:
        return membership
    if membership is None:
        membership = Membership.objects.create(tenant=tenant, user=user, role=role)
    else:
        membership.role = role
        membership.save(update_fields=["role"])
    record(actor=actor, action="member.set", obj=membership, before={"role": before}, after={"role": role})
    return membership


@transaction.atomic
def create_key(
    *,
    tenant: Tenant,
    name: str,
    actor: str,
    created_by: User | None = None,
    expires_at: datetime | None = None,
    playground: bool = False,
) -> tuple[ApiKey, str]:
    """A new key and its token ``KEYID.SECRET``; the token exists nowhere else, so show it now."""
    if playground:
        expires_at = timezone.now() + PLAYGROUND_KEY_LIFE
        _drop_dead_playground_keys(tenant)
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid("The key would be expired from the start", field="expires_at")
    secret = keys.new_secret()
    digest, pepper_id = keys.digest_of(secret)
    key = ApiKey.objects.create(
        tenant=tenant,
        name=name,
        digest=digest,
        pepper_id=pepper_id,
        hint=secret[-4:],
        created_by=created_by,
        expires_at=expires_at,
        playground=playground,
    )
    if not playground:
        record(actor=actor, action="key.create", obj=key, after={"name": name, "expires_at": expires_at})
        changed("key", key.id, tenant.id)
    raise_version()
    return key, f"{key.id}.{secret}"


def _drop_dead_playground_keys(tenant: Tenant) -> None:
    dead = ApiKey.objects.for_tenant(tenant.id).filter(playground=True, expires_at__lt=timezone.now())
    dead.delete()


@transaction.atomic
def revoke_key(*, key: ApiKey, actor: str) -> ApiKey:
    """Stops within a second on every gateway. Idempotent: the first time stays."""
    key = ApiKey.objects.for_tenant(key.tenant_id).select_for_update().get(id=key.id)
    if key.revoked_at is None:
        key.revoked_at = timezone.now()
        key.save(update_fields=["revoked_at"])
        record(actor=actor, action="key.revoke", obj=key, after={"revoked_at": key.revoked_at})
        changed("key", key.id, key.tenant_id)
        raise_version()
    return key


@transaction.atomic
def delete_key(*, key: ApiKey, actor: str) -> None:
    """Revokes and removes the row. Usage keeps the id."""
    record(actor=actor, action="key.delete", obj=key, before={"name": key.name})
    changed("key", key.id, key.tenant_id)
    ApiKey.objects.for_tenant(key.tenant_id).filter(id=key.id).delete()
    raise_version()


def note_key_use(*, used: Mapping[str, datetime]) -> None:
    """Key id -> when it was last used; for the ledger, a batch at a time. No event, and never backwards."""
    rows = ApiKey.objects.for_platform().filter(id__in=used)
    for key_id, last in rows.values_list("id", "last_used_at"):
        if last is None or last < used[key_id]:
            ApiKey.objects.for_platform().filter(id=key_id).update(last_used_at=used[key_id])
