"""Writes of people's accounts: made, renamed, a password set. Who signs in is in ``tenants.signin``."""

from __future__ import annotations

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from berth.audit.services import record
from berth.core.errors import Conflict, Invalid
from berth.tenants.ended import end_sessions
from berth.tenants.models import User


@transaction.atomic
def create_user(
    *, email: str, password: str | None, name: str = "", is_operator: bool = False, actor: str = "system"
) -> User:
    """``password`` None: the person signs in by the provider alone.

    Raises ``Invalid`` for a weak password or a malformed address, ``Conflict`` for one that has an account."""
    email = email.strip().lower()
    try:
        validate_email(email)
    except ValidationError as error:
        raise Invalid(f"{email!r} is not an e-mail address", field="email") from error
    user = User(email=email, name=name, is_operator=is_operator)
    if password is None:
        user.set_unusable_password()
    else:
        _set_password(user, password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError as error:
        raise Conflict(f"{email} has an account", field="email", code="email_taken") from error
    record(actor=actor, action="user.create", obj=user, after={"email": email, "is_operator": is_operator})
    return user


@transaction.atomic
def change_user(*, user: User, name: str, actor: str) -> User:
    """A person's own name."""
    row = User.objects.select_for_update().get(id=user.id)
    if row.name != name:
        before, row.name = row.name, name
        row.save(update_fields=["name"])
        record(actor=actor, action="user.change", obj=row, before={"name": before}, after={"name": name})
    return row


@transaction.atomic
def set_password(*, user: User, password: str, actor: str, keep_session: str = "") -> None:
    """Ends every session but ``keep_session`` (its key). Raises ``Invalid`` for a weak password."""
    _set_password(user, password)
    user.save(update_fields=["password"])
    record(actor=actor, action="user.set_password", obj=user)
    end_sessions(user=user, actor=actor, keep_session=keep_session)


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="password") from error
    user.set_password(password)
