"""REST: deployments, what to do with them, and their replicas."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import TenantFilter, TenantViewSet, pick
from berth.catalog.selectors import models
from berth.deployments import selectors, services
from berth.deployments.models import Deployment, Replica
from berth.deployments.serializers import (
    CloneSerializer,
    DeploymentChangeSerializer,
    DeploymentCreateSerializer,
    DeploymentSerializer,
    LogSerializer,
    ReplicaSerializer,
    ScaleSerializer,
)
from berth.slas.selectors import classes
from berth.tenants.models import Role

WRITES = ("partial_update", "destroy", "start", "stop", "scale", "clone")


class DeploymentFilter(TenantFilter):
    name = django_filters.CharFilter()
    model = django_filters.CharFilter(field_name="model_id")
    desired_state = django_filters.CharFilter()


class DeploymentView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Deployment]):
    """Admins change, everyone in the tenant reads."""

    queryset = Deployment.objects.none()
    serializer_class = DeploymentSerializer
    search_fields = ("name", "id", "model__name", "tenant__name")
    ordering_fields = {
        "name": "name", "model": "model__name", "service_class": "service_class__name", "tenant": "tenant__name",
        "replica_count": "replica_count", "created_at": "created_at", "updated_at": "updated_at",
    }  # fmt: skip
    filterset_class = DeploymentFilter
    roles = dict.fromkeys(WRITES, Role.ADMIN)

    def get_queryset(self) -> Any:
        return selectors.deployments(self.scope)

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        selectors.summarize(page or [])
        return page

    def retrieve(self, request: Request, id: str) -> Response:
        deployment = self.get_object()
        selectors.summarize([deployment])
        return Response(DeploymentSerializer(deployment).data)

    @extend_schema(request=DeploymentCreateSerializer, responses={201: DeploymentSerializer})
    def create(self, request: Request) -> Response:
        values = self._picked(self.valid(DeploymentCreateSerializer))
        tenant = self.tenant_for(values.pop("tenant"), Role.ADMIN)
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

    def _picked(self, values: dict[str, Any]) -> dict[str, Any]:
        if "model" in values:
            values["model"] = pick(models(), values["model"], "model")
        if "service_class" in values:
            values["service_class"] = pick(classes(), values["service_class"], "service_class")
        return values

    def _answer(self, changed: Deployment, status: int = 200) -> Response:
        deployment = self.get_queryset().get(id=changed.id)
        selectors.summarize([deployment])
        return Response(DeploymentSerializer(deployment).data, status=status)


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
