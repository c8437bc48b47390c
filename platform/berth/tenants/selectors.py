"""Reads of tenants, members and keys."""

from __future__ import annotations

from django.db.models import QuerySet

from berth.core.scoping import ScopedQuerySet
from berth.tenants.models import ApiKey, Membership, Role, Tenant, User


def role_in(user: User, tenant_id: str) -> str | None:
    """The user's role in a tenant; an operator acts as its owner; None for everyone else."""
    if user.is_operator:
        return Role.OWNER
    found: str | None = (
        Membership.objects.for_tenant(tenant_id).filter(user=user).values_list("role", flat=True).first()
    )
    return found


def memberships_of(user: User) -> ScopedQuerySet:
    """Across tenants: a person's own."""
    return Membership.objects.for_platform().filter(user=user).select_related("tenant").order_by("tenant__name")


def tenants_of(user: User) -> QuerySet[Tenant]:
    """Every tenant for an operator, their own for everyone else."""
    if user.is_operator:
        return Tenant.objects.all()
    mine = Membership.objects.for_platform().filter(user=user).values("tenant_id")
    return Tenant.objects.filter(id__in=mine)


def members_of_tenant(tenant_id: str) -> ScopedQuerySet:
    return Membership.objects.for_tenant(tenant_id).select_related("user")


def keys_of_tenant(tenant_id: str) -> ScopedQuerySet:
    """Without the console's own ten-minute keys."""
    return ApiKey.objects.for_tenant(tenant_id).filter(playground=False)
