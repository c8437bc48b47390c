"""Writes of keys. A key's scopes are its own for life; what it may reach, its name and its end can change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from berth.audit.services import changes, record
from berth.core.errors import Conflict, Invalid
from berth.core.notify import changed
from berth.core.version import raise_version
from berth.deployments.models import Deployment
from berth.slas.models import Contract
from berth.slas.selectors import lasts_beyond
from berth.tenants import keys
from berth.tenants.limits import LIMITS, check_limits
from berth.tenants.models import ApiKey, KeyScope, Tenant, User, inference_only

PLAYGROUND_KEY_LIFE = timedelta(minutes=10)
MAX_GRACE = timedelta(days=30)
MAX_DEPLOYMENTS = 200


@transaction.atomic
def create_key(
    *,
    tenant: Tenant,
    name: str,
    actor: str,
    created_by: User | None = None,
    expires_at: datetime | None = None,
    scopes: Sequence[str] | None = None,
    deployments: Sequence[str] = (),
    playground: bool = False,
    **limits: Any,
) -> tuple[ApiKey, str]:
    """A new key and its token ``KEYID.SECRET``; the token exists nowhere else, so show it now.

    ``scopes``: inference alone unless given; ``deployments``: the ids it may use, empty for all;
    ``limits``: LIMITS, none unless given.
    """
    check_limits(limits)
    if playground:
        expires_at = timezone.now() + PLAYGROUND_KEY_LIFE
        _drop_dead_playground_keys(tenant)
    _check_end(expires_at)
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
        scopes=_checked_scopes(inference_only() if scopes is None else scopes),
        deployments=_checked_deployments(tenant.id, deployments),
        playground=playground,
        **limits,
    )
    if not playground:
        after = {"name": name, "expires_at": expires_at, "scopes": key.scopes, "deployments": key.deployments}
        record(actor=actor, action="key.create", obj=key, after=after | limits)
        changed("key", key.id, tenant.id)
    raise_version()
    return key, f"{key.id}.{secret}"


@transaction.atomic
def change_key(*, key: ApiKey, actor: str, **values: Any) -> ApiKey:
    """``values``: name, deployments, expires_at (None: never), LIMITS. Raises ``Conflict`` once it is revoked."""
    row = _lock(key)
    _check_alive(row)
    if "deployments" in values:
        values["deployments"] = _checked_deployments(row.tenant_id, values["deployments"], held=row.deployments)
    check_limits({name: values[name] for name in LIMITS if name in values})
    before, after = changes(row, values)
    if "expires_at" in after:
        _check_end(after["expires_at"])
    if not after:
        return row
    for field, value in after.items():
        setattr(row, field, value)
    row.save(update_fields=list(after))
    record(actor=actor, action="key.change", obj=row, before=before, after=after)
    changed("key", row.id, row.tenant_id)
    raise_version()
    return row


@transaction.atomic
def rotate_key(*, key: ApiKey, grace: timedelta, actor: str) -> tuple[ApiKey, str]:
    """Another secret for the same key. The one before works until ``grace`` ends; an older one ends now."""
    if not timedelta(0) <= grace <= MAX_GRACE:
        limit = int(MAX_GRACE.total_seconds())
        raise Invalid(f"{grace.total_seconds():.0f}: expected 0 to {limit} seconds", field="grace_seconds")
    row = _lock(key)
    _check_alive(row)
    before = {"rotated_at": row.rotated_at, "previous_until": row.previous_until}
    secret, now = keys.new_secret(), timezone.now()
    row.previous_digest, row.previous_pepper_id = (row.digest, row.pepper_id) if grace else ("", "")
    row.previous_until = now + grace if grace else None
    row.digest, row.pepper_id = keys.digest_of(secret)
    row.hint, row.rotated_at = secret[-4:], now
    row.save()
    after = {"rotated_at": row.rotated_at, "previous_until": row.previous_until}
    record(actor=actor, action="key.rotate", obj=row, before=before, after=after)
    changed("key", row.id, row.tenant_id)
    raise_version()
    return row, f"{row.id}.{secret}"


@transaction.atomic
def revoke_key(*, key: ApiKey, actor: str) -> ApiKey:
    """Stops within a second on every gateway. Idempotent: the first time stays."""
    key = _lock(key)
    if key.revoked_at is None:
        key.revoked_at = timezone.now()
        key.save(update_fields=["revoked_at"])
        record(
            actor=actor, action="key.revoke", obj=key, before={"revoked_at": None}, after={"revoked_at": key.revoked_at}
        )
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


def _drop_dead_playground_keys(tenant: Tenant) -> None:
    dead = ApiKey.objects.for_tenant(tenant.id).filter(playground=True, expires_at__lt=timezone.now())
    dead.delete()


def _lock(key: ApiKey) -> ApiKey:
    row: ApiKey = ApiKey.objects.for_tenant(key.tenant_id).select_for_update().get(id=key.id)
    return row


def _check_alive(key: ApiKey) -> None:
    if key.revoked_at is not None:
        raise Conflict("The key was revoked; make another one", code="key_revoked")


def _check_end(expires_at: datetime | None) -> None:
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid("This time has passed; to end a key now, revoke it", field="expires_at")


def _checked_scopes(scopes: Sequence[str]) -> list[str]:
    wrong = [scope for scope in scopes if scope not in KeyScope.values]
    if wrong:
        raise Invalid(f"{wrong[0]!r}: expected some of {', '.join(KeyScope.values)}", field="scopes")
    if not scopes:
        raise Invalid(f"A key needs a scope: {', '.join(KeyScope.values)}", field="scopes")
    return sorted(set(scopes))


def _checked_deployments(tenant_id: str, ids: Sequence[str], held: Sequence[str] = ()) -> list[str]:
    """Sorted and unique. What the key holds already may stay, also when the deployment is gone: it opens nothing."""
    wanted = sorted(set(ids))
    if len(wanted) > MAX_DEPLOYMENTS:
        raise Invalid(f"{len(wanted)} deployments: at most {MAX_DEPLOYMENTS}", field="deployments")
    new = set(wanted) - set(held)
    if new:
        own = Deployment.objects.for_tenant(tenant_id).filter(id__in=new).values_list("id", flat=True)
        granted = Contract.objects.for_tenant(tenant_id).filter(lasts_beyond(timezone.now()), deployment_id__in=new)
        unknown = new - set(own) - set(granted.values_list("deployment_id", flat=True))
        if unknown:
            raise Invalid(f"There is no deployment {min(unknown)!r} of this tenant's", field="deployments")
    return wanted
