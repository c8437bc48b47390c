"""What Django needs for the provider's sign-in: nothing where none is configured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from berth.config import BadConfiguration, Config

SECRET_FILE = "oidc_client_secret"  # noqa: S105 - its name
CALLBACK = "oidc/callback"


@dataclass(frozen=True)
class Setup:
    """``settings``: further settings of Django."""

    apps: list[str] = field(default_factory=list)
    middleware: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


def oidc_setup(config: Config) -> Setup:
    """Raises ``BadConfiguration`` where the client's secret is missing."""
    if not config.oidc_issuer:
        return Setup()
    client_secret(config)
    return Setup(
        apps=["allauth", "allauth.account", "allauth.socialaccount"],
        middleware=["allauth.account.middleware.AccountMiddleware"],
        settings={
            # No table of theirs is made: a backup goes into any house, with a provider or without.
            "MIGRATION_MODULES": {"account": None, "socialaccount": None},
            "ACCOUNT_USER_MODEL_USERNAME_FIELD": None,
            "ACCOUNT_LOGIN_METHODS": {"email"},
            "ACCOUNT_SIGNUP_FIELDS": ["email*"],
            "ACCOUNT_EMAIL_VERIFICATION": "none",
            "SOCIALACCOUNT_ADAPTER": "berth.oidc.adapter.Adapter",
            "SOCIALACCOUNT_REQUESTS_TIMEOUT": 5,
        },
    )


def client_secret(config: Config) -> str:
    """From the variable, or else from the file beside the other secrets."""
    if config.oidc_client_secret:
        return config.oidc_client_secret
    path = config.secrets / SECRET_FILE
    try:
        return path.read_text().strip()
    except OSError as error:
        raise BadConfiguration(f"BERTH_OIDC_CLIENT_SECRET is empty and {path}: {error.strerror}") from error
