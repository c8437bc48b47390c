"""REST: one search over what the person may see, for the console's palette."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.authentication import ManagementKey, Session
from berth.api.query import KnownQuery
from berth.api.views import person
from berth.catalog.selectors import models
from berth.core.scoping import Scope
from berth.deployments.models import Deployment
from berth.fleet.models import Node
from berth.metering.models import UsageRecord
from berth.tenants.models import Tenant, User
from berth.tenants.selectors import keys, members, scope_of, tenants_of
from berth.tenants.serializers import TenantRefSerializer

KINDS = ("deployment", "tenant", "key", "model", "node", "member", "request")
OF_A_KIND = 5


class SearchQuery(serializers.Serializer[Any]):
    q = serializers.CharField(max_length=200)
    tenant = serializers.CharField(required=False, max_length=32)


class FoundSerializer(serializers.Serializer[Any]):
    """``url``: the console's page, below ``/t/SCOPE``. ``tenant`` is null for what is the platform's."""

    kind = serializers.ChoiceField(choices=KINDS)
    id = serializers.CharField()
    name = serializers.CharField()
    tenant = TenantRefSerializer(allow_null=True)
    url = serializers.CharField()


@dataclass(frozen=True, slots=True)
class _Kind:
    """``rows(person, scope)`` with the tenant joined; ``fields`` are looked into; the rest is made of a row."""

    name: str
    rows: Callable[[User, Scope], Any]
    fields: tuple[str, ...]
    title: Callable[[Any], str]
    url: Callable[[Any], str]
    tenant: Callable[[Any], Tenant | None] = lambda row: row.tenant


def _operators(rows: Any) -> Callable[[User, Scope], Any]:
    return lambda user, _: rows.all() if user.is_operator else rows.none()


_ALL = (
    _Kind(
        "deployment", lambda _, scope: scope.of(Deployment.objects).select_related("tenant"), ("name",),
        lambda row: row.name, lambda row: f"/deployments/{row.id}",
    ),
    _Kind(
        "tenant", lambda user, scope: _within(tenants_of(user), scope), ("name", "slug"),
        lambda row: row.name, lambda row: "/overview", lambda row: row,
    ),
    _Kind(
        "key", lambda _, scope: keys(scope).select_related("tenant"), ("name",),
        lambda row: row.name, lambda row: f"/keys?q={row.id}",
    ),
    _Kind(
        "model", lambda _, scope: models(scope), ("name", "architecture"),
        lambda row: row.name, lambda row: f"/models/{row.id}",
    ),
    _Kind(
        "node", _operators(Node.objects), ("name", "address"),
        lambda row: row.name, lambda row: f"/fleet/{row.id}", lambda _: None,
    ),
    _Kind(
        "member", lambda _, scope: members(scope).select_related("tenant"), ("user__email", "user__name"),
        lambda row: row.user.email, lambda row: f"/members?q={row.user.email}",
    ),
)  # fmt: skip


class SearchView(KnownQuery):
    """Deployments, tenants, keys, models, nodes and members by a part of their name or by id; requests by id."""

    authentication_classes = [ManagementKey, Session]

    @extend_schema(
        operation_id="search",
        parameters=[OpenApiParameter("q", required=True), OpenApiParameter("tenant")],
        responses=FoundSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """At most five of a kind, the best first: names that begin with the words before others."""
        query = SearchQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        text, user = query.validated_data["q"], person(request)
        scope = scope_of(user, query.validated_data.get("tenant"))
        return Response(FoundSerializer([*_named(text, user, scope), *_request(text, scope)], many=True).data)


def _named(text: str, user: User, scope: Scope) -> Iterator[dict[str, Any]]:
    for kind in _ALL:
        wanted = Q(id=text)
        for field in kind.fields:
            wanted |= Q(**{f"{field}__icontains": text})
        begins = Q(**{f"{kind.fields[0]}__istartswith": text})
        rows = kind.rows(user, scope).filter(wanted).annotate(begins=begins).order_by("-begins", kind.fields[0], "id")
        for row in rows[:OF_A_KIND]:
            found = {"kind": kind.name, "id": row.id, "name": kind.title(row), "url": kind.url(row)}
            yield {**found, "tenant": kind.tenant(row)}


def _request(text: str, scope: Scope) -> Iterator[dict[str, Any]]:
    row = scope.of(UsageRecord.objects).filter(request_id=text).first()
    if row is not None:
        tenant = Tenant.objects.filter(id=row.tenant_id).first()
        name, url = row.deployment_name or row.request_id, f"/requests/{row.request_id}"
        yield {"kind": "request", "id": row.request_id, "name": name, "tenant": tenant, "url": url}


def _within(rows: Any, scope: Scope) -> Any:
    return rows if scope.tenant_ids is None else rows.filter(id__in=scope.tenant_ids)
