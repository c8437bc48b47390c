"""``GET /metrics`` of web and gateway: to this machine, or to whoever has BERTH_METRICS_TOKEN.

Behind a proxy on the same host every caller is local, so a request that was forwarded is not. With a token set it is
asked of everybody.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping

from django.db import connection
from prometheus_client import CollectorRegistry
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from berth.config import CONFIG
from scheduler.metrics_port import CONTENT_TYPE, allowed, render

PATH = "/metrics"
_FORWARDED = (b"x-forwarded-for", b"x-real-ip", b"forwarded", b"via")


class MetricsApp:
    """A plain ASGI application. Collectors may ask the database, so they run in a thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._answer(scope))(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            return Response("Metrics are read by GET.\n", 405, {"allow": "GET, HEAD"})
        headers = dict(scope["headers"])
        if CONFIG.metrics_token:
            if not allowed(headers.get(b"authorization", b"").decode("latin-1"), CONFIG.metrics_token):
                return Response("A bearer token is needed.\n", 401, {"www-authenticate": "Bearer"})
        elif not is_local(scope, headers):
            text = "Metrics are for this machine; set BERTH_METRICS_TOKEN to read them from another.\n"
            return Response(text, 403)
        body = await asyncio.to_thread(self._rendered)
        return Response(body, 200, media_type=CONTENT_TYPE)

    def _rendered(self) -> bytes:
        try:
            return render(self._registry)
        finally:
            connection.close()  # of this thread: back to the pool


def is_local(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    client = scope.get("client")
    if client is None or any(name in headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False
