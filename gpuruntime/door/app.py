"""The door's HTTP application: token check, routes, and the load on every response."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable

import msgspec
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuruntime.door.chat import Chat
from gpuruntime.door.completions import Completions
from gpuruntime.door.embeddings import EmbeddingEndpoint
from gpuruntime.door.errors import ApiError
from gpuruntime.door.generate import GenerateEndpoint
from gpuruntime.door.replica import Replica
from gpuruntime.door.respond import send_error, send_json
from gpuruntime.door.tokenizing import Tokenizing, detokenize, tokenize
from gpuruntime.protocol import LOAD

MODELS = "/v1/models"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def build_app(replica: Replica) -> ASGIApp:
    return Door(replica)


class Door:
    """Around everything: checks the token, finds the endpoint, adds ``x-berth-load`` as the response starts.

    A plain dictionary for a router: a frame passes no layer between its endpoint and the server.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._token = replica.config.token.encode()
        self._created = int(time.time())
        self._routes: dict[str, tuple[str, Callable[[Scope, Receive, Send], Awaitable[None]]]] = {
            "/v1/chat/completions": ("POST", GenerateEndpoint(replica, Chat())),
            "/v1/completions": ("POST", GenerateEndpoint(replica, Completions())),
            "/v1/embeddings": ("POST", EmbeddingEndpoint(replica)),
            "/tokenize": ("POST", Tokenizing(replica, tokenize)),
            "/detokenize": ("POST", Tokenizing(replica, detokenize)),
            MODELS: ("GET", self._models),
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        def send_with_load(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                load = self._replica.load().header().encode()
                message["headers"] = [*message["headers"], (LOAD.encode(), load)]
            return send(message)

        path, method = scope["path"], scope["method"]
        if path != "/health" and not self._allowed(Headers(scope=scope)):
            error = ApiError(401, "The bearer token is missing or wrong.", code="invalid_api_key")
            await send_error(send_with_load, error)
            return
        wanted, endpoint = self._routes.get(path) or ("GET", self._model if path.startswith(f"{MODELS}/") else None)
        if endpoint is None:
            text = f"{method} {path[:200]} is not offered here."
            await send_error(send_with_load, ApiError(404, text, code="not_found"))
        elif method != wanted and not (method == "HEAD" and wanted == "GET"):
            text = f"{path[:200]} takes {wanted}, not {method}."
            await send_error(send_with_load, ApiError(405, text, code="method_not_allowed"), allow=wanted)
        else:
            await endpoint(scope, receive, send_with_load)

    def _allowed(self, headers: Headers) -> bool:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token)

    async def _health(self, _: Scope, __: Receive, send: Send) -> None:
        replica = self._replica
        ready = replica.state == "ready"
        body = msgspec.json.encode({"state": replica.state, "reason": replica.reason})
        await send_json(send, 200 if ready else 503, body, {} if ready else {"retry-after": "1"})

    async def _metrics(self, _: Scope, __: Receive, send: Send) -> None:
        await send_json(send, 200, self._replica.metrics.render(), kind=METRICS_TYPE)

    async def _models(self, _: Scope, __: Receive, send: Send) -> None:
        await send_json(send, 200, msgspec.json.encode({"object": "list", "data": [self._described()]}))

    async def _model(self, scope: Scope, _: Receive, send: Send) -> None:
        try:
            self._replica.require_model(scope["path"].removeprefix(f"{MODELS}/"))
        except ApiError as error:
            await send_error(send, error)
            return
        await send_json(send, 200, msgspec.json.encode(self._described()))

    def _described(self) -> dict[str, object]:
        info = self._replica.info
        return {
            "id": self._replica.config.served_model_name,
            "object": "model",
            "created": self._created,
            "owned_by": "berth",
            "max_model_len": None if info is None else info.max_model_len,
        }
