"""What ``/v1`` says when something is wrong: OpenAI's error object, always with all four keys."""

from __future__ import annotations

import math
from collections.abc import Iterable

from starlette.types import Send

from gpuruntime.openai_api import error_object

Headers = Iterable[tuple[bytes, bytes]]


class ApiError(Exception):
    """An answer that is not 200. ``type``: another than the status's.

    ``retry_after_s`` becomes the header Retry-After, in whole seconds.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        type: str | None = None,
        param: str | None = None,
        retry_after_s: float | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.type = type
        self.param = param
        self.headers = list(headers)
        if retry_after_s is not None:
            self.headers.append((b"retry-after", b"%d" % max(1, math.ceil(retry_after_s))))

    def body(self) -> bytes:
        return error_object(self.status, self.message, self.param, self.code, self.type)


class PassedError(ApiError):
    """A door's own error: its body goes to the client as it is."""

    def __init__(self, status: int, body: bytes, code: str, headers: Headers = ()) -> None:
        super().__init__(status, "", code=code, headers=headers)
        self._body = body

    def body(self) -> bytes:
        return self._body


def bad_request(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    return ApiError(400, message, param=param, code=code)


async def send_error(send: Send, error: ApiError, request_id: str, extra: Headers = ()) -> None:
    await send_json(send, error.status, error.body(), request_id, [*error.headers, *extra])


async def send_json(send: Send, status: int, body: bytes, request_id: str, extra: Headers = ()) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", request_id.encode()),
        *extra,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
