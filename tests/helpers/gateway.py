"""A gateway on a real port, with a snapshot made by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import aiohttp
import uvicorn

from berth.gateway.app import Gateway
from berth.gateway.snapshot import Key, Limits, Replica, Route, Snapshot
from berth.live import names
from berth.metering.owners import Owner, Spent
from berth.metering.records import OpenRecord, UsageEvent
from berth.tenants import keys
from gpuruntime.goodput import ServiceLevel

TENANT = "ten_one"
DEPLOYMENT = "dep_one"
MODEL = "small"
CHAT_LEVEL = ServiceLevel(base_ms=1000, tpot_ms=100)


class NoUsage:
    """A database in which nobody has used anything yet."""

    def spent(self, owner: Owner, since: datetime, leaving_out: Sequence[str]) -> Spent:
        return Spent(0, Decimal(0))

    def costs(self, events: Sequence[UsageEvent]) -> list[Decimal]:
        return [Decimal(0)] * len(events)


class FixedKeeper(NoUsage):
    """A snapshot that changes when the test says so."""

    def __init__(self, snapshot: Snapshot, on_change: Callable[[Snapshot], None]) -> None:
        self.current = snapshot
        self.on_change = on_change

    def start(self) -> None:
        self.on_change(self.current)

    def stop(self) -> None:
        pass

    def change(self, **values: Any) -> None:
        self.current = replace(self.current, **values)
        self.on_change(self.current)


def make_key(number: int = 1, tenant: str = TENANT, expires_at: float | None = None) -> tuple[Key, str]:
    key_id = f"key_{number:026d}"
    secret = keys.new_secret()
    digest, pepper = keys.digest_of(secret)
    return Key(key_id, tenant, digest, pepper, expires_at), f"{key_id}.{secret}"


def make_route(model: str = MODEL, tenant: str = TENANT, deployment: str = DEPLOYMENT, **values: Any) -> Route:
    given: dict[str, Any] = {
        "class_name": "chat",
        "level": CHAT_LEVEL,
        "contract_id": "con_1",
        "contract_version": 3,
    } | values
    return Route(tenant, model, deployment, **given)


def make_replica(
    url: str, number: int = 1, *, ready: bool = True, capacity: int = 8, token: str | None = None
) -> Replica:
    return Replica(f"rep_{number}", url, token or f"token-{number}", capacity, ready)


def make_snapshot(
    urls: Sequence[str], key: Key, limits: Limits | None = None, *, door_token: str | None = None, **route: Any
) -> Snapshot:
    """``door_token``: what real doors ask for; stand-ins take any."""
    made = make_route(limits=limits or Limits(), **route)
    replicas = tuple(make_replica(url, number, token=door_token) for number, url in enumerate(urls, 1))
    return Snapshot(1, {key.id: key}, {(TENANT, made.model): made}, {DEPLOYMENT: replicas})


async def record_of(store: Any) -> dict[str, Any]:
    """The first usage record that a gateway has posted. ``store``: a Redis client that decodes."""
    for _ in range(300):
        if entries := await store.xrange(names.USAGE_STREAM):
            return dict(json.loads(entries[0][1]["record"]))
        await asyncio.sleep(0.01)
    raise AssertionError("no record")


def opened(number: int = 1) -> OpenRecord:
    return OpenRecord(
        request_id=f"req_{number}",
        tenant_id=TENANT,
        deployment_id=DEPLOYMENT,
        deployment_name=MODEL,
        key_id="k",
        at=1.0,
    )


@dataclass
class Running:
    gateway: Gateway
    base: str
    token: str
    http: aiohttp.ClientSession

    @property
    def keeper(self) -> FixedKeeper:
        assert isinstance(self.gateway.keeper, FixedKeeper)
        return self.gateway.keeper

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def post(self, body: Any = None, **options: Any) -> Any:
        data = body if isinstance(body, bytes) else json.dumps(chat() if body is None else body).encode()
        headers = self.headers | options.pop("headers", {})
        return self.http.post(f"{self.base}/v1/chat/completions", data=data, headers=headers, **options)


def chat(stream: bool = True, **values: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Say something."}]
    return {"model": MODEL, "stream": stream, "max_tokens": 16, "messages": messages} | values


class _Lifespan:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.gateway(scope, receive, send)


@contextlib.asynccontextmanager
async def running_gateway(snapshot: Snapshot, token: str, redis_url: str) -> AsyncIterator[Running]:
    gateway = Gateway(redis_url, lambda _, on_change: FixedKeeper(snapshot, on_change))
    await gateway.start()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    config = uvicorn.Config(
        _Lifespan(gateway), http="httptools", lifespan="off", log_config=None, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup([listener])
    async with aiohttp.ClientSession() as http:
        yield Running(gateway, f"http://127.0.0.1:{listener.getsockname()[1]}", token, http)
    await server.shutdown([listener])
    await gateway.stop()


def events(text: str) -> list[tuple[str, str]]:
    """(event, data) of a server-sent stream."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in lines:
            found.append((lines.get("event", ""), lines["data"]))
    return found
