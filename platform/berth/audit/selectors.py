"""Reads of the audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from berth.audit.models import AuditEvent
from berth.core.scoping import Scope, ScopedQuerySet
from berth.slas.models import Contract
from berth.tenants.models import User


def events(scope: Scope) -> ScopedQuerySet:
    """Of a tenant; of everything, the platform's own included, for an operator."""
    return scope.of(AuditEvent.objects)


def annotate_names(events: Sequence[Any]) -> None:
    """Gives each event ``object_name``: whom it is about, of a contract its deployment, not an id."""
    people = {event.object_id for event in events if event.object_type == "user"}
    names = dict(User.objects.filter(id__in=people).values_list("id", "email")) if people else {}
    contracts = {event.object_id for event in events if event.object_type == "contract"}
    if contracts:
        rows = Contract.objects.for_platform().filter(id__in=contracts)
        names |= dict(rows.values_list("id", "deployment__name"))
    for event in events:
        event.object_name = names.get(event.object_id, "")
