"""The way to a door: one HTTP request, with what remains of the service level as durations."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import aiohttp
import msgspec

from berth.gateway.snapshot import Replica, Route
from berth.metering.records import OpenRecord
from gpuruntime.protocol import (
    CREATED,
    LOAD,
    MARKS,
    REQUEST_ID,
    SALT,
    SLO_FREE_TOKENS,
    SLO_PREFILL_RATE,
    SLO_TPOT_MS,
    SLO_TTFT_MS,
    TENANT,
    WEIGHT,
    WHEN_LATE,
)

CONNECT_S = 1.0
SILENCE_S = 300.0
KEEPALIVE_S = 30.0  # below the doors' 75 s: a connection is never reused while its door closes it


class DoorLost(Exception):
    """The connection was refused (``connected`` False), reset or ended early."""

    def __init__(self, message: str, *, connected: bool = True) -> None:
        super().__init__(message)
        self.connected = connected


class DoorRefused(Exception):
    """The door answered, and not with a stream. ``code`` is its error's code."""

    def __init__(self, status: int, code: str, body: bytes, retry_after: bytes | None) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code
        self.body = body
        self.retry_after = retry_after


class _Error(msgspec.Struct):
    message: str
    type: str | None = None
    param: str | None = None
    code: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _Error


def new_session() -> aiohttp.ClientSession:
    """One a process. It follows no proxy, keeps no cookie and limits no number of connections: doors have queues."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        trust_env=False,
    )


def door_headers(replica: Replica, route: Route, opened: OpenRecord, elapsed_ms: float) -> dict[str, str]:
    """Only our own: what a client sent under these names went no further than the gateway."""
    headers = {
        "Authorization": f"Bearer {replica.token}",
        "Content-Type": "application/json",
        REQUEST_ID: opened.request_id,
        CREATED: str(int(opened.at)),
        MARKS: "1",
        TENANT: route.tenant_id,
        SALT: route.salt,
        WEIGHT: f"{route.weight:g}",
    }
    if route.when_late != "queue":
        headers[WHEN_LATE] = route.when_late
    level = route.level
    if level.base_ms is not None:
        headers[SLO_TTFT_MS] = f"{max(0.0, level.base_ms - elapsed_ms):.1f}"
        headers[SLO_FREE_TOKENS] = str(level.free_prompt_tokens)
        if level.prefill_tokens_per_s:
            headers[SLO_PREFILL_RATE] = str(level.prefill_tokens_per_s)
    if level.tpot_ms is not None:
        headers[SLO_TPOT_MS] = str(level.tpot_ms)
    return headers


@contextlib.asynccontextmanager
async def open_stream(
    session: aiohttp.ClientSession, replica: Replica, path: str, headers: dict[str, str], body: bytes
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A door's stream. Raises ``DoorLost`` and ``DoorRefused``, also for what happens while it is read.

    Leaving early closes the connection, which cancels the generation.
    """
    try:
        async with session.post(f"{replica.url}{path}", data=body, headers=headers) as answer:
            if answer.status != 200:
                raise _refusal(answer, await answer.read())
            yield answer
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        connected = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
        raise DoorLost(str(error) or type(error).__name__, connected=connected) from error


def load_of(answer: aiohttp.ClientResponse) -> str | None:
    return answer.headers.get(LOAD)


def _refusal(answer: aiohttp.ClientResponse, body: bytes) -> DoorRefused:
    code = error_code(body)
    retry = answer.headers.get("retry-after")
    return DoorRefused(answer.status, code or "", b"" if code is None else body, retry.encode() if retry else None)


def error_code(body: bytes) -> str | None:
    """The code of an error object; None for a body that is none."""
    try:
        return msgspec.json.decode(body, type=_ErrorBody).error.code or ""
    except msgspec.DecodeError:
        return None
