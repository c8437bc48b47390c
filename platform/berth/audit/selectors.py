"""Reads of the audit trail."""

from __future__ import annotations

from berth.audit.models import AuditEvent
from berth.core.scoping import ScopedQuerySet


def events_of_tenant(tenant_id: str) -> ScopedQuerySet:
    return AuditEvent.objects.for_tenant(tenant_id)


def events_of_platform() -> ScopedQuerySet:
    """Every tenant's events and the platform's own: the operator's view."""
    return AuditEvent.objects.for_platform()
