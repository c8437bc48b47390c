"""Reads of the audit trail."""

from __future__ import annotations

from berth.audit.models import AuditEvent
from berth.core.scoping import Scope, ScopedQuerySet


def events(scope: Scope) -> ScopedQuerySet:
    """Of a tenant; of everything, the platform's own included, for an operator."""
    return scope.of(AuditEvent.objects)
