"""Writes of invitations. The token is told once, to whom invites; what is kept opens nothing.

open --accept--> accepted          one transaction, under the invitation's lock: of two accepts one gets in
 |--revoke----> revoked
 '--(time)----> expired --resend--> open, with another token
"""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from berth.audit.services import record
from berth.core.errors import BerthError, Conflict, NotFound
from berth.core.notify import changed
from berth.options.selectors import get as option
from berth.tenants import keys
from berth.tenants.accounts import create_user
from berth.tenants.members import check_may_touch, check_role, join_tenant, lock_tenant
from berth.tenants.models import Invitation, Membership, Role, Tenant, User


class Gone(BerthError):
    """It was good once: expired, revoked or used."""

    code = "invitation_gone"
    status = 410


@transaction.atomic
def invite(
    *, tenant: Tenant, email: str, role: str, actor: str, by: str = Role.OWNER, invited_by: User | None = None
) -> tuple[Invitation, str]:
    """A new invitation and its token. One that ran out for the same address gives way.

    Raises ``Conflict``: ``already_member``, ``already_invited``.
    """
    email = email.strip().lower()
    check_role(role)
    check_may_touch(by, role)
    lock_tenant(tenant.id)
    if Membership.objects.for_tenant(tenant.id).filter(user__email=email).exists():
        raise Conflict(f"{email} is a member of {tenant.name}", field="email", code="already_member")
    held = Invitation.objects.for_tenant(tenant.id).filter(email=email, accepted_at=None, revoked_at=None).first()
    if held is not None and held.expires_at > timezone.now():
        raise Conflict(
            f"{email} has an open invitation; send it again or revoke it", field="email", code="already_invited"
        )
    if held is not None:
        _revoke(held, actor)
    invitation = Invitation(tenant=tenant, email=email, role=role, invited_by=invited_by)
    token = _renew(invitation)
    invitation.save(force_insert=True)
    after = {"email": email, "role": role, "expires_at": invitation.expires_at}
    record(actor=actor, action="invitation.create", obj=invitation, after=after)
    changed("invitation", invitation.id, tenant.id)
    return invitation, token


@transaction.atomic
def resend_invitation(*, invitation: Invitation, actor: str, by: str = Role.OWNER) -> tuple[Invitation, str]:
    """Another token and a new term; the token before opens nothing any more. Also for one that ran out."""
    row = _lock(invitation)
    check_may_touch(by, row.role)
    _check_open(row, expired_too=True)
    before = {"expires_at": row.expires_at}
    token = _renew(row)
    row.save()
    record(
        actor=actor, action="invitation.resend", obj=row, before=before,
        after={"email": row.email, "expires_at": row.expires_at},
    )  # fmt: skip
    changed("invitation", row.id, row.tenant_id)
    return row, token


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, actor: str, by: str = Role.OWNER) -> None:
    """Idempotent; raises ``Gone`` for one that was accepted."""
    row = _lock(invitation)
    check_may_touch(by, row.role)
    if row.revoked_at is None:
        _check_open(row, expired_too=True)
        _revoke(row, actor)


@transaction.atomic
def accept_invitation(*, token: str, user: User | None = None, name: str = "", password: str = "") -> Membership:
    """Joins ``user``, or makes the account first. Who ``user`` is the caller has made sure of.

    Raises ``NotFound`` for a token that is none, ``Gone``, ``Conflict`` and ``Invalid`` for a weak password.
    """
    row = find_invitation(token, lock=True)
    if user is None:
        user = create_user(email=row.email, password=password, name=name, actor=row.email)
    elif user.email != row.email:
        raise Conflict(f"This invitation is for {row.email}; you are {user.email}", code="another_person")
    return _accept(row, user)


@transaction.atomic
def accept_invitations_of(*, email: str, name: str = "", user: User | None = None) -> User | None:
    """All that an address is invited to, which was proven to be the caller's. Its account is made where it has none.

    None where there is neither an account nor an invitation.
    """
    rows = Invitation.objects.for_platform().select_related("tenant").select_for_update(of=("self",)).order_by("id")
    held = list(rows.filter(email=email, accepted_at=None, revoked_at=None, expires_at__gt=timezone.now()))
    if user is None and held:
        user = create_user(email=email, password=None, name=name, actor=email)
    for row in held:
        if user and not Membership.objects.for_tenant(row.tenant_id).filter(user=user).exists():
            _accept(row, user)
    return user


def _accept(row: Invitation, user: User) -> Membership:
    # The rank that invited was checked then; what it was lowered to since does not undo it.
    membership = join_tenant(tenant=row.tenant, user=user, role=row.role, actor=user.email, by=Role.OWNER)
    row.accepted_at = timezone.now()
    row.save(update_fields=["accepted_at"])
    record(actor=user.email, action="invitation.accept", obj=row, after={"email": row.email, "role": row.role})
    changed("invitation", row.id, row.tenant_id)
    return membership


def find_invitation(token: str, *, lock: bool = False) -> Invitation:
    """The open invitation of a token. Raises ``NotFound`` and ``Gone``; a wrong secret is as unknown as a wrong id."""
    parts = keys.split(token.strip())
    rows = Invitation.objects.for_platform().select_related("tenant", "invited_by")
    if lock:
        rows = rows.select_for_update(of=("self",))
    row: Invitation | None = rows.filter(id=parts[0]).first() if parts else None
    if row is None or not keys.verify(token.strip(), row.digest, row.pepper_id):
        raise NotFound("There is no such invitation; take the whole link, or ask for a new one", field="token")
    _check_open(row)
    return row


def _renew(row: Invitation) -> str:
    secret = keys.new_secret()
    row.digest, row.pepper_id = keys.digest_of(secret)
    row.sent_at = timezone.now()
    row.expires_at = row.sent_at + timedelta(days=option("invitation_days"))
    return f"{row.id}.{secret}"


def _revoke(row: Invitation, actor: str) -> None:
    row.revoked_at = timezone.now()
    row.save(update_fields=["revoked_at"])
    before = {"email": row.email, "role": row.role}
    record(actor=actor, action="invitation.revoke", obj=row, before=before, after={"revoked_at": row.revoked_at})
    changed("invitation", row.id, row.tenant_id)


def _check_open(row: Invitation, *, expired_too: bool = False) -> None:
    if row.accepted_at is not None:
        raise Gone("This invitation was accepted; sign in instead")
    if row.revoked_at is not None:
        raise Gone("This invitation was withdrawn; ask for a new one")
    if not expired_too and row.expires_at <= timezone.now():
        raise Gone("This invitation ran out; ask for a new one")


def _lock(invitation: Invitation) -> Invitation:
    rows = Invitation.objects.for_tenant(invitation.tenant_id).select_for_update(of=("self",))
    row: Invitation = rows.select_related("tenant").get(id=invitation.id)
    return row
