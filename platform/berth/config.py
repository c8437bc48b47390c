"""Berth's settings: read once from BERTH_* by name; an unknown or malformed one stops the start and says which."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlsplit

ROLES = ("all", "web", "gateway")


class BadConfiguration(SystemExit):
    """Stops the process with one line that names the variable."""

    def __init__(self, message: str) -> None:
        super().__init__(f"berth: {message}")


@dataclass(frozen=True)
class Config:
    """One field a variable: ``home`` is BERTH_HOME. Empty URLs mean the embedded services below ``home``."""

    home: Path = Path("var")
    role: str = "all"
    host: str = "127.0.0.1"
    port: int = 8000
    public_url: str = ""
    database_url: str = ""
    redis_url: str = ""
    secrets_dir: str = ""
    allowed_hosts: str = "localhost,127.0.0.1,[::1]"
    model_roots: str = ""
    hub_url: str = "https://huggingface.co"
    tenant_model_bytes: int = 100 << 30
    debug: bool = False
    cpu_shares: int = 4
    node_token: str = ""
    model_cache_bytes: int = 50 << 30
    vllm_bin: str = ""
    mps_control: str = ""
    provider: str = "cpu"
    simulated_file: str = ""
    log_level: str = "INFO"
    metrics_token: str = ""
    scheduler_metrics: str = ""
    agent_metrics: str = ""
    otlp_endpoint: str = ""
    smtp_url: str = ""
    webhook_private: bool = False
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = ""
    oidc_domains: str = ""
    oidc_label: str = "single sign-on"
    password_signin: bool = True

    @property
    def secrets(self) -> Path:
        """The folder of the platform's secrets; ``core.secrets.folder`` makes it."""
        return Path(self.secrets_dir) if self.secrets_dir else self.home / "secrets"

    @property
    def allowed_model_roots(self) -> list[Path]:
        """Directories below which an operator may register local files."""
        return [Path(p).resolve() for p in self.model_roots.split(":") if p]

    @property
    def oidc_email_domains(self) -> frozenset[str]:
        """Domains of the addresses that the provider may vouch for; none: all of them."""
        return frozenset(domain.strip().lower() for domain in self.oidc_domains.split(",") if domain.strip())


def _bool(text: str) -> bool:
    if text.lower() in {"1", "true", "yes"}:
        return True
    if text.lower() in {"0", "false", "no", ""}:
        return False
    raise ValueError("expected true or false")


_PARSERS: Mapping[Any, Callable[[str], Any]] = {
    int: int,
    str: str,
    bool: _bool,
    Path: lambda text: Path(text).expanduser().resolve(),
}


def load(environ: Mapping[str, str]) -> Config:
    """The configuration in ``environ``. Raises ``BadConfiguration`` naming the first variable that is wrong."""
    types = get_type_hints(Config)
    known = {f"BERTH_{f.name.upper()}": f.name for f in fields(Config)}
    values: dict[str, Any] = {}
    for variable, text in environ.items():
        if not variable.startswith("BERTH_") or variable.startswith("BERTH_CLI_"):  # the command line reads its own
            continue
        if variable not in known:
            close = difflib.get_close_matches(variable, known, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise BadConfiguration(f"{variable} is not a setting.{hint}")
        name = known[variable]
        try:
            values[name] = _PARSERS[types[name]](text)
        except ValueError as error:
            raise BadConfiguration(f"{variable}={text!r}: {error}") from error
    config = Config(**{"home": Path("var").resolve(), **values})
    if config.role not in ROLES:
        raise BadConfiguration(f"BERTH_ROLE={config.role!r}: expected one of {', '.join(ROLES)}")
    if not 0 <= config.port < 65536:
        raise BadConfiguration(f"BERTH_PORT={config.port}: expected 0 to 65535")
    if config.hub_url and not config.hub_url.startswith(("https://", "http://")):
        raise BadConfiguration(f"BERTH_HUB_URL={config.hub_url!r}: expected https://..., or nothing for no hub")
    if config.cpu_shares < 1:
        raise BadConfiguration(f"BERTH_CPU_SHARES={config.cpu_shares}: expected 1 or more")
    _check_oidc(config)
    return config


def _check_oidc(config: Config) -> None:
    issuer = urlsplit(config.oidc_issuer)
    local = issuer.scheme == "http" and issuer.hostname in ("localhost", "127.0.0.1", "::1")
    if config.oidc_issuer and not (issuer.scheme == "https" or local):
        raise BadConfiguration(
            f"BERTH_OIDC_ISSUER={config.oidc_issuer!r}: expected https://..., as the provider names itself"
        )
    if bool(config.oidc_issuer) != bool(config.oidc_client_id):
        raise BadConfiguration("BERTH_OIDC_ISSUER and BERTH_OIDC_CLIENT_ID: expected both, or neither")
    if not config.password_signin and not config.oidc_issuer:
        raise BadConfiguration("BERTH_PASSWORD_SIGNIN=false: expected BERTH_OIDC_ISSUER, or nobody could sign in")


CONFIG = load(os.environ)
