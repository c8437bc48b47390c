"""Who calls: a bearer key, checked against the snapshot. Never a cookie."""

from __future__ import annotations

import time

from berth.gateway.errors import ApiError
from berth.gateway.snapshot import Key, Snapshot
from berth.tenants import keys


def authenticate(authorization: str, snapshot: Snapshot) -> Key:
    """The key of an Authorization header. Raises ``ApiError`` 401; unknown, revoked and wrong read the same."""
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise _refused("No API key was given. Send it as 'Authorization: Bearer KEY'.", "missing_api_key")
    parts = keys.split(token)
    key = snapshot.keys.get(parts[0]) if parts else None
    if key is None or not keys.verify(token, key.digest, key.pepper_id):
        raise _refused("The API key is not valid: it is unknown, revoked or expired.", "invalid_api_key")
    if key.expires_at is not None and key.expires_at <= time.time():
        raise _refused("The API key is not valid: it is unknown, revoked or expired.", "invalid_api_key")
    return key


def _refused(message: str, code: str) -> ApiError:
    return ApiError(401, message, code=code, headers=[(b"www-authenticate", b"Bearer")])
