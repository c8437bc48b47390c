"""Sends what is due, each message in bounded time, and notes how it went."""

from __future__ import annotations

import asyncio
import json
import logging
import smtplib
import time
from collections.abc import Sequence
from http import HTTPStatus

import aiohttp
from django.core.mail import send_mail
from yarl import URL

from berth.alerts import addresses, messages, services
from berth.alerts.models import Delivery, Kind

TIMEOUT_S = 10.0
ANSWER_BYTES = 2048

log = logging.getLogger(__name__)


def deliver(deliveries: Sequence[Delivery]) -> None:
    """Webhooks side by side, mails one after another."""
    hooks = [one for one in deliveries if one.route.kind == Kind.WEBHOOK]
    outcomes = asyncio.run(_post_all(hooks)) if hooks else []
    for one, (error, final) in zip(hooks, outcomes, strict=True):
        _note(one, error, final=final)
    for one in deliveries:
        if one.route.kind == Kind.MAIL:
            _note(one, _mail(one), final=False)


def _note(delivery: Delivery, error: str, *, final: bool) -> None:
    if error:
        log.warning("alert_not_delivered", extra={"delivery": delivery.id, "route": delivery.route_id, "error": error})
    services.note_attempt(delivery=delivery, error=error, final=final)


async def _post_all(deliveries: Sequence[Delivery]) -> list[tuple[str, bool]]:
    connector = aiohttp.TCPConnector(resolver=addresses.PublicResolver(), limit=8, force_close=True)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
    ) as session:
        return await asyncio.gather(*(_post(session, one) for one in deliveries))


async def _post(session: aiohttp.ClientSession, delivery: Delivery) -> tuple[str, bool]:
    """(why it did not arrive or "", whether trying again is of no use)."""
    try:
        status = await _answer(session, delivery)
    except addresses.Refused as error:
        return str(error), True
    except aiohttp.ClientConnectorError as error:
        inner = error.os_error
        if isinstance(inner, addresses.Refused):
            return str(inner), True
        return f"cannot connect: {inner.strerror or inner}", False
    except TimeoutError:
        return f"no answer within {TIMEOUT_S:g} s", False
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}", False
    return ("" if 200 <= status < 300 else f"the receiver answered {status}"), status == HTTPStatus.GONE


async def _answer(session: aiohttp.ClientSession, delivery: Delivery) -> int:
    """Posts it once; the status. A redirect is an answer like any other that is not 2xx."""
    target = URL(delivery.route.target)
    addresses.check_literal(target.host or "")  # aiohttp asks its resolver about names only
    body = json.dumps(delivery.body, separators=(",", ":")).encode()
    now = int(time.time())
    secret = messages.signing_secret(delivery.route_id)
    headers = {
        "content-type": "application/json",
        "user-agent": "Berth-Alerts/1",
        "webhook-id": delivery.id,
        "webhook-timestamp": str(now),
        "webhook-signature": messages.signature(secret, delivery.id, now, body),
    }
    async with session.post(target, data=body, headers=headers, allow_redirects=False) as answer:
        await answer.content.read(ANSWER_BYTES)
        return answer.status


def _mail(delivery: Delivery) -> str:
    subject, text = messages.mail_of(delivery.body)
    try:
        send_mail(subject, text, None, [delivery.route.target])
    except (OSError, smtplib.SMTPException) as error:
        return f"{type(error).__name__}: {error}"
    return ""
