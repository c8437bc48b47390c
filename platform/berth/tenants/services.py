"""Writes of tenants and their quota; those of people, memberships, invitations, keys and sessions are re-exported."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction
from django.utils import timezone

from berth.audit.services import changes, record
from berth.core.errors import Conflict, Invalid
from berth.core.notify import changed
from berth.core.version import raise_version
from berth.tenants.accounts import change_user, create_user, set_password
from berth.tenants.apikeys import change_key, create_key, delete_key, note_key_use, revoke_key, rotate_key
from berth.tenants.ended import end_session, end_sessions
from berth.tenants.factors import begin_factor, confirm_factor, disable_factor, renew_recovery_codes
from berth.tenants.invitations import accept_invitation, invite, resend_invitation, revoke_invitation
from berth.tenants.limits import LIMITS, check_limits
from berth.tenants.members import add_member, change_member, join_tenant, lock_tenant, remove_member
from berth.tenants.models import CapacityQuota, Tenant

__all__ = [
    "accept_invitation",
    "add_member",
    "begin_factor",
    "change_key",
    "change_member",
    "change_tenant",
    "change_user",
    "confirm_factor",
    "create_key",
    "create_tenant",
    "create_user",
    "delete_key",
    "disable_factor",
    "end_session",
    "end_sessions",
    "invite",
    "join_tenant",
    "lift_quota",
    "note_key_use",
    "remove_member",
    "renew_recovery_codes",
    "resend_invitation",
    "revoke_invitation",
    "revoke_key",
    "rotate_key",
    "set_password",
    "set_quota",
]

MAX_QUOTA_BYTES = 1 << 60


@transaction.atomic
def create_tenant(*, name: str, slug: str, actor: str, weight: int = 1, **limits: Any) -> Tenant:
    """``limits``: LIMITS, none unless given."""
    check_limits(limits)
    try:
        validate_slug(slug)
    except ValidationError as error:
        raise Invalid(f"{slug!r}: letters, digits, hyphens and underscores only", field="slug") from error
    try:
        with transaction.atomic():
            tenant = Tenant.objects.create(name=name, slug=slug, weight=weight, **limits)
    except IntegrityError as error:
        raise Conflict(f"A tenant with the slug {slug!r} exists", field="slug", code="slug_taken") from error
    after = {"name": name, "slug": slug, "weight": weight, **limits}
    record(actor=actor, action="tenant.create", obj=tenant, after=after, tenant_id=tenant.id)
    changed("tenant", tenant.id, tenant.id)
    raise_version()
    return tenant


@transaction.atomic
def change_tenant(*, tenant: Tenant, actor: str, suspended: bool | None = None, **values: Any) -> Tenant:
    """``values``: name, weight, LIMITS, admits_uncounted.

    A suspended tenant's keys stop working; nothing of it is deleted.
    """
    tenant = lock_tenant(tenant.id)
    if suspended is not None and suspended != (tenant.suspended_at is not None):
        values["suspended_at"] = timezone.now() if suspended else None
    check_limits({name: values[name] for name in LIMITS if name in values})
    before, after = changes(tenant, values)
    if after:
        for field, value in after.items():
            setattr(tenant, field, value)
        tenant.save(update_fields=list(after))
        record(actor=actor, action="tenant.change", obj=tenant, before=before, after=after, tenant_id=tenant.id)
        changed("tenant", tenant.id, tenant.id)
        raise_version()
    return tenant


@transaction.atomic
def set_quota(*, tenant: Tenant, guaranteed_bytes: int, burst_bytes: int, actor: str) -> CapacityQuota:
    """Holds what is started or grown from now on; what runs goes on, also when it is more."""
    for field, value in (("guaranteed_bytes", guaranteed_bytes), ("burst_bytes", burst_bytes)):
        if not 0 <= value <= MAX_QUOTA_BYTES:
            raise Invalid(f"{value}: expected 0 to {MAX_QUOTA_BYTES} bytes", field=field)
    lock_tenant(tenant.id)
    quota = CapacityQuota.objects.select_for_update().filter(tenant=tenant).first()
    values = {"guaranteed_bytes": guaranteed_bytes, "burst_bytes": burst_bytes}
    before = {field: getattr(quota, field) for field in values} if quota is not None else dict.fromkeys(values)
    if before != values:
        quota, _ = CapacityQuota.objects.update_or_create(tenant=tenant, defaults=values)
        record(
            actor=actor, action="tenant.set_quota", obj=tenant, before=before, after=values, tenant_id=tenant.id
        )  # fmt: skip
        changed("tenant", tenant.id, tenant.id)
    assert quota is not None
    return quota


@transaction.atomic
def lift_quota(*, tenant: Tenant, actor: str) -> None:
    """No limit any more. Idempotent."""
    lock_tenant(tenant.id)
    quota = CapacityQuota.objects.select_for_update().filter(tenant=tenant).first()
    if quota is None:
        return
    before = {"guaranteed_bytes": quota.guaranteed_bytes, "burst_bytes": quota.burst_bytes}
    quota.delete()
    record(
        actor=actor, action="tenant.lift_quota", obj=tenant, before=before, after=dict.fromkeys(before),
        tenant_id=tenant.id,
    )  # fmt: skip
    changed("tenant", tenant.id, tenant.id)
