"""Keys, ``KEYID.SECRET``, and invitations, ``INVITATIONID.SECRET``. Pure: no database, so that the gateway checks a
key from its snapshot.

The secret has 256 random bits, so one HMAC is enough: there is nothing to guess that a slow hash would protect.
The pepper lies outside the database; a stolen copy of the table opens nothing.
"""

from __future__ import annotations

import hmac
import re
import secrets

from berth.core.secrets import hmac_hex, rotating

PEPPERS = "key_peppers"
_TOKEN = re.compile(r"((?:key|inv)_[0-9a-z]{26})\.([A-Za-z0-9_-]{43})")


def new_secret() -> str:
    """32 random bytes, URL-safe: 43 characters."""
    return secrets.token_urlsafe(32)


def digest_of(secret: str) -> tuple[str, str]:
    """(digest, pepper id) with the newest pepper."""
    pepper_id, pepper = next(iter(rotating(PEPPERS).items()))
    return hmac_hex(pepper, secret), pepper_id


def split(token: str) -> tuple[str, str] | None:
    """(id, secret), or None for anything that is not a token."""
    match = _TOKEN.fullmatch(token)
    return (match[1], match[2]) if match else None


def verify(token: str, digest: str, pepper_id: str) -> bool:
    """Whether ``token``'s secret is the one ``digest`` was made from. In constant time once the shape is right."""
    parts = split(token)
    pepper = rotating(PEPPERS).get(pepper_id)
    if parts is None or pepper is None:
        return False
    return hmac.compare_digest(hmac_hex(pepper, parts[1]), digest)
