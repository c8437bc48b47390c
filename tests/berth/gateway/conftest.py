"""Imports of berth stand in the fixtures: named on the command line, this is read before Berth is configured."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from redis import asyncio as aioredis

from helpers.door import TOKEN, OpenDoor
from helpers.stub_door import StubDoor, stub_doors

if TYPE_CHECKING:
    from berth.gateway.admission import Admission
    from helpers.gateway import Running


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Any]:
    client = aioredis.Redis.from_url(redis_url, decode_responses=True)
    await client.flushdb()
    yield client
    await client.aclose()


@pytest.fixture
async def admission(store: Any, redis_url: str) -> AsyncIterator[Admission]:
    from berth.gateway.admission import Admission
    from berth.gateway.line import Line
    from berth.gateway.seeding import Seeding
    from helpers.gateway import NoUsage

    line, seeding = Line(redis_url), Seeding(redis_url, NoUsage())
    yield Admission(line, "gw_test", seeding)
    await line.close()
    seeding.close()


@pytest.fixture
async def doors() -> AsyncIterator[list[StubDoor]]:
    async with stub_doors(2) as started:
        yield started


@pytest.fixture
async def door(doors: list[StubDoor]) -> StubDoor:
    return doors[0]


@pytest.fixture
async def running(door: StubDoor, store: Any, redis_url: str) -> AsyncIterator[Running]:
    """One tenant, one model, one door."""
    from helpers.gateway import make_key, make_snapshot, running_gateway

    key, token = make_key()
    async with running_gateway(make_snapshot([door.url], key), token, redis_url) as started:
        yield started


@pytest.fixture
async def fronted(opened: OpenDoor, store: Any, redis_url: str) -> AsyncIterator[Running]:
    """One tenant, one model, the real door that a module's ``opened`` gives."""
    from helpers.gateway import DEPLOYMENT, make_key, make_replica, make_snapshot, running_gateway

    key, token = make_key()
    replica = replace(make_replica(opened.url), token=TOKEN)
    snapshot = replace(make_snapshot([], key, model="m"), replicas={DEPLOYMENT: (replica,)})
    async with running_gateway(snapshot, token, redis_url) as started:
        yield started


@pytest.fixture
async def two(doors: list[StubDoor], store: Any, redis_url: str) -> AsyncIterator[Running]:
    """The same model behind two doors."""
    from helpers.gateway import make_key, make_snapshot, running_gateway

    key, token = make_key()
    async with running_gateway(make_snapshot([d.url for d in doors], key), token, redis_url) as started:
        yield started
