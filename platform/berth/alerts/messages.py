"""What is said: the JSON of a webhook, its signature, and the mail. Never a key, a prompt or a token's text.

Signed as Standard Webhooks 1.0 says: ``webhook-id``, ``webhook-timestamp`` and ``webhook-signature: v1,BASE64`` of
HMAC-SHA256 over "ID.TIMESTAMP.BODY".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import datetime
from typing import Any

from django.conf import settings

from berth.alerts.models import Alert, Route, Rule, State
from berth.core.secrets import hmac_hex, secret

PREFIX = "whsec_"


def signing_secret(route_id: str) -> str:
    """A route's own, derived, so that it is stored nowhere."""
    digest = hmac_hex(bytes.fromhex(secret("replica_key")), f"webhook:{route_id}")
    return PREFIX + base64.b64encode(bytes.fromhex(digest)).decode()


def signature(secret_text: str, message_id: str, timestamp: int, body: bytes) -> str:
    key = base64.b64decode(secret_text.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def alert_body(alert: Alert) -> dict[str, Any]:
    return {
        "type": f"alert.{alert.state}",
        "alert": {
            "id": alert.id,
            "rule": alert.rule,
            "title": Rule(alert.rule).label,
            "severity": alert.severity,
            "state": alert.state,
            "summary": alert.summary,
            "tenant": alert.tenant.slug if alert.tenant is not None else None,
            "subject": {"kind": alert.subject_kind, "id": alert.subject_id, "name": alert.subject_name},
            "values": alert.values,
            "since": _time(alert.since),
            "fired_at": _time(alert.fired_at),
            "resolved_at": _time(alert.resolved_at),
        },
        "url": _console(),
    }


def test_body(route: Route, now: datetime) -> dict[str, Any]:
    return {"type": "alert.test", "route": route.id, "at": _time(now), "url": _console()}


def mail_of(body: dict[str, Any]) -> tuple[str, str]:
    """(subject, text) of a message."""
    if body["type"] == "alert.test":
        return "[Berth] Test", f"Alerts of Berth reach this address.\n\n{body['url']}\n"
    alert = body["alert"]
    word = "Resolved" if alert["state"] == State.RESOLVED else alert["severity"].capitalize()
    lines = [alert["summary"], "", f"Subject   {alert['subject']['kind']} {alert['subject']['name']}"]
    if alert["tenant"]:
        lines.append(f"Tenant    {alert['tenant']}")
    lines.append(f"Since     {alert['since']}")
    if alert["resolved_at"]:
        lines.append(f"Resolved  {alert['resolved_at']}")
    title = f"[Berth] {word}: {alert['title']} ({alert['subject']['name']})"
    return title.replace("\n", " "), "\n".join([*lines, "", body["url"], ""])


def mail_is_set_up() -> bool:
    return bool(settings.EMAIL_HOST) or not settings.EMAIL_BACKEND.endswith("smtp.EmailBackend")


def _time(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat(timespec="seconds")


def _console() -> str:
    from berth.config import CONFIG

    return CONFIG.public_url or f"http://{CONFIG.host}:{CONFIG.port}"
