"""REST: alerts, and the routes by which people hear of them. Everyone reads their tenant's; admins set routes."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from berth.alerts import messages, selectors, services
from berth.alerts.models import Alert, Kind, Route, Rule, Severity
from berth.alerts.serializers import (
    AlertSerializer,
    CreatedRouteSerializer,
    RouteChangeSerializer,
    RouteCreateSerializer,
    RouteSerializer,
    RouteTestSerializer,
)
from berth.api.views import TenantFilter, TenantViewSet, person
from berth.core.errors import Forbidden
from berth.tenants.models import Role


class AlertFilter(TenantFilter):
    state = django_filters.ChoiceFilter(choices=[("firing", "firing"), ("resolved", "resolved")])
    rule = django_filters.ChoiceFilter(choices=Rule.choices)
    severity = django_filters.ChoiceFilter(choices=Severity.choices)
    subject = django_filters.CharFilter(field_name="subject_id", help_text="the id of a deployment, tenant or node")


class AlertView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Alert]):
    """What is wrong now and what was. The platform's own alerts (tenant null) are the operators'."""

    queryset = Alert.objects.none()
    serializer_class = AlertSerializer
    search_fields = ("subject_name", "summary", "rule", "id")
    ordering_fields = ("since", "fired_at", "resolved_at", "severity", "state", "rule")
    filterset_class = AlertFilter

    def get_queryset(self) -> Any:
        return selectors.alerts(self.scope)


class RouteFilter(TenantFilter):
    kind = django_filters.ChoiceFilter(choices=Kind.choices)


class RouteView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Route]):
    """Webhooks and mail addresses. A webhook's URL may be a password, so reading one needs the role that sets it."""

    queryset = Route.objects.none()
    serializer_class = RouteSerializer
    search_fields = ("name", "target")
    ordering_fields = ("name", "kind", "created_at", "updated_at")
    filterset_class = RouteFilter
    readers = Role.ADMIN
    roles = {"partial_update": Role.ADMIN, "destroy": Role.ADMIN, "test": Role.ADMIN}

    def get_queryset(self) -> Any:
        return selectors.routes(self.scope)

    @extend_schema(request=RouteCreateSerializer, responses={201: CreatedRouteSerializer})
    def create(self, request: Request) -> Response:
        values = self.valid(RouteCreateSerializer)
        tenant_id = values.pop("tenant")
        if tenant_id is None and not person(request).is_operator:
            raise Forbidden("Only an operator sets routes for the platform; name your tenant")
        tenant = None if tenant_id is None else self.tenant_for(tenant_id, Role.ADMIN)
        route = services.create_route(tenant=tenant, actor=self.actor, **values)
        secret = messages.signing_secret(route.id) if route.kind == Kind.WEBHOOK else None
        return Response({"route": RouteSerializer(route).data, "secret": secret}, status=201)

    @extend_schema(request=RouteChangeSerializer, responses=RouteSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        route = self.get_object()
        services.change_route(route=route, actor=self.actor, **self.valid(RouteChangeSerializer, partial=True))
        return Response(RouteSerializer(self.get_object()).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        services.delete_route(route=self.get_object(), actor=self.actor)
        return Response(status=204)

    @extend_schema(operation_id="alerts_routes_test", request=None, responses={202: RouteTestSerializer})
    @action(detail=True, methods=["post"])
    def test(self, request: Request, id: str) -> Response:
        """Sends a message that says it is a test."""
        delivery = services.test_route(route=self.get_object(), actor=self.actor)
        return Response({"delivery": delivery.id}, status=202)
