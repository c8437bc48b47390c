"""Where one is signed in: one file of 0600 in the user's configuration folder. A key never stands on a command line."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

DEFAULT_URL = "http://127.0.0.1:8000"


@dataclass(slots=True)
class Credentials:
    """``key``: of the management API; ``cookies``: a session; ``tenant``: an id or slug that commands mean."""

    url: str = DEFAULT_URL
    key: str = ""
    tenant: str = ""
    cookies: dict[str, str] = field(default_factory=dict)

    @property
    def anonymous(self) -> bool:
        return not self.key and "sessionid" not in self.cookies


def config_file(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".config")
    return Path(home) / "berth" / "credentials.json"


def load(environ: Mapping[str, str]) -> Credentials:
    """What is stored, with what the environment says instead. An address of its own never gets a stored secret."""
    stored = _read(config_file(environ))
    url = environ.get("BERTH_CLI_URL", "").rstrip("/")
    if url and url != stored.url:
        stored = Credentials(url=url)
    stored.key = environ.get("BERTH_CLI_KEY") or stored.key
    stored.tenant = environ.get("BERTH_CLI_TENANT") or stored.tenant
    return stored


def _read(path: Path) -> Credentials:
    try:
        data = json.loads(path.read_text())
        return Credentials(
            url=str(data["url"]),
            key=str(data.get("key", "")),
            tenant=str(data.get("tenant", "")),
            cookies={str(name): str(value) for name, value in data.get("cookies", {}).items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Credentials()


def save(credentials: Credentials, environ: Mapping[str, str]) -> Path:
    """Atomic, and 0600 from its first byte on."""
    path = config_file(environ)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(credentials), file)
    draft.replace(path)
    return path


def forget(environ: Mapping[str, str]) -> None:
    config_file(environ).unlink(missing_ok=True)
