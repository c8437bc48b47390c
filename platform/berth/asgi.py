"""Berth's one ASGI application: a dispatcher by path, and the lifespan of what lives as long as the process.

    /v1          gateway: the OpenAI-compatible endpoint          role all, gateway
    /internal    model files for agents                           role all, web
    /ws/*        websockets of agents, runtimes and consoles      role all, web
    /healthz     this process answers; /readyz: database and Redis answer too, or a gateway alone has a snapshot
    /metrics     Prometheus, for this machine or with a token
    the rest     Django: REST and the console                     role all, web

No torch and no transformers is imported here or below (a test).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from functools import partial
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "berth.settings")

from django.core.asgi import get_asgi_application

_django: Any = get_asgi_application()  # sets Django up: models may be imported from here on

from django.conf import settings  # noqa: E402
from starlette.types import ASGIApp, Receive, Scope, Send  # noqa: E402

from berth.bounded_body import BoundedBody  # noqa: E402
from berth.config import CONFIG  # noqa: E402
from berth.core.ids import new_id  # noqa: E402
from berth.gateway.app import Gateway  # noqa: E402
from berth.gateway.errors import ApiError, send_error  # noqa: E402
from berth.gateway.keeper import Keeper  # noqa: E402
from berth.health import health_app  # noqa: E402
from berth.live.files import files_app  # noqa: E402
from berth.live.routing import websocket_app  # noqa: E402
from berth.metering.aggregator import Aggregator  # noqa: E402
from berth.observability.endpoint import PATH as METRICS  # noqa: E402
from berth.observability.endpoint import MetricsApp  # noqa: E402
from berth.observability.web import registry_of  # noqa: E402
from berth.security_headers import SecurityHeaders  # noqa: E402

log = logging.getLogger(__name__)
_rest: ASGIApp = BoundedBody(_django)


class Application:
    """``role``: all, web or gateway (BERTH_ROLE)."""

    def __init__(self, role: str, redis_url: str) -> None:
        self.gateway = Gateway(redis_url, Keeper) if role in ("all", "gateway") else None
        self.aggregator = Aggregator(redis_url) if role in ("all", "web") else None
        self._web = role in ("all", "web")
        self._metrics = MetricsApp(registry_of(self.gateway, self.aggregator))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope["path"])(scope, receive, send)
        elif self._web and scope["path"].startswith("/ws/"):
            await websocket_app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 4404})

    def _http(self, path: str) -> ASGIApp:
        if path.startswith("/v1/") or path == "/v1":
            return self.gateway or _nothing_here
        if path in ("/healthz", "/readyz"):
            return health_app if self._web else partial(health_app, has_snapshot=self._has_snapshot)
        if path == METRICS:
            return self._metrics
        if not self._web:
            return _nothing_here
        app: ASGIApp = files_app if path.startswith("/internal/") else _rest
        return app

    def _has_snapshot(self) -> bool:
        return self.gateway is not None and self.gateway.keeper.current.version >= 0

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            try:
                if message["type"] == "lifespan.startup":
                    await self._start()
                    await send({"type": "lifespan.startup.complete"})
                else:
                    await self._stop()
                    await send({"type": "lifespan.shutdown.complete"})
                    return
            except Exception as error:
                log.exception("lifespan_failed")
                await send({"type": f"{message['type']}.failed", "message": f"{type(error).__name__}: {error}"})
                return

    async def _start(self) -> None:
        if self.gateway is not None:
            await self.gateway.start()
        if self.aggregator is not None:
            self.aggregator.start()
        # A full collection would walk all of Django's objects, and every stream would wait for it.
        gc.collect()
        gc.freeze()

    async def _stop(self) -> None:
        if self.aggregator is not None:
            await asyncio.to_thread(self.aggregator.stop)
        if self.gateway is not None:
            await self.gateway.stop()


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    await send_error(send, ApiError(404, "This process does not serve that path.", code="unknown_url"), new_id("req"))


application = SecurityHeaders(Application(CONFIG.role, settings.REDIS_URL))
