"""The door's HTTP application: token check, routes, and the load on every response."""

from __future__ import annotations

import hmac
import time

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuruntime.door.chat import ChatEndpoint
from gpuruntime.door.errors import ApiError
from gpuruntime.door.replica import Replica
from gpuruntime.door.respond import send_error
from gpuruntime.openai_api import error_object
from gpuruntime.protocol import LOAD


def build_app(replica: Replica) -> ASGIApp:
    async def health(_: Request) -> Response:
        body = msgspec.json.encode({"state": replica.state, "reason": replica.reason})
        ready = replica.state == "ready"
        headers = {} if ready else {"retry-after": "1"}
        return Response(body, 200 if ready else 503, headers, "application/json")

    created = int(time.time())

    async def models(_: Request) -> Response:
        info = replica.info
        model = {
            "id": replica.config.served_model_name,
            "object": "model",
            "created": created,
            "owned_by": "berth",
            "max_model_len": None if info is None else info.max_model_len,
        }
        return Response(msgspec.json.encode({"object": "list", "data": [model]}), media_type="application/json")

    async def metrics(_: Request) -> Response:
        return Response(replica.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    app = Starlette(
        routes=[
            Route("/v1/chat/completions", ChatEndpoint(replica), methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
            Route("/metrics", metrics),
        ],
        exception_handlers={HTTPException: _http_error},
    )
    return Door(app, replica)


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    text = f"{request.method} {request.url.path} is not offered here."
    code = "method_not_allowed" if status == 405 else "not_found"
    headers = error.headers if isinstance(error, HTTPException) else None
    return Response(error_object(status, text, None, code), status, headers, "application/json")


class Door:
    """Around everything: checks the token, adds ``x-berth-load`` as the response starts."""

    def __init__(self, app: ASGIApp, replica: Replica) -> None:
        self._app = app
        self._replica = replica
        self._token = replica.config.token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_load(message: Message) -> None:
            if message["type"] == "http.response.start":
                load = self._replica.load().header().encode()
                message["headers"] = [*message["headers"], (LOAD.encode(), load)]
            await send(message)

        if scope["path"] != "/health" and not self._allowed(Headers(scope=scope)):
            error = ApiError(401, "The bearer token is missing or wrong.", code="invalid_api_key")
            await send_error(send_with_load, error)
            return
        await self._app(scope, receive, send_with_load)

    def _allowed(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token)
