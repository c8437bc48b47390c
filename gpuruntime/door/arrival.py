"""What a request brings: its body and the headers of our own gateway."""

from __future__ import annotations

import re
import uuid

from starlette.datastructures import Headers
from starlette.types import Receive

from gpuruntime.door.admission import Slo
from gpuruntime.door.errors import ApiError
from gpuruntime.openai_api import MAX_BODY_BYTES
from gpuruntime.protocol import (
    REQUEST_ID,
    SLO_FREE_TOKENS,
    SLO_PREFILL_RATE,
    SLO_TPOT_MS,
    SLO_TTFT_MS,
    WHEN_LATE,
    WhenLate,
)

_WHEN_LATE: dict[str, WhenLate] = {"degrade": "degrade", "refuse": "refuse"}
_PLAIN_ID = re.compile(r"[\w.:-]{1,128}")


class ClientLeft(Exception):
    """The client closed the connection while its body was read."""


def request_id_of(headers: Headers) -> str:
    given = headers.get(REQUEST_ID, "")
    return given if _PLAIN_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"


def read_slo(headers: Headers) -> Slo:
    """A malformed duration counts as none: it comes from our own gateway or from nobody."""
    return Slo(
        ttft_ms=number_of(headers, SLO_TTFT_MS),
        free_tokens=number_of(headers, SLO_FREE_TOKENS) or 0.0,
        prefill_rate=number_of(headers, SLO_PREFILL_RATE),
        tpot_ms=number_of(headers, SLO_TPOT_MS) or None,
        when_late=_WHEN_LATE.get(headers.get(WHEN_LATE, ""), "queue"),
    )


def number_of(headers: Headers, name: str) -> float | None:
    try:
        value = float(headers.get(name, ""))
    except ValueError:
        return None
    return value if 0 <= value < 1e12 else None


async def read_body(receive: Receive, most: int = MAX_BODY_BYTES) -> bytes:
    """The whole body. Raises ``ClientLeft`` and ``ApiError`` 413."""
    chunks, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > most:
            raise ApiError(413, f"The body is over {most} bytes.", code="body_too_large")
        if not message.get("more_body", False):
            return b"".join(chunks)
