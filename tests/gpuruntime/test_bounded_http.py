"""The two limits of a request's head, on a real server and real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from gpuruntime import bounded_http
from gpuruntime.bounded_http import MAX_HEAD_BYTES, BoundedHttp
from helpers.patience import PATIENCE_S


async def hello(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    if scope["path"] == "/slow":
        await asyncio.sleep(0.6)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    monkeypatch.setattr(bounded_http, "HEAD_TIMEOUT_S", 0.3)
    config = uvicorn.Config(hello, port=0, http=BoundedHttp, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event to wait for
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await task


async def answer_to(port: int, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except (ConnectionResetError, BrokenPipeError):
        return b"reset"
    finally:
        writer.close()


async def test_a_head_that_does_not_end_is_cut_off(port: int) -> None:
    line = b"x-filler: " + b"a" * 8000 + b"\r\n"
    pieces = [b"GET / HTTP/1.1\r\n", *[line] * (2 * MAX_HEAD_BYTES // len(line))]
    answer = await answer_to(port, *pieces, pause_s=0.001)
    assert answer.startswith(b"HTTP/1.1 400") or answer == b"reset"
    one_value = [b"GET / HTTP/1.1\r\nx-filler: ", *[b"a" * 8000] * (2 * MAX_HEAD_BYTES // 8000)]
    assert (await answer_to(port, *one_value, pause_s=0.001)).startswith((b"HTTP/1.1 400", b"reset"))


async def test_a_head_that_does_not_come_is_not_waited_for(port: int) -> None:
    for start in (b"", b"GET / HTTP/1.1\r\nhost: a\r\n"):
        assert await answer_to(port, start) == b""
    dribble = [bytes([byte]) for byte in b"GET / HTTP/1.1\r\nx-slow: " + b"a" * 30]
    assert await answer_to(port, *dribble, pause_s=0.02) in (b"", b"reset")


async def test_what_is_usual_passes(port: int) -> None:
    large = b"GET / HTTP/1.1\r\nconnection: close\r\nx-large: " + b"a" * 30_000 + b"\r\n\r\n"
    assert (await answer_to(port, large)).endswith(b"hello")
    body = b"POST / HTTP/1.1\r\nconnection: close\r\ncontent-length: 1000000\r\n\r\n" + b"b" * 1_000_000
    assert (await answer_to(port, body)).endswith(b"hello")


async def test_a_head_may_come_while_the_answer_before_it_is_made(port: int) -> None:
    """Its own time begins when that answer is complete."""
    first = b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost:"
    rest = b" a\r\nconnection: close\r\n\r\n"
    answer = await answer_to(port, first, b"", rest, pause_s=0.25)
    assert answer.count(b"hello") == 2
