"""Reads of the audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from berth.audit.models import AuditEvent
from berth.core.scoping import Scope, ScopedQuerySet
from berth.tenants.models import User


def events(scope: Scope) -> ScopedQuerySet:
    """Of a tenant; of everything, the platform's own included, for an operator."""
    return scope.of(AuditEvent.objects)


def annotate_names(events: Sequence[Any]) -> None:
    """Gives each event ``object_name``: what happened to a person or a session names whom, not an id."""
    people = {event.object_id for event in events if event.object_type == "user"}
    emails = dict(User.objects.filter(id__in=people).values_list("id", "email")) if people else {}
    for event in events:
        event.object_name = emails.get(event.object_id, "") if event.object_type == "user" else ""
