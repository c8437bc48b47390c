"""REST: tenants, members and keys. Invitations are in ``invitation_api``, signing in and one's own account in
``session_api`` and ``me_api``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.concurrency import tag_of
from berth.api.views import BerthViewSet, TenantFilter, TenantViewSet, person, require_role
from berth.core.errors import Forbidden, Invalid
from berth.deployments.quota import reserved_bytes
from berth.tenants import selectors, services
from berth.tenants.limits import LIMITS
from berth.tenants.models import PLATFORM_TENANT, ApiKey, KeyScope, Membership, Role, Tenant, User
from berth.tenants.serializers import (
    CreatedKeySerializer,
    KeyChangeSerializer,
    KeyCreateSerializer,
    KeyRotateSerializer,
    KeySerializer,
    MemberChangeSerializer,
    MemberCreateSerializer,
    MemberSerializer,
    PlaygroundSerializer,
    PlaygroundTokenSerializer,
    QuotaChangeSerializer,
    QuotaSerializer,
    TenantChangeSerializer,
    TenantCreateSerializer,
    TenantSerializer,
)

OPERATORS_FIELDS = {"weight", "suspended", *LIMITS}


class MemberFilter(TenantFilter):
    role = django_filters.MultipleChoiceFilter(choices=Role.choices)


class TenantView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[Tenant]):
    """An operator sees every tenant, everyone else their own."""

    queryset = Tenant.objects.none()
    serializer_class = TenantSerializer
    search_fields = ("name", "slug", "id")
    ordering_fields = ("name", "slug", "weight", "created_at")
    operator_actions = frozenset({"create", "set_quota", "lift_quota"})

    def get_queryset(self) -> Any:
        if self.fake:
            return self.queryset
        customers = selectors.tenants_of(person(self.request)).exclude(id=PLATFORM_TENANT)
        return customers.select_related("quota")

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        """With what each tenant's deployments reserve, read at once for all."""
        rows = args[0] if args else []
        rows = rows if isinstance(rows, list) else [rows]
        context = {**self.get_serializer_context(), "reserved": reserved_bytes([row.id for row in rows])}
        return TenantSerializer(*args, **{**kwargs, "context": context})

    def etag_of(self, row: Any) -> str:
        return tag_of(row, *_limits(row))

    @extend_schema(request=TenantCreateSerializer, responses={201: TenantSerializer})
    def create(self, request: Request) -> Response:
        tenant = services.create_tenant(**self.valid(TenantCreateSerializer), actor=self.actor)
        return Response(self.get_serializer(tenant).data, status=201)

    @extend_schema(request=TenantChangeSerializer, responses=TenantSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        """Admins rename and choose what passes uncounted; weight, limits and suspension are the operator's."""
        tenant = self.get_object()
        values = self.valid(TenantChangeSerializer, partial=True)
        require_role(person(request), tenant.id, Role.ADMIN)
        if OPERATORS_FIELDS & set(values) and not person(request).is_operator:
            raise Forbidden("Only an operator changes weight or limits, or suspends a tenant")
        tenant = services.change_tenant(tenant=tenant, actor=self.actor, **values)
        return Response(self.get_serializer(tenant).data)

    @extend_schema(operation_id="tenants_quota_retrieve", responses=QuotaSerializer)
    @action(detail=True, methods=["get"])
    def quota(self, request: Request, id: str) -> Response:
        """How much memory the tenant's deployments may reserve, and how much they do."""
        return Response(_quota(self.get_object()))

    @extend_schema(operation_id="tenants_quota_update", request=QuotaChangeSerializer, responses=QuotaSerializer)
    @quota.mapping.put
    def set_quota(self, request: Request, id: str) -> Response:
        """Holds for what starts or grows from now on."""
        tenant = self.get_object()
        services.set_quota(tenant=tenant, actor=self.actor, **self.valid(QuotaChangeSerializer))
        return Response(_quota(self.get_object()))

    @extend_schema(operation_id="tenants_quota_destroy", responses={204: None})
    @quota.mapping.delete
    def lift_quota(self, request: Request, id: str) -> Response:
        services.lift_quota(tenant=self.get_object(), actor=self.actor)
        return Response(status=204)


def _limits(tenant: Tenant) -> tuple[int | None, int | None]:
    quota = getattr(tenant, "quota", None)
    return (quota.guaranteed_bytes, quota.burst_bytes) if quota is not None else (None, None)


def _quota(tenant: Tenant) -> dict[str, int | None]:
    guaranteed, burst = _limits(tenant)
    reserved = reserved_bytes([tenant.id])[tenant.id]
    return {"guaranteed_bytes": guaranteed, "burst_bytes": burst, "reserved_bytes": reserved}


class MemberView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Membership]):
    """Who belongs to a tenant. Admins manage; an owner is made, changed and removed by owners alone."""

    queryset = Membership.objects.none()
    serializer_class = MemberSerializer
    search_fields = ("user__email", "user__name")
    ordering_fields = {"email": "user__email", "name": "user__name", "role": "role", "created_at": "created_at"}
    filterset_class = MemberFilter
    roles = {"partial_update": Role.ADMIN}

    def get_queryset(self) -> Any:
        return selectors.members(self.scope)

    @extend_schema(request=MemberCreateSerializer, responses={201: MemberSerializer})
    def create(self, request: Request) -> Response:
        """Somebody who has an account; others are invited."""
        values = self.valid(MemberCreateSerializer)
        tenant = self.tenant_for(values["tenant"], Role.ADMIN)
        user = selectors.find_user(values["email"])
        if user is None:
            raise Invalid(f"Nobody has an account as {values['email']}; invite them", field="email", code="no_account")
        membership = services.join_tenant(
            tenant=tenant, user=user, role=values["role"], actor=self.actor, by=by(request, tenant.id)
        )
        return Response(MemberSerializer(membership).data, status=201)

    @extend_schema(request=MemberChangeSerializer, responses=MemberSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        member = self.get_object()
        role = self.valid(MemberChangeSerializer)["role"]
        rank = by(request, member.tenant_id)
        row = services.change_member(membership=member, role=role, actor=self.actor, by=rank)
        return Response(MemberSerializer(row).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        """Admins remove; anyone may leave. The last owner stays."""
        member = self.get_object()
        user = person(request)
        if member.user_id != user.id:
            require_role(user, member.tenant_id, Role.ADMIN)
        services.remove_member(membership=member, actor=self.actor, by=by(request, member.tenant_id))
        return Response(status=204)


def by(request: Request, tenant_id: str) -> str:
    """The role that who asks has in the tenant."""
    return selectors.role_in(person(request), tenant_id) or Role.VIEWER


def maker(user: User) -> User | None:
    """None for a key that no person made and that acts for itself."""
    return None if user._state.adding else user


def no_heirs(user: User, scopes: Sequence[str]) -> None:
    """A key makes, renews and prolongs no key that manages, itself included: one that leaked ends with its term."""
    if user.holder is not None and set(scopes) - {KeyScope.INFERENCE}:
        raise Forbidden("A key may not make or change a key that manages; sign in for that")


class KeyFilter(TenantFilter):
    revoked = django_filters.BooleanFilter(field_name="revoked_at", lookup_expr="isnull", exclude=True)


class KeyView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[ApiKey]):
    """API keys. Developers make keys and manage their own; admins manage any."""

    queryset = ApiKey.objects.none()
    serializer_class = KeySerializer
    search_fields = ("name", "id", "hint", "created_by__email")
    ordering_fields = ("name", "created_at", "expires_at", "last_used_at")
    filterset_class = KeyFilter
    roles = dict.fromkeys(("partial_update", "rotate", "revoke", "destroy"), Role.DEVELOPER)

    def get_queryset(self) -> Any:
        return selectors.keys(self.scope)

    @extend_schema(request=KeyCreateSerializer, responses={201: CreatedKeySerializer})
    def create(self, request: Request) -> Response:
        values = self.valid(KeyCreateSerializer)
        tenant = self.tenant_for(values.pop("tenant"), Role.DEVELOPER)
        user = person(request)
        no_heirs(user, values.get("scopes") or [])
        key, token = services.create_key(tenant=tenant, actor=self.actor, created_by=maker(user), **values)
        return Response({"key": KeySerializer(key).data, "token": token}, status=201)

    @extend_schema(request=KeyChangeSerializer, responses=KeySerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        """Its scopes stay: a key that may do something else is another key."""
        key = self._own_or_admin()
        no_heirs(person(request), key.scopes)
        values = self.valid(KeyChangeSerializer, partial=True)
        return Response(KeySerializer(services.change_key(key=key, actor=self.actor, **values)).data)

    @extend_schema(operation_id="keys_rotate", request=KeyRotateSerializer, responses=CreatedKeySerializer)
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, id: str) -> Response:
        """Another secret; the one before works until the grace ends."""
        key = self._own_or_admin()
        no_heirs(person(request), key.scopes)
        grace = timedelta(seconds=self.valid(KeyRotateSerializer)["grace_seconds"])
        key, token = services.rotate_key(key=key, grace=grace, actor=self.actor)
        return Response({"key": KeySerializer(key).data, "token": token})

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
            tenant=tenant, name="playground", actor=self.actor, created_by=maker(user), playground=True
        )
        return Response({"token": token, "expires_at": key.expires_at}, status=201)

    def _own_or_admin(self) -> ApiKey:
        key = self.get_object()
        user = person(self.request)
        if key.created_by_id != user.id:
            require_role(user, key.tenant_id, Role.ADMIN)
        return key
