"""The outbound websocket against a real server that acknowledges, forgets, refuses and goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import ServerConnection, serve

from gpuruntime.door.counting import Account
from gpuruntime.door.report import Reporter
from gpuruntime.goodput import Outcome
from gpuruntime.protocol import Ended, EndedAck, RuntimeHello, Stats, decode_runtime, encode
from helpers.door import TOKEN, OpenDoor, ScriptedBackend, open_door
from helpers.patience import soon


@dataclass
class ControlPlane:
    """Keeps every message of every connection; acknowledges while ``acks`` is set."""

    acks: bool = True
    port: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    connections: list[list[Any]] = field(default_factory=list)

    async def handle(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.headers.append({k.lower(): v for k, v in socket.request.headers.items()} | {"path": socket.request.path})
        messages: list[Any] = []
        self.connections.append(messages)
        async for data in socket:
            message = decode_runtime(data)
            messages.append(message)
            if isinstance(message, Ended) and self.acks:
                await socket.send(encode(EndedAck(request_ids=[r.request_id for r in message.requests])))

    @asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        async with serve(self.handle, "127.0.0.1", self.port) as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            yield

    def all(self, kind: type) -> list[Any]:
        return [message for messages in self.connections for message in messages if isinstance(message, kind)]


@asynccontextmanager
async def reporting(control: ControlPlane) -> AsyncIterator[tuple[OpenDoor, Reporter]]:
    async with open_door(ScriptedBackend(), control_url=f"ws://127.0.0.1:{control.port}") as door:
        reporter = Reporter(door.replica)
        task = asyncio.create_task(reporter.run())
        try:
            yield door, reporter
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def chat(door: OpenDoor, tenant: str, tokens: int) -> None:
    async with door.chat(max_tokens=tokens, headers={"x-berth-tenant": tenant}) as response:
        assert response.status == 200
        await response.read()


async def test_it_says_who_it_is_then_what_it_did_and_what_ended() -> None:
    control = ControlPlane()
    async with control.up(), reporting(control) as (door, _):
        await soon(lambda: control.all(Stats))
        await chat(door, "ten_a", 3)
        await chat(door, "ten_b", 4)
        await soon(lambda: len(door.replica.spool) == 0 and len(control.all(Stats)) > 2)
    assert control.headers[0]["authorization"] == f"Bearer {TOKEN}"
    assert (control.headers[0]["x-berth-replica"], control.headers[0]["path"]) == ("rep_1", "/ws/runtime")
    hello, first = control.connections[0][:2]
    assert isinstance(hello, RuntimeHello)
    assert (hello.replica_id, hello.epoch, hello.max_model_len) == ("rep_1", door.replica.epoch, 1000)
    assert (first.state, first.running) == ("ready", 0)
    assert sum(stats.work.completion_tokens for stats in control.all(Stats)) == 7
    ideal: dict[str, float] = {}
    for stats in control.all(Stats):
        for tenant, seconds in stats.work.ideal_s_by_tenant.items():
            ideal[tenant] = ideal.get(tenant, 0) + seconds
    assert ideal == {"ten_a": 0.75, "ten_b": 0.75}
    ended = [request for message in control.all(Ended) for request in message.requests]
    assert sorted((request.tenant, request.completion_tokens) for request in ended) == [("ten_a", 3), ("ten_b", 4)]


async def test_a_control_plane_that_was_away_misses_nothing() -> None:
    control = ControlPlane(acks=False)
    async with control.up():
        pass  # reserves a port on which nobody listens now
    async with reporting(control) as (door, _):
        await chat(door, "ten_a", 6)
        await asyncio.sleep(0.3)
        async with control.up():
            await soon(lambda: control.all(Ended))
            assert control.connections[-1][1].work.completion_tokens == 6
            assert len(door.replica.spool) == 1  # sent, not acknowledged
        control.acks = True
        async with control.up():
            await soon(lambda: len(door.replica.spool) == 0)
    assert [request.completion_tokens for message in control.all(Ended) for request in message.requests] == [6, 6]
    assert sum(stats.work.completion_tokens for stats in control.all(Stats)) == 6


async def test_goodbye_waits_for_the_last_acknowledgement() -> None:
    control = ControlPlane()
    async with control.up(), reporting(control) as (door, reporter):
        await soon(lambda: control.all(Stats))
        door.replica.become("draining")
        door.replica.counter.end(Account("req_last", "ten_a", 0.0), Outcome.COMPLETED)
        await reporter.flush(5)
        assert len(door.replica.spool) == 0
    assert control.all(Stats)[-1].state == "draining"
    assert [request.request_id for message in control.all(Ended) for request in message.requests] == ["req_last"]
