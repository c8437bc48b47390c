"""Answers over ASGI: whole JSON ones, and how a stream begins."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Send

from gpuruntime.door.errors import ApiError
from gpuruntime.protocol import REQUEST_ID


async def send_json(
    send: Send, status: int, body: bytes, headers: dict[str, str] | None = None, kind: str = "application/json"
) -> None:
    raw = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    raw += [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: ApiError, request_id: str = "", **more: str) -> None:
    headers = error.headers() | more
    if request_id:
        headers[REQUEST_ID] = request_id
    await send_json(send, error.status, error.body(), headers)


def stream_start(request_id: str, headers: Mapping[str, str]) -> dict[str, object]:
    return {
        "type": "http.response.start",
        "status": 200,
        "headers": [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache"),
            (REQUEST_ID.encode(), request_id.encode()),
            *((name.encode(), value.encode()) for name, value in headers.items()),
        ],
    }
