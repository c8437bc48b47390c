"""Reads of the audit trail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from berth.audit.models import AuditEvent
from berth.core.scoping import Scope, ScopedQuerySet
from berth.deployments.models import Deployment, Replica
from berth.fleet.models import Node
from berth.slas.models import Contract
from berth.tenants.models import User

_NAMED: dict[str, tuple[Callable[[], Any], str]] = {
    "user": (User.objects.all, "email"),
    "contract": (Contract.objects.for_platform, "deployment__name"),
    "deployment": (Deployment.objects.for_platform, "name"),
    "replica": (Replica.objects.for_platform, "deployment__name"),
    "node": (Node.objects.all, "name"),
}
"""Of each kind of object the field that people know it by."""


def events(scope: Scope) -> ScopedQuerySet:
    """Of a tenant; of everything, the platform's own included, for an operator."""
    return scope.of(AuditEvent.objects)


def annotate_names(events: Sequence[Any]) -> None:
    """Gives each event ``object_name``: whom it is about, of a contract and a replica its deployment, not an id.

    At most one query; empty where the object is gone.
    """
    wanted: dict[str, set[str]] = {}
    for event in events:
        wanted.setdefault(event.object_type, set()).add(event.object_id)
    parts = [
        _NAMED[kind][0]().filter(id__in=ids).order_by().values_list("id", _NAMED[kind][1])
        for kind, ids in sorted(wanted.items())
        if kind in _NAMED
    ]
    names = dict(parts[0].union(*parts[1:], all=True)) if parts else {}
    for event in events:
        event.object_name = names.get(event.object_id, "")
