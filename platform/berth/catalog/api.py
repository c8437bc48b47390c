"""REST: models, their registration, and whether a deployment of one would fit."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import IsOperator, TenantFilter, TenantViewSet, person, pick, require_role
from berth.catalog import selectors, services
from berth.catalog.models import Model
from berth.catalog.serializers import FitSettingsSerializer, ModelCreateSerializer, ModelSerializer
from berth.core.errors import Forbidden
from berth.deployments.fit import fit_of
from berth.deployments.serializers import FitSerializer
from berth.slas.selectors import classes
from berth.tenants.models import PLATFORM_TENANT, Role
from berth.tenants.selectors import scope_of

CHANGES = ("destroy", "cancel", "retry")


class MayRegister(IsOperator):
    """The platform's models are the operators'; a tenant's own its admins'."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return True

    def has_object_permission(self, request: Request, view: Any, obj: Any) -> bool:
        if view.action not in CHANGES:
            return True
        if obj.tenant_id is None:
            return super().has_permission(request, view)
        require_role(person(request), obj.tenant_id, Role.ADMIN)
        return True


class ModelFilter(TenantFilter):
    state = django_filters.CharFilter()
    name = django_filters.CharFilter()
    source_kind = django_filters.CharFilter()
    architecture = django_filters.CharFilter()
    tenant = django_filters.CharFilter(method="_already_scoped", help_text="what this tenant can use; another's is 404")


class ModelView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Model]):
    """The platform's models, which everyone may deploy, and a tenant's own."""

    queryset = Model.objects.none()
    serializer_class = ModelSerializer
    search_fields = ("name", "architecture", "source", "id")
    ordering_fields = ("name", "state", "parameters", "weights_bytes", "context_length", "size_bytes", "created_at")
    filterset_class = ModelFilter
    permission_classes = [IsAuthenticated, MayRegister]

    def get_queryset(self) -> Any:
        return selectors.models(self.scope)

    @extend_schema(request=ModelCreateSerializer, responses={201: ModelSerializer})
    def create(self, request: Request) -> Response:
        """Answers at once with a model in state registering; ``phase`` and bytes, then ``state`` and ``reason`` follow.

        Operators register for everyone; a tenant's admins for the tenant, from the hub.
        """
        user = person(request)
        if not user.is_operator and request.data and isinstance(request.data, dict) and not request.data.get("tenant"):
            raise Forbidden("Only an operator registers for everyone; name your tenant to register for it")
        values = self.valid(ModelCreateSerializer)
        tenant_id = values.pop("tenant", None)
        tenant = None if tenant_id is None else self.tenant_for(tenant_id, Role.ADMIN)
        model = services.register_model(**values, tenant=tenant, actor=self.actor)
        return Response(ModelSerializer(model).data, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        services.delete_model(model=self.get_object(), actor=self.actor)
        return Response(status=204)

    @extend_schema(operation_id="models_cancel", request=None, responses=ModelSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def cancel(self, request: Request, id: str) -> Response:
        """It stops within a second; what was downloaded or written is removed."""
        return Response(ModelSerializer(services.cancel_model(model=self.get_object(), actor=self.actor)).data)

    @extend_schema(operation_id="models_retry", request=None, responses=ModelSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def retry(self, request: Request, id: str) -> Response:
        """Of one that failed or was cancelled. A download that broke off goes on where it was."""
        return Response(ModelSerializer(services.retry_model(model=self.get_object(), actor=self.actor)).data)

    @extend_schema(operation_id="models_fit", request=FitSettingsSerializer, responses=FitSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def fit(self, request: Request, id: str) -> Response:
        """What replicas of this model would take, where they would fit now and with how much goodput, or why not."""
        model = self.get_object()
        values = self.valid(FitSettingsSerializer)
        tenant_id = values.pop("tenant", None)
        owner = PLATFORM_TENANT if tenant_id is None else self.tenant_for(tenant_id, Role.VIEWER).id
        if values.get("service_class"):
            values["service_class"] = pick(classes(), values["service_class"], "service_class")
        seen = scope_of(person(request)).tenant_ids
        found = fit_of(model, **values, owner=owner, seen=None if seen is None else frozenset(seen))
        return Response(FitSerializer(found).data)
