"""Reads of tenants, members and keys; and whose rows a person may see."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Case, QuerySet, Value, When
from django.db.models.functions import Now
from django.utils import timezone

from berth.core.errors import Forbidden, NotFound
from berth.core.scoping import PLATFORM, Scope, ScopedQuerySet
from berth.tenants.models import ApiKey, Invitation, Membership, Role, Tenant, User, UserSession

RANK = {Role.VIEWER: 0, Role.DEVELOPER: 1, Role.ADMIN: 2, Role.OWNER: 3}


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """Whose part a key plays on the management API: set as ``User.holder`` by ``berth.api.authentication``."""

    key_id: str
    tenant_id: str
    role: str
    writes: bool


def holder_of(key: ApiKey) -> KeyHolder | None:
    """What a key with a management scope may do: what its maker may, at most a developer. None: it may nothing."""
    scopes, maker = set(key.scopes), key.created_by
    if key.playground or not scopes & {"management", "management:read"} or (maker and not maker.is_active):
        return None
    role = role_in(maker, key.tenant_id) if maker else Role.DEVELOPER
    if role is None:
        return None
    least = min(RANK[Role(role)], RANK[Role.DEVELOPER])
    return KeyHolder(key.id, key.tenant_id, Role.DEVELOPER if least else Role.VIEWER, "management" in scopes)


def role_in(user: User, tenant_id: str) -> str | None:
    """The user's role in a tenant; an operator acts as its owner; None for everyone else."""
    if user.holder is not None:
        return user.holder.role if user.holder.tenant_id == tenant_id else None
    if user.is_operator:
        return Role.OWNER
    found: str | None = (
        Membership.objects.for_tenant(tenant_id).filter(user=user).values_list("role", flat=True).first()
    )
    return found


def at_least(role: str | None, least: str) -> bool:
    return role is not None and RANK[Role(role)] >= RANK[Role(least)]


def scope_of(user: User, tenant_id: str | None = None) -> Scope:
    """One tenant's rows, or all that the user may see. Raises ``NotFound`` for a tenant that is not theirs."""
    if user.is_operator:
        if tenant_id is None:
            return PLATFORM
        if "\0" in tenant_id or not Tenant.objects.filter(id=tenant_id).exists():
            raise NotFound("No such tenant", field="tenant")
        return Scope((tenant_id,))
    mine = tuple(roles_of(user))
    if tenant_id is None:
        return Scope(mine)
    if tenant_id not in mine:
        raise NotFound("No such tenant", field="tenant")
    return Scope((tenant_id,))


def scope_with_role(user: User, least: str, tenant_id: str | None = None) -> Scope:
    """As ``scope_of``, with only the tenants where the user has the role. Raises ``Forbidden`` for one below it."""
    scope = scope_of(user, tenant_id)
    if scope.tenant_ids is None or user.is_operator:
        return scope
    roles = roles_of(user)
    if tenant_id is not None and not at_least(roles[tenant_id], least):
        raise Forbidden(f"This needs the role {least}; yours is {roles[tenant_id]}")
    return Scope(tuple(tenant for tenant, role in roles.items() if at_least(role, least)))


def roles_of(user: User) -> dict[str, str]:
    """Tenant to role, of one who is no operator."""
    if user.holder is not None:
        return {user.holder.tenant_id: user.holder.role}
    return dict(memberships_of(user).values_list("tenant_id", "role"))


def memberships_of(user: User) -> ScopedQuerySet:
    """Across tenants: a person's own."""
    return Membership.objects.for_platform().filter(user=user).select_related("tenant").order_by("tenant__name")


def tenants_of(user: User) -> QuerySet[Tenant]:
    """Every tenant for an operator, their own for everyone else."""
    if user.is_operator:
        return Tenant.objects.all()
    if user.holder is not None:
        return Tenant.objects.filter(id=user.holder.tenant_id)
    mine = Membership.objects.for_platform().filter(user=user).values("tenant_id")
    return Tenant.objects.filter(id__in=mine)


def members(scope: Scope) -> ScopedQuerySet:
    return scope.of(Membership.objects).select_related("user")


def keys(scope: Scope) -> ScopedQuerySet:
    """Without the console's own ten-minute keys."""
    return scope.of(ApiKey.objects).filter(playground=False).select_related("created_by")


def find_user(email: str) -> User | None:
    return User.objects.filter(email=email.strip().lower()).first()


def invitations(scope: Scope) -> ScopedQuerySet:
    """With ``state``: open, expired, accepted or revoked."""
    state = Case(
        When(accepted_at__isnull=False, then=Value("accepted")),
        When(revoked_at__isnull=False, then=Value("revoked")),
        When(expires_at__lte=Now(), then=Value("expired")),
        default=Value("open"),
    )
    return scope.of(Invitation.objects).select_related("invited_by", "tenant").annotate(state=state)


def sessions_of(user: User) -> QuerySet[UserSession]:
    """Those that live, the newest use first."""
    return UserSession.objects.filter(user=user, expire_date__gt=timezone.now()).order_by("-last_seen_at")
