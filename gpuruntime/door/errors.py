"""What a client is told when something is wrong: OpenAI's error object, always with all four keys."""

from __future__ import annotations

import math

from gpuruntime.openai_api import error_object


class ApiError(Exception):
    """An answer that is not 200. ``retry_after_s`` becomes the header Retry-After, in whole seconds."""

    def __init__(
        self, status: int, message: str, *, code: str, param: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s

    def body(self) -> bytes:
        return error_object(self.status, self.message, self.param, self.code)

    def headers(self) -> dict[str, str]:
        if self.retry_after_s is None:
            return {}
        found = {"retry-after": str(max(1, math.ceil(self.retry_after_s)))}
        if self.status == 429:  # clients that know the header retry one anyway; those of a queue must not give up
            found["x-should-retry"] = "true"
        return found


def bad_request(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    return ApiError(400, message, param=param, code=code)
