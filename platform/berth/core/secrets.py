"""The platform's secrets: files of 0600 below BERTH_HOME/secrets (or BERTH_SECRETS_DIR), made at first use.

A file of peppers or encryption keys holds one ``id:hex`` a line: the first is used for what is new, all are tried
for what is old, so that adding a line on top rotates it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from berth.config import CONFIG


def folder() -> Path:
    """0700, made where it is not there yet."""
    CONFIG.secrets.mkdir(parents=True, exist_ok=True, mode=0o700)
    return CONFIG.secrets


@functools.cache
def secret(name: str) -> str:
    """The secret's text; made (32 random bytes, hex) when the file is absent. Two processes agree: the link wins."""
    path = folder() / name
    if not path.exists():
        draft = path.with_name(f".{name}.{os.getpid()}.{secrets.token_hex(4)}")
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_text().strip()


@functools.cache
def rotating(name: str) -> dict[str, bytes]:
    """id -> key, newest first. A file with one bare hex line is id "1"."""
    keys: dict[str, bytes] = {}
    for line in secret(name).splitlines():
        key_id, _, value = line.strip().rpartition(":")
        if value:
            keys[key_id or "1"] = bytes.fromhex(value)
    return keys


def hmac_hex(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def replica_token(replica_id: str) -> str:
    """The token of one replica's door and websocket: derived, so that it is stored nowhere."""
    return hmac_hex(bytes.fromhex(secret("replica_key")), f"replica:{replica_id}")


def tenant_salt(tenant_id: str) -> str:
    """Separates tenants' prefix caches. Stable, so that a cache survives a restart of the control plane."""
    return hmac_hex(bytes.fromhex(secret("replica_key")), f"salt:{tenant_id}")[:32]
