"""The second factor: TOTP (RFC 6238, by pyotp) and recovery codes.

The secret is sealed with a key that lies outside the database and rotates (``core.sealing``, ``second_factor_keys``).
A code counts once: the step of the newest one used is kept, and only a later one is taken. Recovery codes are 79
random bits and kept as HMACs under the keys' pepper.
"""

from __future__ import annotations

import hmac
import secrets
import time

import pyotp
from django.db import transaction
from django.utils import timezone

from berth.audit.services import record
from berth.core.errors import BerthError, Conflict, NotFound
from berth.core.sealing import Unsealable, seal, unseal
from berth.core.secrets import hmac_hex, rotating
from berth.options.selectors import get as option
from berth.tenants import keys
from berth.tenants.models import RecoveryCode, SecondFactor, User

PURPOSE = "second_factor_keys"
STEP_S = 30
DRIFT_STEPS = 1
RECOVERY_CODES = 10
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is read as another
_CODE_CHARS = 16


class WrongCode(BerthError):
    code = "wrong_code"
    status = 401

    def __init__(self) -> None:
        super().__init__("The code is wrong, too old, or was used before; take the next one", field="code")


def has_factor(user: User) -> bool:
    return SecondFactor.objects.filter(user=user, confirmed_at__isnull=False).exists()


def is_required(user: User) -> bool:
    """Whether this person may not do without."""
    return user.is_operator and bool(option("require_operator_mfa"))


@transaction.atomic
def begin_factor(*, user: User, actor: str) -> tuple[str, str]:
    """(secret in base 32, otpauth URI) for an authenticator. It counts only once ``confirm_factor`` saw a code of it.

    Raises ``Conflict`` while one is in force.
    """
    User.objects.select_for_update(no_key=True).get(id=user.id)
    if has_factor(user):
        raise Conflict("A second factor is set up; switch it off first", code="mfa_enabled")
    secret = pyotp.random_base32()
    values = {"sealed_secret": seal(PURPOSE, secret), "last_step": 0, "confirmed_at": None}
    SecondFactor.objects.update_or_create(user=user, defaults=values)
    record(actor=actor, action="mfa.begin", obj=user)
    return secret, pyotp.TOTP(secret).provisioning_uri(name=user.email, issuer_name=str(option("console_name")))


@transaction.atomic
def confirm_factor(*, user: User, code: str, actor: str) -> list[str]:
    """The recovery codes, told once. Raises ``WrongCode``, ``Conflict`` and ``NotFound`` when none was begun."""
    row = SecondFactor.objects.select_for_update().filter(user=user).first()
    if row is None:
        raise NotFound("Begin with a new secret first", code="mfa_not_begun")
    if row.confirmed_at is not None:
        raise Conflict("A second factor is set up already", code="mfa_enabled")
    if not _take_code(row, code):
        raise WrongCode
    row.confirmed_at = timezone.now()
    row.save(update_fields=["confirmed_at"])
    record(actor=actor, action="mfa.enable", obj=user, before={"enabled": False}, after={"enabled": True})
    return _new_codes(user)


@transaction.atomic
def renew_recovery_codes(*, user: User, actor: str) -> list[str]:
    """Ten new ones; the ones before are void. The caller has seen a code."""
    record(actor=actor, action="mfa.renew_recovery_codes", obj=user)
    return _new_codes(user)


@transaction.atomic
def disable_factor(*, user: User, actor: str) -> bool:
    """Whether there was one. The caller has seen a code, or is an operator at the machine."""
    gone, _ = SecondFactor.objects.filter(user=user).delete()
    RecoveryCode.objects.filter(user=user).delete()
    if gone:
        record(actor=actor, action="mfa.disable", obj=user, before={"enabled": True}, after={"enabled": False})
    return bool(gone)


def check_code(*, user: User, code: str) -> bool:
    """Whether ``code`` is the authenticator's or an unused recovery code; then it is used up."""
    with transaction.atomic():
        row = SecondFactor.objects.select_for_update().filter(user=user, confirmed_at__isnull=False).first()
        if row is None:
            return False
        return _take_code(row, code) or _take_recovery_code(user, code)


def _take_code(row: SecondFactor, code: str) -> bool:
    """Under the row's lock. One step of drift either way; never a step at or before the last one used."""
    digits = "".join(code.split())
    if not (digits.isascii() and digits.isdigit() and len(digits) == 6):
        return False
    try:
        totp = pyotp.TOTP(unseal(PURPOSE, row.sealed_secret))
    except Unsealable:
        return False
    now = int(time.time()) // STEP_S
    for step in range(max(now - DRIFT_STEPS, row.last_step + 1), now + DRIFT_STEPS + 1):
        if hmac.compare_digest(totp.generate_otp(step), digits):
            row.last_step = step
            row.save(update_fields=["last_step"])
            return True
    return False


def _take_recovery_code(user: User, code: str) -> bool:
    plain = "".join(c for c in code.lower() if c not in " -")
    if len(plain) != _CODE_CHARS or not set(plain) <= set(_ALPHABET):
        return False
    peppers = rotating(keys.PEPPERS)
    for row in RecoveryCode.objects.select_for_update().filter(user=user, used_at=None):
        pepper = peppers.get(row.pepper_id)
        if pepper is not None and hmac.compare_digest(hmac_hex(pepper, plain), row.digest):
            row.used_at = timezone.now()
            row.save(update_fields=["used_at"])
            record(actor=user.email, action="mfa.use_recovery_code", obj=user, after={"left": codes_left(user)})
            return True
    return False


def codes_left(user: User) -> int:
    """Recovery codes that still work."""
    return RecoveryCode.objects.filter(user=user, used_at=None).count()


def _new_codes(user: User) -> list[str]:
    RecoveryCode.objects.filter(user=user).delete()
    plain = ["".join(secrets.choice(_ALPHABET) for _ in range(_CODE_CHARS)) for _ in range(RECOVERY_CODES)]
    rows = []
    for code in plain:
        digest, pepper_id = keys.digest_of(code)
        rows.append(RecoveryCode(user=user, digest=digest, pepper_id=pepper_id))
    RecoveryCode.objects.bulk_create(rows)
    return ["-".join(code[at : at + 4] for at in range(0, _CODE_CHARS, 4)) for code in plain]
