"""Django behind a limit on bodies. By itself it spools a body of any size to disk before it asks who sends it."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from berth.api.errors import CONTENT_TYPE, problem
from berth.api.parsers import MAX_BODY_BYTES

BODY_TIMEOUT_S = 30.0


class _Refused(Exception):
    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


class BoundedBody:
    """Hands ``app`` a request with its whole body. Too large a body is 413, one that does not come is 408."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                first = await _whole(receive, dict(scope["headers"]))
        except TimeoutError:
            await _refuse(send, _Refused(408, "body_timeout", f"The body did not arrive within {BODY_TIMEOUT_S:g} s"))
            return
        except _Refused as refused:
            await _refuse(send, refused)
            return
        told: list[Message] = [first]

        async def replay() -> Message:
            return told.pop() if told else await receive()

        await self._app(scope, replay, send)


async def _whole(receive: Receive, headers: dict[bytes, bytes]) -> Message:
    """The body as one message, or that the client left."""
    too_large = _Refused(413, "too_large", f"The body is larger than {MAX_BODY_BYTES} bytes")
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        raise too_large
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise too_large
        if not message.get("more_body", False):
            return {"type": "http.request", "body": bytes(body), "more_body": False}


async def _refuse(send: Send, refused: _Refused) -> None:
    body = msgspec.json.encode(problem(refused.status, refused.code, refused.detail))
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
