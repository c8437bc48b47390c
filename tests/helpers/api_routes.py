"""What the matrix of rights must know of each route of ``/api/v1``: whose objects it serves, and how one is made.

A resource that is new is named here once; its detail routes and actions are then tried by every role.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from berth.alerts.models import Alert, Route
from berth.api.urls import urlpatterns
from berth.audit.services import record
from berth.core.ids import new_id
from berth.decisions.models import Decision
from berth.deployments.services import create_replica
from berth.fleet.models import Seat
from berth.fleet.seats import reserve_seat
from berth.metering.models import UsageRecord
from berth.plans.models import Plan
from berth.slas.models import Contract
from berth.slas.services import create_class
from berth.tenants.models import Membership, Tenant
from berth.tenants.services import create_key, invite
from helpers.factories import make_deployment, make_gpu, make_model, make_node, unique

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Resource:
    """``of``: "tenant" (another's is 404), "platform" (all read, operators write) or "operator" (403 to others).

    ``make(tenant)`` answers an id. ``create(tenant)`` is a body that names the tenant, where one can.
    """

    of: str
    make: Callable[[Tenant], str]
    create: Callable[[Tenant], dict[str, Any]] | None = None


def _usage(tenant: Tenant) -> str:
    values = {"tenant_id": tenant.id, "arrived_at": timezone.now(), "outcome": "completed", "counted_by": "door"}
    return str(UsageRecord.objects.create(request_id=new_id("req"), **values).request_id)


def _seat(tenant: Tenant) -> Seat:
    replica = create_replica(deployment=make_deployment(tenant=tenant), reason="")
    return reserve_seat(replica=replica, gpu=make_gpu(), memory_bytes=1)


def _alert(tenant: Tenant) -> str:
    now = timezone.now()
    values = {"rule": "crash_loop", "severity": "warning", "state": "firing", "subject": unique("subject")}
    return str(Alert.objects.create(tenant=tenant, since=now, seen_at=now, fired_at=now, **values).id)


def _decision(tenant: Tenant) -> str:
    now = timezone.now()
    return str(Decision.objects.create(tenant_id=tenant.id, kind="place", at=now, last_at=now).id)


def _plan(_: Tenant) -> str:
    now = timezone.now()
    figures = {"gpus": 1, "gpus_in_use": 1, "stranded_units": 0, "fragmentation": 0.0, "goodput": 1.0}
    values = {"state": "idle", "kind": "nothing", "why": unique("why"), "before": figures, "after": figures}
    plan = Plan.objects.create(at=now, last_at=now, objective=1.0, bound=1.0, gap=0.0, seconds=0.1, **values)
    return str(plan.id)


def _member(tenant: Tenant) -> str:
    return str(Membership.objects.for_tenant(tenant.id).order_by("id").values_list("id", flat=True)[0])


def _contract(tenant: Tenant) -> str:
    return str(Contract.objects.for_tenant(tenant.id).get(deployment=make_deployment(tenant=tenant)).id)


RESOURCES: dict[str, Resource] = {
    "tenants": Resource("tenant", lambda t: t.id),
    "members": Resource("tenant", _member, lambda t: {"tenant": t.id, "email": "x@example.com", "role": "viewer"}),
    "keys": Resource(
        "tenant",
        lambda t: create_key(tenant=t, name="k", actor="test")[0].id,
        lambda t: {"tenant": t.id, "name": "theirs"},
    ),
    "contracts": Resource("tenant", _contract),
    "deployments": Resource(
        "tenant",
        lambda t: make_deployment(tenant=t).id,
        lambda t: {"tenant": t.id, "name": "theirs", "model": make_model().id, "service_class": "chat"},
    ),
    "replicas": Resource("tenant", lambda t: _seat(t).replica_id),
    "decisions": Resource("tenant", _decision),
    "usage": Resource("tenant", _usage),
    "requests": Resource("tenant", _usage),
    "invitations": Resource(
        "tenant",
        lambda t: invite(tenant=t, email="x@example.com", role="viewer", actor="test", by="owner")[0].id,
        lambda t: {"tenant": t.id, "email": "y@example.com", "role": "viewer"},
    ),
    "audit": Resource("tenant", lambda t: str(record(actor="test", action="test", tenant_id=t.id).id)),
    "alerts": Resource("tenant", _alert),
    "alerts/routes": Resource(
        "tenant",
        lambda t: str(Route.objects.create(tenant=t, kind="mail", target="x@example.com").id),
        lambda t: {"tenant": t.id, "kind": "mail", "target": "x@example.com"},
    ),
    "models": Resource(
        "tenant",
        lambda t: make_model(tenant=t).id,
        lambda t: {"tenant": t.id, "name": "theirs", "source_kind": "hub", "source": "hub:someone/model"},
    ),
    "classes": Resource("platform", lambda _: create_class(name=unique("class"), actor="test").id),
    "nodes": Resource("operator", lambda _: make_node().id),
    "gpus": Resource("operator", lambda t: _seat(t).slice.gpu_id),
    "slices": Resource("operator", lambda t: _seat(t).slice_id),
    "plans": Resource("operator", _plan),
    "settings": Resource("operator", lambda _: "currency"),
}

# Routes without an object: "tenant" reads ?tenant=, "body" names a tenant, "session" needs one, "operator" an
# operator's, "open" needs none.
SINGLE: dict[str, str] = {
    "session": "open",
    "schema": "open",
    "settings/public": "open",
    "invitations/look": "open",
    "invitations/accept": "open",
    "me": "session",
    "me/password": "session",
    "me/sessions": "session",
    "me/sessions/{id}": "session",
    "me/mfa": "session",
    "me/mfa/confirm": "session",
    "me/mfa/recovery-codes": "session",
    "fleet/map": "operator",
    "goodput": "tenant",
    "budgets": "tenant",
    "slas/attainment": "tenant",
    "slas/violations": "tenant",
    "search": "tenant",
    "usage/summary": "tenant",
    "usage/export.csv": "tenant",
    "usage/chargeback": "tenant",
    "usage/chargeback.csv": "tenant",
    "usage/reconciliation": "operator",
    "keys/playground": "body",
}
QUERIES = {"search": "q=tenant", "budgets": "kind=key"}


@dataclass(frozen=True)
class Case:
    """One route and method. ``template``: ``keys/{id}/revoke``; ``resource``: the key in ``RESOURCES``, or none."""

    template: str
    method: str
    action: str
    resource: str

    @property
    def is_detail(self) -> bool:
        return "{id}" in self.template

    def __str__(self) -> str:
        return f"{self.method} {self.template}"


def resource_of(template: str) -> str:
    """The key in ``RESOURCES`` whose objects the route serves, or nothing."""
    known = [name for name in RESOURCES if template == name or template.startswith(f"{name}/")]
    return "" if template in SINGLE else max(known, key=len, default="")


def cases() -> Iterator[Case]:
    """Every route that the URL conf has, with each of its methods."""
    for pattern in urlpatterns:
        view = getattr(pattern.callback, "cls", None)
        if view is None:
            continue  # the last one, which answers 404
        template = re.sub(r"\(\?P<\w+>.*?\)(?=/|$)|<\w+:\w+>", "{id}", str(pattern.pattern).strip("^$"))
        actions = getattr(pattern.callback, "actions", None) or {m: m for m in METHODS if hasattr(view, m)}
        for method, action in actions.items():
            yield Case(template, method, action, resource_of(template))
