"""Django's mail settings from one URL: ``smtp://[USER:PASSWORD@]HOST[:PORT][?from=ADDRESS]``, or ``smtps://``.

``smtp`` upgrades to TLS where the server offers a port for it (587) or ``?tls=1`` says so; ``smtps`` is TLS from the
start. ``file:///FOLDER`` writes mails into a folder and ``console:`` to the log, for trying.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

BACKENDS = "django.core.mail.backends"
TIMEOUT_S = 10


def mail_settings(url: str) -> dict[str, Any]:
    """Raises ``BadConfiguration`` for what is no such URL. Empty: no mail can be sent."""
    from berth.config import BadConfiguration

    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadConfiguration(f"BERTH_SMTP_URL: {error}") from error
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    sender = query.get("from") or (parts.username and "@" in unquote(parts.username) and unquote(parts.username))
    found: dict[str, Any] = {"EMAIL_HOST": "", "DEFAULT_FROM_EMAIL": sender or f"berth@{host or 'localhost'}"}
    if not url:
        return found
    if parts.scheme == "file" and parts.path:
        return found | {
            "EMAIL_BACKEND": f"{BACKENDS}.filebased.EmailBackend",
            "EMAIL_FILE_PATH": parts.path,
        }
    if parts.scheme == "console":
        return found | {"EMAIL_BACKEND": f"{BACKENDS}.console.EmailBackend"}
    if parts.scheme not in ("smtp", "smtps") or not host:
        raise BadConfiguration(
            "BERTH_SMTP_URL: expected smtp://[USER:PASSWORD@]HOST[:PORT][?from=ADDRESS], or smtps://"
        )
    encrypted = parts.scheme == "smtps"
    port = port or (465 if encrypted else 25)
    return found | {
        "EMAIL_HOST": host,
        "EMAIL_PORT": port,
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": encrypted,
        "EMAIL_USE_TLS": not encrypted and (port == 587 or query.get("tls") == "1"),
        "EMAIL_TIMEOUT": TIMEOUT_S,
    }
