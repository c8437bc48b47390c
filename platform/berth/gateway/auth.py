"""Who calls: a bearer key, checked against the snapshot. Never a cookie."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from berth.core.ids import created_s
from berth.gateway.errors import ApiError
from berth.gateway.snapshot import Key, Snapshot
from berth.tenants import keys

if TYPE_CHECKING:
    from berth.gateway.app import SnapshotSource

NEWBORN_S = 5.0
PATIENCE_S = 2.0
LOOK_S = 0.02


def authenticate(authorization: str, snapshot: Snapshot) -> Key:
    """The key of an Authorization header.

    Raises ``ApiError`` 401 (unknown, revoked and wrong read the same), and 403 for a key that only manages.
    """
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise _refused("No API key was given. Send it as 'Authorization: Bearer KEY'.", "missing_api_key")
    parts = keys.split(token)
    key = snapshot.keys.get(parts[0]) if parts else None
    if key is None or not _opens(token, key):
        raise _refused("The API key is not valid: it is unknown, revoked or expired.", "invalid_api_key")
    if key.expires_at is not None and key.expires_at <= time.time():
        raise _refused("The API key is not valid: it is unknown, revoked or expired.", "invalid_api_key")
    if not key.inference:
        text = "This API key has no access to model inference. Missing scopes: inference."
        raise ApiError(403, text, code="insufficient_permissions")
    return key


def _opens(token: str, key: Key) -> bool:
    """By its secret, or, while a rotation's grace lasts, by the one before."""
    if keys.verify(token, key.digest, key.pepper_id):
        return True
    if key.previous is None:
        return False
    digest, pepper_id, until = key.previous
    return time.time() < until and keys.verify(token, digest, pepper_id)


async def authenticate_soon(authorization: str, keeper: SnapshotSource) -> Key:
    """``authenticate``, with patience for a key made a moment ago: it may be used before the snapshot has it.

    An unknown key is waited for only if its id says that it is younger than ``NEWBORN_S``.
    """
    if _is_newborn(authorization, keeper.current):
        until = time.monotonic() + PATIENCE_S
        # The snapshot is swapped by the keeper's thread: this loop has no event to wait for.
        while time.monotonic() < until and _is_newborn(authorization, keeper.current):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
    return authenticate(authorization, keeper.current)


def _is_newborn(authorization: str, snapshot: Snapshot) -> bool:
    parts = keys.split(authorization.partition(" ")[2].strip())
    if parts is None or parts[0] in snapshot.keys or parts[0] in snapshot.closed_keys:
        return False
    try:
        return abs(time.time() - created_s(parts[0])) < NEWBORN_S
    except ValueError:
        return False


def _refused(message: str, code: str) -> ApiError:
    return ApiError(401, message, code=code, headers=[(b"www-authenticate", b"Bearer")])
