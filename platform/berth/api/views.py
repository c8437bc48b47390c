"""What every view of the REST API shares: rows within the person's scope, roles, filters."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import django_filters
from django.db import models
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.serializers import BaseSerializer
from rest_framework.viewsets import GenericViewSet

from berth.api.authentication import ManagementKey, Session
from berth.api.writes import SAFE, CarefulWrites
from berth.core.errors import Forbidden, Invalid, NotFound
from berth.core.scoping import Scope
from berth.tenants.models import Role, Tenant, User
from berth.tenants.selectors import at_least, role_in, scope_of, scope_with_role, tenants_of

ID = r"[a-z]{3}_[0-9a-z]{26}"
Row = TypeVar("Row", bound=models.Model)


class IsOperator(BasePermission):
    message = "Only an operator may do this"

    def has_permission(self, request: Request, view: Any) -> bool:
        return request.user.is_authenticated and bool(request.user.is_operator)


class OperatorWrites(IsOperator):
    """Anyone signed in reads; only an operator does ``view.operator_actions``.

    On an object it is asked after the look-up: to those who may not see it, it is 404 whatever they try.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if view.action in view.operator_actions and not view.detail:
            return super().has_permission(request, view)
        return True

    def has_object_permission(self, request: Request, view: Any, obj: Any) -> bool:
        return view.action not in view.operator_actions or super().has_permission(request, view)


class RoleAllows(BasePermission):
    """``view.roles[action]`` is the least role in the object's tenant; a viewer reads."""

    def has_object_permission(self, request: Request, view: Any, obj: Any) -> bool:
        least = view.roles.get(view.action)
        if least is not None:
            require_role(person(request), obj.tenant_id, least)
        return True


def person(request: Request) -> User:
    user = request.user
    if not isinstance(user, User):
        raise Forbidden("Sign in first")
    return user


def require_role(user: User, tenant_id: str, least: str) -> None:
    """Raises ``NotFound`` for a tenant that is not the user's, ``Forbidden`` below the role."""
    role = role_in(user, tenant_id)
    if role is None:
        raise NotFound("No such tenant", field="tenant")
    if not at_least(role, least):
        raise Forbidden(f"This needs the role {least}; yours is {role}")


class TenantFilter(django_filters.FilterSet):
    """``?tenant=`` is read by ``TenantViewSet.scope``: another tenant's is 404."""

    tenant = django_filters.CharFilter(method="_already_scoped", help_text="a tenant's id; absent: all you may see")

    def _already_scoped(self, queryset: Any, name: str, value: str) -> Any:
        return queryset


class BerthViewSet(CarefulWrites, GenericViewSet[Row]):
    """A resource. What it can do it declares: ``operator_actions``, ``search_fields``, ``ordering_fields``."""

    lookup_field = "id"
    lookup_value_regex = ID
    operator_actions: ClassVar[frozenset[str]] = frozenset()
    search_fields: ClassVar[tuple[str, ...]] = ()
    ordering_fields: ClassVar[tuple[str, ...] | dict[str, str]] = ()
    default_ordering: ClassVar[str] = "-id"
    authentication_classes = [ManagementKey, Session]
    permission_classes = [IsAuthenticated, OperatorWrites]

    def get_object(self) -> Row:
        """The object within the person's scope. With If-Match its row is locked first: who comes second is refused."""
        row = self._found = super().get_object()
        if self.asked_tag:
            type(row)._base_manager.select_for_update().filter(pk=row.pk).first()
            row = self._found = super().get_object()
            self.check_tag(row)
        return row

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """A single object's answer carries its ETag."""
        response = super().finalize_response(request, response, *args, **kwargs)
        data = getattr(response, "data", None)
        if response.status_code < 300 and isinstance(data, dict) and self.lookup_field in data:
            row = self._found if request.method in SAFE else self._again(data[self.lookup_field])
            if row is not None:
                response["ETag"] = self.etag_of(row)
        return response

    def _again(self, value: Any) -> Row | None:
        """The row after the write: what the handler holds may be older."""
        rows = self.get_queryset().prefetch_related(None)
        return rows.filter(**{self.lookup_field: value}).first()

    @property
    def actor(self) -> str:
        """As the audit trail names who acts."""
        user = person(self.request)
        return f"{user.email} by {user.holder.key_id}" if user.holder is not None else user.email

    _found: Row | None = None

    def valid(self, serializer_class: type[BaseSerializer[Any]], **options: Any) -> dict[str, Any]:
        """The request's body, checked. A body that is no object is an error too."""
        serializer = serializer_class(data=self.request.data, **options)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values

    @property
    def fake(self) -> bool:
        """True while the schema is generated: there is nobody whose rows these could be."""
        return getattr(self, "swagger_fake_view", False)


class TenantViewSet(BerthViewSet[Row]):
    """Rows of tenants. An id from a request is looked up among what the person may see, so a foreign one is 404."""

    roles: ClassVar[dict[str, str]] = {}
    readers: ClassVar[str | None] = None
    permission_classes = [IsAuthenticated, OperatorWrites, RoleAllows]

    @property
    def scope(self) -> Scope:
        """Whose rows: of the tenant that is asked for, or of all where the person has the role ``readers``."""
        return self.scope_for(self.readers)

    def scope_for(self, least: str | None) -> Scope:
        if self.fake:
            return Scope(())
        user, tenant_id = person(self.request), self.request.query_params.get("tenant") or None
        return scope_of(user, tenant_id) if least is None else scope_with_role(user, least, tenant_id)

    def tenant_for(self, tenant_id: str, least: str) -> Tenant:
        """The tenant that a body names, when the person has the role there."""
        user = person(self.request)
        tenant = tenants_of(user).filter(id=tenant_id).first()
        if tenant is None:
            raise NotFound("No such tenant", field="tenant")
        require_role(user, tenant.id, least)
        return tenant


def pick(queryset: models.QuerySet[Row], value: str, field: str, *, by_name: bool = True) -> Row:
    """The row that a body names by id, or by name where names are unique. Raises ``Invalid`` naming the field."""
    found = queryset.filter(id=value).first()
    if found is None and by_name:
        found = queryset.filter(name=value).first()
    if found is None:
        raise Invalid(f"There is no {field.replace('_', ' ')} {value!r}", field=field)
    return found


__all__ = [
    "ID",
    "BerthViewSet",
    "IsOperator",
    "OperatorWrites",
    "Role",
    "RoleAllows",
    "TenantFilter",
    "TenantViewSet",
    "person",
    "pick",
    "require_role",
]
