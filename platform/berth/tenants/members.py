"""Writes of memberships. ``by``: the role of who acts ("owner" for an operator and for commands).

Everything that changes who belongs to a tenant holds the tenant's row: two owners cannot demote each other at once.
"""

from __future__ import annotations

from django.db import transaction

from berth.audit.services import record
from berth.core.errors import Conflict, Forbidden, Invalid, NotFound
from berth.core.notify import changed
from berth.tenants.models import Membership, Role, Tenant, User


@transaction.atomic
def add_member(*, tenant: Tenant, user: User, role: str, actor: str, by: str = Role.OWNER) -> Membership:
    """Add a person or change the role of one who is a member. Idempotent."""
    check_role(role)
    lock_tenant(tenant.id)
    membership = Membership.objects.for_tenant(tenant.id).filter(user=user).first()
    if membership is not None:
        return _set_role(membership, role, actor, by)
    check_may_touch(by, role)
    membership = Membership.objects.create(tenant=tenant, user=user, role=role)
    record(actor=actor, action="member.set", obj=membership, before={"role": None}, after=_after(membership))
    _announce(membership)
    return membership


@transaction.atomic
def join_tenant(*, tenant: Tenant, user: User, role: str, actor: str, by: str) -> Membership:
    """As ``add_member``, for somebody who must not be a member yet: raises ``Conflict`` ``already_member``."""
    lock_tenant(tenant.id)
    if Membership.objects.for_tenant(tenant.id).filter(user=user).exists():
        raise Conflict(f"{user.email} is a member of {tenant.name}", field="email", code="already_member")
    return add_member(tenant=tenant, user=user, role=role, actor=actor, by=by)


@transaction.atomic
def change_member(*, membership: Membership, role: str, actor: str, by: str = Role.OWNER) -> Membership:
    """Raises ``Conflict`` ``last_owner`` for the only owner, ``Forbidden`` for what only an owner may."""
    check_role(role)
    return _set_role(_lock(membership), role, actor, by)


@transaction.atomic
def remove_member(*, membership: Membership, actor: str, by: str = Role.OWNER) -> None:
    """Ends a membership: the person's console of this tenant closes within seconds. The last owner stays."""
    row = _lock(membership)
    if row.user.email != actor:
        check_may_touch(by, row.role)
    _check_an_owner_stays(row)
    record(actor=actor, action="member.remove", obj=row, before=_after(row))
    _announce(row)
    Membership.objects.for_tenant(row.tenant_id).filter(id=row.id).delete()


def check_role(role: str) -> None:
    if role not in Role.values:
        raise Invalid(f"{role!r}: expected one of {', '.join(Role.values)}", field="role")


def check_may_touch(by: str, *roles: str) -> None:
    """Owners are made, changed and removed by owners alone."""
    if by != Role.OWNER and Role.OWNER in roles:
        raise Forbidden(f"Only an owner makes, changes or removes an owner; yours is {by}")


def lock_tenant(tenant_id: str) -> Tenant:
    return Tenant.objects.select_for_update(no_key=True).get(id=tenant_id)


def _set_role(membership: Membership, role: str, actor: str, by: str) -> Membership:
    before = membership.role
    check_may_touch(by, before, role)
    if before == role:
        return membership
    if role != Role.OWNER:
        _check_an_owner_stays(membership)
    membership.role = role
    membership.save(update_fields=["role"])
    record(actor=actor, action="member.set", obj=membership, before={"role": before}, after=_after(membership))
    _announce(membership)
    return membership


def _lock(membership: Membership) -> Membership:
    """The row as it is now, with its tenant held."""
    lock_tenant(membership.tenant_id)
    rows = Membership.objects.for_tenant(membership.tenant_id).select_related("user")
    row: Membership | None = rows.filter(id=membership.id).first()
    if row is None:
        raise NotFound("This person is no longer a member")
    return row


def _check_an_owner_stays(membership: Membership) -> None:
    owners = Membership.objects.for_tenant(membership.tenant_id).filter(role=Role.OWNER)
    if membership.role == Role.OWNER and not owners.exclude(id=membership.id).exists():
        message = f"{membership.user.email} is the last owner of the tenant; make somebody else an owner first"
        raise Conflict(message, field="role", code="last_owner")


def _after(membership: Membership) -> dict[str, str]:
    return {"email": membership.user.email, "role": membership.role}


def _announce(membership: Membership) -> None:
    changed("member", membership.id, membership.tenant_id)
