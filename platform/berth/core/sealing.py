"""Text kept in the database that only this installation reads: encrypted, authenticated, with keys that rotate.

The keys are files beside the other secrets (``core.secrets``): a stolen copy of the database opens nothing.
"""

from __future__ import annotations

import base64
import functools

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from berth.core.secrets import rotating


class Unsealable(ValueError):
    """Sealed with a key that is gone, or changed since."""


def seal(purpose: str, text: str) -> str:
    """``text`` encrypted (AES-128-CBC, HMAC-SHA256) with the newest key of the file ``purpose``."""
    return _box(purpose).encrypt(text.encode()).decode()


def unseal(purpose: str, sealed: str) -> str:
    """What ``seal`` was given. Raises ``Unsealable``."""
    try:
        return _box(purpose).decrypt(sealed.encode()).decode()
    except InvalidToken as error:
        raise Unsealable(f"not sealed with a key of {purpose!r}") from error


@functools.cache
def _box(purpose: str) -> MultiFernet:
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in rotating(purpose).values()])
