"""REST: tenants, members and keys. Sign-in is in ``tenants.session_api``."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import BerthViewSet, TenantFilter, TenantViewSet, person, require_role
from berth.core.errors import Forbidden
from berth.tenants import selectors, services
from berth.tenants.models import ApiKey, Membership, Role, Tenant
from berth.tenants.serializers import (
    CreatedKeySerializer,
    KeyCreateSerializer,
    KeySerializer,
    MemberSerializer,
    PlaygroundSerializer,
    PlaygroundTokenSerializer,
    TenantChangeSerializer,
    TenantCreateSerializer,
    TenantSerializer,
)

OPERATORS_FIELDS = {"weight", "suspended"}


class TenantView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[Tenant]):
    """An operator sees every tenant, everyone else their own."""

    queryset = Tenant.objects.none()
    serializer_class = TenantSerializer
    search_fields = ("name", "slug", "id")
    ordering_fields = ("name", "slug", "weight", "created_at")
    operator_actions = frozenset({"create"})

    def get_queryset(self) -> Any:
        return self.queryset if self.fake else selectors.tenants_of(person(self.request))

    @extend_schema(request=TenantCreateSerializer, responses={201: TenantSerializer})
    def create(self, request: Request) -> Response:
        tenant = services.create_tenant(**self.valid(TenantCreateSerializer), actor=self.actor)
        return Response(TenantSerializer(tenant).data, status=201)

    @extend_schema(request=TenantChangeSerializer, responses=TenantSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        """Admins rename; weight and suspension are the operator's."""
        tenant = self.get_object()
        values = self.valid(TenantChangeSerializer, partial=True)
        require_role(person(request), tenant.id, Role.ADMIN)
        if OPERATORS_FIELDS & set(values) and not person(request).is_operator:
            raise Forbidden("Only an operator changes weight or suspends a tenant")
        tenant = services.change_tenant(tenant=tenant, actor=self.actor, **values)
        return Response(TenantSerializer(tenant).data)


class MemberView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Membership]):
    queryset = Membership.objects.none()
    serializer_class = MemberSerializer
    search_fields = ("user__email", "user__name")
    ordering_fields = {"email": "user__email", "name": "user__name", "role": "role", "created_at": "created_at"}
    filterset_class = TenantFilter

    def get_queryset(self) -> Any:
        return selectors.members(self.scope)


class KeyFilter(TenantFilter):
    revoked = django_filters.BooleanFilter(field_name="revoked_at", lookup_expr="isnull", exclude=True)


class KeyView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[ApiKey]):
    """Keys of ``/v1``. Developers make keys and end their own; admins end any."""

    queryset = ApiKey.objects.none()
    serializer_class = KeySerializer
    search_fields = ("name", "id", "hint", "created_by__email")
    ordering_fields = ("name", "created_at", "expires_at", "last_used_at")
    filterset_class = KeyFilter
    roles = {"revoke": Role.DEVELOPER, "destroy": Role.DEVELOPER}

    def get_queryset(self) -> Any:
        return selectors.keys(self.scope)

    @extend_schema(request=KeyCreateSerializer, responses={201: CreatedKeySerializer})
    def create(self, request: Request) -> Response:
        values = self.valid(KeyCreateSerializer)
        tenant = self.tenant_for(values.pop("tenant"), Role.DEVELOPER)
        user = person(request)
        key, token = services.create_key(tenant=tenant, actor=user.email, created_by=user, **values)
        return Response({"key": KeySerializer(key).data, "token": token}, status=201)

    @extend_schema(operation_id="keys_revoke", request=None, responses=KeySerializer)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, id: str) -> Response:
        key = self._own_or_admin()
        return Response(KeySerializer(services.revoke_key(key=key, actor=self.actor)).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        services.delete_key(key=self._own_or_admin(), actor=self.actor)
        return Response(status=204)

    @extend_schema(
        operation_id="keys_playground", request=PlaygroundSerializer, responses={201: PlaygroundTokenSerializer}
    )
    @action(detail=False, methods=["post"])
    def playground(self, request: Request) -> Response:
        """A token of ten minutes for the console's own chat."""
        tenant = self.tenant_for(self.valid(PlaygroundSerializer)["tenant"], Role.DEVELOPER)
        user = person(request)
        key, token = services.create_key(
            tenant=tenant, name="playground", actor=user.email, created_by=user, playground=True
        )
        return Response({"token": token, "expires_at": key.expires_at}, status=201)

    def _own_or_admin(self) -> ApiKey:
        key = self.get_object()
        user = person(self.request)
        if key.created_by_id != user.id:
            require_role(user, key.tenant_id, Role.ADMIN)
        return key
