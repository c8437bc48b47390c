"""Who is asking: the session cookie, with CSRF; or a key with a management scope, as ``Authorization: Bearer``.

A key acts in its own tenant alone, never as an operator. ``management:read`` reads; ``management`` may do what its
maker may, at most a developer's part. It ends with its maker's membership. A view takes keys only when it says so
(``BerthViewSet`` does): what belongs to a person, such as a password, stays with the session.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from berth.tenants import keys
from berth.tenants.models import ApiKey, User
from berth.tenants.selectors import KeyHolder, holder_of

READS = ("GET", "HEAD", "OPTIONS")
_USED_EVERY = timedelta(minutes=1)


class Session(SessionAuthentication):
    """Names a scheme, so that a request without a session is 401 and not 403."""

    def authenticate_header(self, request: Request) -> str:
        return "Session"


class ManagementKey(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        """(who acts, the key). A bearer that is no valid key is 401, whatever cookies came with it."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        key = _valid_key(token.strip())
        holder = holder_of(key)
        if holder is None:
            raise PermissionDenied("This key may not manage: it needs the scope management or management:read")
        if request.method not in READS and not holder.writes:
            raise PermissionDenied("This key only reads: it has the scope management:read")
        _note_use(key)
        return _acting(key, holder), key

    def authenticate_header(self, request: Request) -> str:
        return "Session"


def _valid_key(token: str) -> ApiKey:
    parts = keys.split(token)
    rows = ApiKey.objects.for_platform().select_related("created_by", "tenant")
    key: ApiKey | None = rows.filter(id=parts[0], revoked_at=None).first() if parts else None
    if key is None or not _opens(token, key) or _is_over(key):
        raise AuthenticationFailed("The key is not valid: it is unknown, revoked or expired")
    return key


def _opens(token: str, key: ApiKey) -> bool:
    """By its secret, or, while a rotation's grace lasts, by the one before."""
    if keys.verify(token, key.digest, key.pepper_id):
        return True
    in_grace = key.previous_until is not None and timezone.now() < key.previous_until
    return in_grace and keys.verify(token, key.previous_digest, key.previous_pepper_id)


def _is_over(key: ApiKey) -> bool:
    expired = key.expires_at is not None and key.expires_at <= timezone.now()
    return expired or key.tenant.suspended_at is not None


def _acting(key: ApiKey, holder: KeyHolder) -> User:
    """The key's maker, held to the key's part; a key that no person made acts under its own id."""
    user = key.created_by or User(id=key.id, email=f"{key.id}@keys.invalid", name=key.name)
    user.is_operator = False
    user.holder = holder
    return user


def _note_use(key: ApiKey) -> None:
    now = timezone.now()
    if key.last_used_at is None or key.last_used_at < now - _USED_EVERY:
        ApiKey.objects.for_tenant(key.tenant_id).filter(id=key.id).update(last_used_at=now)
