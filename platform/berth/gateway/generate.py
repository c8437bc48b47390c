"""A request for text: who asks, what, under which contract; then the exchange. A plain ASGI handler."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from starlette.types import Receive, Send

from berth.core.ids import new_id
from berth.gateway.asked import Asked, Parse
from berth.gateway.auth import authenticate_soon
from berth.gateway.errors import ApiError, bad_request, send_error
from berth.gateway.exchange import Exchange, now_us
from berth.gateway.snapshot import DEFAULT_TIER, Key, Route, Snapshot
from berth.gateway.tracing import begin
from berth.metering.records import OpenRecord
from gpuruntime.openai_api import MAX_BODY_BYTES

if TYPE_CHECKING:
    from berth.gateway.app import Gateway

BODY_TIMEOUT_S = 30.0

log = logging.getLogger(__name__)


class ClientLeft(Exception):
    """The client closed the connection while its body was read."""


async def generate(gateway: Gateway, parse: Parse, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
    request_id = new_id("req")
    key: Key | None = None
    exchange: Exchange | None = None
    try:
        key = await authenticate_soon(headers.get(b"authorization", b"").decode("latin-1"), gateway.keeper)
        body = await read_body(receive, headers)
        arrived_us, at = now_us(), time.time()
        request = parse(body)
        route = find_route(gateway, key, request)
        gateway.count_ignored(request.unknown)
        opened = OpenRecord(
            request_id=request_id,
            tenant_id=key.tenant_id,
            deployment_id=route.deployment_id,
            deployment_name=route.model,
            key_id=key.id,
            contract_id=route.contract_id,
            contract_version=route.contract_version,
            class_name=route.class_name,
            at=at,
            stream=request.stream,
        )
        wants_verdict = headers.get(b"x-berth-verdict") == b"1"
        trace = begin(gateway.tracing, headers, opened, arrived_us)
        exchange = Exchange(
            gateway, route, request, opened, arrived_us, key_limits=key.limits, wants_verdict=wants_verdict, trace=trace
        )
        await exchange.run(receive, send)
    except ClientLeft:
        return
    except ApiError as error:
        gateway.refused[error.code] += 1  # the codes are our own: a door's error is answered by the exchange
        if key is not None and exchange is None:
            gateway.accounts.count_invalid(key.tenant_id)
        await send_error(send, error, request_id)
    except Exception:
        if exchange is not None:  # it answers for itself, and may have begun to
            raise
        log.exception("request_failed", extra={"request_id": request_id})
        failed = ApiError(500, "The gateway failed on this request.", code="internal_error")
        await send_error(send, failed, request_id)


def find_route(gateway: Gateway, key: Key, request: Asked) -> Route:
    """Under the class that the request's tier picks. Raises ``ApiError`` 400 for one that its contract does not allow.

    "auto" and "default" are the contract's own class; "fast" is OpenAI's other name of "priority".
    """
    route = route_of(gateway.keeper.current, key, request.model)
    tier = "priority" if request.tier == "fast" else request.tier
    if tier in (None, "auto", DEFAULT_TIER):
        return route
    if tier not in route.tiers:
        allowed = ", ".join(["auto", DEFAULT_TIER, *route.tiers])
        text = (
            f"Unsupported 'service_tier': the contract on '{route.model}' does not allow '{tier}'; it allows {allowed}."
        )
        raise bad_request(text, "service_tier", "unsupported_value")
    return route.at(tier)


def route_of(snapshot: Snapshot, key: Key, model: str) -> Route:
    """Raises ``ApiError`` 404, worded the same for what does not exist and what is another tenant's; 403 for a model
    of the tenant's that the key is not made for, with OpenAI's code."""
    route = snapshot.routes.get((key.tenant_id, model))
    if route is None:
        raise unknown_model(model)
    if not key.may_use(route.deployment_id):
        text = f"This API key does not have access to model '{model[:100]}'."
        raise ApiError(403, text, code="model_not_found", param="model")
    return route


def unknown_model(name: str) -> ApiError:
    text = f"The model '{name[:100]}' does not exist or you do not have access to it."
    return ApiError(404, text, code="model_not_found", param="model")


async def read_body(receive: Receive, headers: dict[bytes, bytes]) -> bytes:
    """The whole body. Raises ``ClientLeft`` and ``ApiError`` 413 or 408."""
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _read(receive)
    except TimeoutError as error:
        text = f"The body did not arrive within {BODY_TIMEOUT_S:g} s."
        raise ApiError(408, text, code="body_timeout", headers=[(b"connection", b"close")]) from error


async def _read(receive: Receive) -> bytes:
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > MAX_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return b"".join(chunks)


def _too_large() -> ApiError:
    return ApiError(
        413,
        f"The body is over {MAX_BODY_BYTES} bytes.",
        code="body_too_large",
        headers=[(b"connection", b"close")],
    )
