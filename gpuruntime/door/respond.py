"""Sends whole JSON answers over ASGI."""

from __future__ import annotations

from starlette.types import Send

from gpuruntime.door.errors import ApiError
from gpuruntime.protocol import REQUEST_ID


async def send_json(send: Send, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    raw = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    raw += [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: ApiError, request_id: str = "") -> None:
    headers = error.headers()
    if request_id:
        headers[REQUEST_ID] = request_id
    await send_json(send, error.status, error.body(), headers)
