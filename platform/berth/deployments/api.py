"""REST: deployments, what to do with them, and their replicas."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import django_filters
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from berth.api.views import ID, OperatorWrites, RoleAllows, TenantFilter, TenantViewSet, person, pick
from berth.catalog.selectors import models
from berth.core.errors import Forbidden, Invalid, NotFound
from berth.deployments import selectors, services
from berth.deployments.events import events_of
from berth.deployments.models import Deployment, Replica
from berth.deployments.platform import platform_tenant
from berth.deployments.serializers import (
    ClassChangeSerializer,
    CloneSerializer,
    DeploymentChangeSerializer,
    DeploymentCreateSerializer,
    DeploymentSerializer,
    EventPageSerializer,
    EventSerializer,
    LogSerializer,
    ReplicaSerializer,
    ScaleSerializer,
)
from berth.slas.selectors import classes
from berth.tenants.models import PLATFORM_TENANT, Role, Tenant
from berth.tenants.selectors import scope_of

CURSOR = OpenApiParameter("cursor", str, description="of the page's ``next``")

WRITES = ("partial_update", "destroy", "start", "stop", "scale", "clone", "service_class")
EVENTS = 50


class MayChange(RoleAllows):
    """What was granted by contract may be seen; only its owner changes it."""

    def has_object_permission(self, request: Request, view: Any, obj: Any) -> bool:
        if obj.tenant_id in (view.scope.tenant_ids or (obj.tenant_id,)):
            return super().has_object_permission(request, view, obj)
        if view.action in view.roles or view.action == "events":
            raise Forbidden("It was granted to you by contract; only its owner may do this")
        return True


class DeploymentFilter(TenantFilter):
    name = django_filters.CharFilter()
    model = django_filters.CharFilter(field_name="model_id")
    desired_state = django_filters.CharFilter()


class DeploymentView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Deployment]):
    """Admins change, everyone in the tenant reads; what was granted by contract is read, too."""

    queryset = Deployment.objects.none()
    serializer_class = DeploymentSerializer
    search_fields = ("name", "id", "model__name", "tenant__name")
    ordering_fields = {
        "name": "name", "model": "model__name", "service_class": "service_class__name", "tenant": "tenant__name",
        "replica_count": "replica_count", "created_at": "created_at", "updated_at": "updated_at",
    }  # fmt: skip
    filterset_class = DeploymentFilter
    roles = dict.fromkeys(WRITES, Role.ADMIN)
    permission_classes = [IsAuthenticated, OperatorWrites, MayChange]

    def get_queryset(self) -> Any:
        return selectors.deployments(self.scope)

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        selectors.summarize(page or [])
        selectors.annotate_access(page or [], self.scope)
        return page

    def retrieve(self, request: Request, id: str) -> Response:
        return self._shown(self.get_object(), 200)

    @extend_schema(request=DeploymentCreateSerializer, responses={201: DeploymentSerializer})
    def create(self, request: Request) -> Response:
        values = self.valid(DeploymentCreateSerializer)
        tenant = self._owner(values.pop("tenant", None))
        values = self._picked(values)
        return self._answer(services.create_deployment(tenant=tenant, actor=self.actor, **values), 201)

    @extend_schema(request=DeploymentChangeSerializer, responses=DeploymentSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        deployment = self.get_object()
        values = self._picked(self.valid(DeploymentChangeSerializer, partial=True))
        return self._answer(services.change_deployment(deployment=deployment, actor=self.actor, **values))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        services.delete_deployment(deployment=self.get_object(), actor=self.actor)
        return Response(status=204)

    @extend_schema(operation_id="deployments_start", request=None, responses=DeploymentSerializer)
    @action(detail=True, methods=["post"])
    def start(self, request: Request, id: str) -> Response:
        return self._answer(services.start_deployment(deployment=self.get_object(), actor=self.actor))

    @extend_schema(operation_id="deployments_stop", request=None, responses=DeploymentSerializer)
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, id: str) -> Response:
        """Replicas finish what they run, then end."""
        return self._answer(services.stop_deployment(deployment=self.get_object(), actor=self.actor))

    @extend_schema(operation_id="deployments_scale", request=ScaleSerializer, responses=DeploymentSerializer)
    @action(detail=True, methods=["post"])
    def scale(self, request: Request, id: str) -> Response:
        deployment = self.get_object()
        replicas = self.valid(ScaleSerializer)["replicas"]
        return self._answer(services.scale_deployment(deployment=deployment, replicas=replicas, actor=self.actor))

    @extend_schema(operation_id="deployments_clone", request=CloneSerializer, responses={201: DeploymentSerializer})
    @action(detail=True, methods=["post"])
    def clone(self, request: Request, id: str) -> Response:
        deployment = self.get_object()
        name = self.valid(CloneSerializer)["name"]
        return self._answer(services.clone_deployment(deployment=deployment, name=name, actor=self.actor), 201)

    @extend_schema(operation_id="deployments_class", request=ClassChangeSerializer, responses=DeploymentSerializer)
    @action(detail=True, methods=["post"], url_path="class")
    def service_class(self, request: Request, id: str) -> Response:
        """Another service level from now on: no replica restarts."""
        deployment = self.get_object()
        wanted = pick(classes(), self.valid(ClassChangeSerializer)["service_class"], "service_class")
        return self._answer(services.change_class(deployment=deployment, service_class=wanted, actor=self.actor))

    @extend_schema(operation_id="deployments_events", parameters=[CURSOR], responses=EventPageSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filterset_class=None, filter_backends=[])
    def events(self, request: Request, id: str) -> Response:
        """Changes, replicas' readiness, restarts and ends with their reasons, and decisions; newest first."""
        before = _event_cursor(request.query_params.get("cursor", ""))
        found = events_of(self.get_object(), before=before, limit=EVENTS + 1)
        more = None
        if len(found) > EVENTS:
            found = found[:EVENTS]
            cursor = f"{found[-1].at.timestamp():.6f}~{found[-1].id}"
            more = replace_query_param(request.build_absolute_uri(), "cursor", cursor)
        return Response({"next": more, "results": EventSerializer(found, many=True).data})

    def _owner(self, tenant_id: str | None) -> Tenant:
        if tenant_id is not None and tenant_id != PLATFORM_TENANT:
            return self.tenant_for(tenant_id, Role.ADMIN)
        if not person(self.request).is_operator:
            if tenant_id is None:
                raise Invalid("This field is required.", field="tenant")
            raise NotFound("No such tenant", field="tenant")
        return platform_tenant()

    def _picked(self, values: dict[str, Any]) -> dict[str, Any]:
        if "model" in values:
            values["model"] = pick(models(scope_of(person(self.request))), values["model"], "model")
        if "service_class" in values:
            values["service_class"] = pick(classes(), values["service_class"], "service_class")
        return values

    def _answer(self, changed: Deployment, status: int = 200) -> Response:
        return self._shown(self.get_queryset().get(id=changed.id), status)

    def _shown(self, deployment: Deployment, status: int) -> Response:
        selectors.summarize([deployment])
        selectors.annotate_access([deployment], self.scope)
        return Response(DeploymentSerializer(deployment).data, status=status)


def _event_cursor(text: str) -> tuple[datetime, str] | None:
    """Where the page before ended. Raises ``NotFound`` for what is no cursor of ours."""
    if not text:
        return None
    at, _, last = text.partition("~")
    try:
        if not re.fullmatch(r"\d{1,12}\.\d{6}", at, re.ASCII) or not re.fullmatch(ID, last):
            raise ValueError(at)
        return datetime.fromtimestamp(float(at), UTC), last
    except (ValueError, OverflowError, OSError) as error:
        raise NotFound("No such page", field="cursor") from error


class ReplicaFilter(TenantFilter):
    deployment = django_filters.CharFilter(field_name="deployment_id")
    node = django_filters.CharFilter(field_name="node_id")
    ended = django_filters.BooleanFilter(field_name="ended_at", lookup_expr="isnull", exclude=True)


class ReplicaView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Replica]):
    """What runs and what did. The scheduler alone makes and ends replicas."""

    queryset = Replica.objects.none()
    serializer_class = ReplicaSerializer
    search_fields = ("id", "deployment__name", "node__name", "reason")
    ordering_fields = {
        "deployment": "deployment__name", "node": "node__name", "state": "state", "created_at": "created_at",
        "ready_at": "ready_at", "ended_at": "ended_at", "restarts": "restarts",
    }  # fmt: skip
    filterset_class = ReplicaFilter

    def get_queryset(self) -> Any:
        return selectors.replicas(self.scope)

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        selectors.annotate_live(page or [])
        return page

    def retrieve(self, request: Request, id: str) -> Response:
        replica = self.get_object()
        selectors.annotate_live([replica])
        return Response(ReplicaSerializer(replica).data)

    @extend_schema(operation_id="replicas_logs", responses=LogSerializer)
    @action(detail=True, methods=["get"], pagination_class=None, filterset_class=None)
    def logs(self, request: Request, id: str) -> Response:
        """The last 200 lines, oldest first."""
        lines = selectors.log_lines(self.get_object())
        return Response({"lines": lines or [], "stale": lines is None})
