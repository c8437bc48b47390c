"""The one writer of audit events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import models

from berth.audit.models import AuditEvent
from berth.core.logs import current_request_id

MASKED = "••••"
_SECRET_WORDS = ("password", "secret", "token", "digest", "pepper")


def record(
    *,
    actor: str,
    action: str,
    obj: models.Model | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    tenant_id: str | None = None,
) -> AuditEvent:
    """Write one event, inside the caller's transaction: a change without its event cannot be committed.

    ``tenant_id`` defaults to the object's own; fields whose name speaks of a secret are masked.
    """
    if tenant_id is None:
        tenant_id = getattr(obj, "tenant_id", "") or ""
    return AuditEvent.objects.create(
        actor=actor,
        action=action,
        object_type=str(obj._meta.model_name) if obj is not None else "",
        object_id=str(obj.pk) if obj is not None else "",
        tenant_id=tenant_id,
        before=_clean(before),
        after=_clean(after),
        request_id=current_request_id(),
    )


def changes(obj: models.Model, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(before, after) of the fields in ``values`` that differ from ``obj``'s, as ``record`` takes them."""
    before, after = {}, {}
    for name, value in values.items():
        old = getattr(obj, name)
        if old != value:
            before[name], after[name] = old, value
    return before, after


def _clean(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if values is None:
        return None
    return {name: MASKED if _is_secret(name) else _plain(value) for name, value in values.items()}


def _is_secret(name: str) -> bool:
    parts = name.split("_")
    return any(word in parts for word in _SECRET_WORDS)


def _plain(value: Any) -> Any:
    if isinstance(value, models.Model):
        return str(value.pk)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value
