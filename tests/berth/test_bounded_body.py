"""What reaches an application behind ``BoundedBody``, message by message."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from berth.bounded_body import BoundedBody


class Call:
    """One request: ``messages`` come one by one, then the client says nothing until it leaves."""

    def __init__(self, *messages: dict[str, Any], headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.messages = list(messages)
        self.seen: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.scope = {"type": "http", "headers": headers}

    async def receive(self) -> dict[str, Any]:
        if not self.messages:
            await asyncio.sleep(60)
        return self.messages.pop(0)

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        for _ in range(2):
            self.seen.append(await receive())

    async def run(self) -> None:
        await BoundedBody(self.app)(self.scope, self.receive, self.send)  # type: ignore[arg-type]

    @property
    def refusal(self) -> tuple[int, str]:
        start, body = self.sent
        return start["status"], json.loads(body["body"])["code"]


def chunk(data: bytes, more: bool) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": more}


LEFT = {"type": "http.disconnect"}


async def test_a_body_in_pieces_comes_whole_and_then_what_follows() -> None:
    call = Call(chunk(b"a", True), chunk(b"", True), chunk(b"bc", False), LEFT)
    await call.run()
    assert call.seen == [chunk(b"abc", False), LEFT]


async def test_the_largest_body_passes_and_one_more_byte_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.bounded_body.MAX_BODY_BYTES", 4)
    exact = Call(chunk(b"abc", True), chunk(b"d", False), LEFT)
    await exact.run()
    assert exact.seen[0]["body"] == b"abcd"
    over = Call(chunk(b"abc", True), chunk(b"de", True))
    declared = Call(headers=((b"content-length", b"5"),))
    for call in (over, declared):
        await call.run()
        assert (call.refusal, call.seen) == ((413, "too_large"), [])


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.bounded_body.BODY_TIMEOUT_S", 0.05)
    call = Call(chunk(b"a", True))
    await call.run()
    assert (call.refusal, call.seen) == ((408, "body_timeout"), [])


async def test_a_client_that_leaves_is_told_to_the_application() -> None:
    call = Call(chunk(b"a", True), LEFT, LEFT)
    await call.run()
    assert call.seen == [LEFT, LEFT]
