"""Clients that leave at any moment, and a gateway killed with a hundred open streams: booked is what a door counted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import redis
from django.db import connection

from berth.deployments.models import Replica
from berth.deployments.services import create_replica
from berth.fleet.seats import reserve_seat
from berth.live import names
from berth.live.threads import in_thread
from berth.metering.ledger import post
from berth.metering.models import UsageRecord
from berth.metering.reconcile import reconcile
from berth.tenants.models import Tenant
from berth.tenants.services import change_tenant, create_key
from gpuruntime.protocol import EndedRequest
from helpers.factories import make_deployment, make_gpu
from helpers.patience import eventually
from helpers.stub_door import Call, StubDoor, stub_doors

pytestmark = pytest.mark.django_db(transaction=True)
REPOSITORY = Path(__file__).resolve().parents[3]
STREAMS = 100
LEAVING = 1000


@pytest.fixture
def gateway() -> Iterator[tuple[subprocess.Popen[str], str]]:
    url = os.environ["BERTH_DATABASE_URL"].replace("/berth?", f"/{connection.settings_dict['NAME']}?")
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve", "--port", "0"],
        cwd=REPOSITORY,
        env={**os.environ, "BERTH_DATABASE_URL": url, "BERTH_ROLE": "gateway"},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    line = next(line for line in process.stderr if '"listening"' in line)
    yield process, json.loads(line)["url"]
    process.kill()
    process.wait()
    process.stderr.close()


def routed_to(door: StubDoor) -> tuple[str, str]:
    """(model, key) of a deployment whose one replica is ``door``."""
    deployment = make_deployment()
    replica = create_replica(deployment=deployment, reason="test")
    reserve_seat(replica=replica, gpu=make_gpu(), memory_bytes=1 << 30)
    Replica.objects.for_platform().filter(id=replica.id).update(state="ready", port=door.port)
    _, token = create_key(tenant=deployment.tenant, name="k", actor="test")
    change_tenant(tenant=deployment.tenant, actor="test", tokens_per_day=10**9)
    return deployment.name, token


def account(call: Call, number: int) -> EndedRequest:
    """What a door writes of a caller that left."""
    return EndedRequest(
        request_id=call.headers["x-request-id"],
        tenant=call.headers["x-berth-tenant"],
        deployment="",
        replica_id=Replica.objects.for_platform().get().id,
        epoch="e",
        outcome="client_left",
        finish_reason="",
        prompt_tokens=call.prompt_tokens,
        completion_tokens=call.tokens,
        number=number,
        ended_at=time.time(),
    )


async def endless(call: Call) -> None:
    await call.start()
    while True:
        await call.token()
        await asyncio.sleep(0.1)


async def test_a_hundred_streams(gateway: tuple[subprocess.Popen[str], str], redis_url: str) -> None:
    process, base = gateway
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    await asyncio.to_thread(client.flushdb)
    async with stub_doors(1) as (door,), aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        door.behave = endless
        model, token = await in_thread(routed_to, door)
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "go on"}]}
        headers = {"Authorization": f"Bearer {token}"}

        refused = set()

        async def first_token() -> Any:
            while True:  # the snapshot is rebuilt within its ten seconds at the latest
                answer = await http.post(f"{base}/v1/chat/completions", json=body, headers=headers)
                if answer.status == 200:
                    await answer.content.readuntil(b"tok")
                    return answer
                refused.add(answer.headers["x-request-id"])
                answer.close()
                await asyncio.sleep(0.1)

        answers = await asyncio.gather(*(first_token() for _ in range(STREAMS)))
        await asyncio.sleep(1.5)
        process.send_signal(signal.SIGKILL)
        calls = [call for call in door.calls if call.tokens]
        await asyncio.wait_for(asyncio.gather(*(call.left.wait() for call in calls)), 15)
        for answer in answers:
            answer.close()

    counted = {call.headers["x-request-id"]: call.tokens for call in calls}
    assert len(counted) == STREAMS
    for number, call in enumerate(calls, 1):
        ended = msgspec.json.encode(await in_thread(account, call, number))
        await asyncio.to_thread(client.xadd, names.ENDED_STREAM, {"request": ended})

    deadline = time.monotonic() + 20
    while not (await in_thread(post, client)).records:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.5)
    rows = await in_thread(lambda: list(UsageRecord.objects.for_platform()))
    # What the gateway answered with an error while it had no snapshot yet may have a record too, of nothing.
    early = [row for row in rows if row.request_id in refused]
    assert sum(row.completion_tokens for row in early) == 0
    rows = [row for row in rows if row.request_id not in refused]
    assert {row.request_id: row.completion_tokens for row in rows} == counted, "difference 0"
    assert {(row.outcome, row.offered, row.good, row.counted_by) for row in rows} == {
        ("gateway_lost", True, False, "door")
    }
    assert len(rows) == STREAMS
    assert {row.deployment_name for row in rows} == {model}
    now = datetime.now(UTC)
    report = await in_thread(reconcile, client, now - timedelta(hours=2), now + timedelta(hours=1))
    assert report["total"]["doors"]["completion_tokens"] == sum(counted.values())
    assert not any(report["total"]["difference"].values()), "difference 0"
    assert await asyncio.to_thread(client.smembers, names.OPEN_REQUESTS) == set()
    budget = await asyncio.to_thread(client.hgetall, names.budget(names.tenant_limits(rows[0].tenant_id)))
    booked = sum(row.prompt_tokens + row.completion_tokens for row in rows)
    spent = {int(value) for name, value in budget.items() if name.startswith("tokens:")}
    assert spent == {booked}, "what was reserved came back, and what was used is counted"
    client.close()


async def leave(base: str, request: bytes, after_s: float) -> None:
    """Sends a request and closes the connection, wherever its answer is by then."""
    port = int(base.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(after_s):
            writer.write(request)
            while await reader.read(65536):
                pass
    writer.transport.abort()


async def test_a_thousand_clients_that_leave_at_random(
    gateway: tuple[subprocess.Popen[str], str], redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lease, open request or generation stays; what is booked is what the door counted, to the token."""
    monkeypatch.setattr("berth.metering.join.DOOR_BROKEN_S", 2.0)
    _, base = gateway
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    await asyncio.to_thread(client.flushdb)
    chance = random.Random(7)
    async with stub_doors(1) as (door,), aiohttp.ClientSession() as http:
        door.behave = endless
        model, token = await in_thread(routed_to, door)
        await in_thread(lambda: change_tenant(tenant=Tenant.objects.get(), actor="test", max_concurrency=500))
        body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "go on"}]})
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        while True:  # the snapshot is rebuilt within its ten seconds at the latest
            async with http.post(f"{base}/v1/chat/completions", data=body, headers=headers) as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.1)
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"POST /v1/chat/completions HTTP/1.1\r\nHost: b\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}"
        gate = asyncio.Semaphore(40)

        async def one() -> None:
            async with gate:
                await leave(base, request.encode(), chance.uniform(0, 0.4))

        await asyncio.gather(*(one() for _ in range(LEAVING)))
        await asyncio.wait_for(asyncio.gather(*(call.left.wait() for call in door.calls)), 30)
        calls = list(door.calls)
    assert len(calls) > LEAVING // 5, "many of them reached the door"
    await in_thread(eventually, lambda: client.smembers(names.OPEN_REQUESTS) == set(), "nothing is open")
    assert {client.zcard(key) for key in client.scan_iter("berth:limit:*:leases")} <= {0}
    for number, call in enumerate(calls, 1):
        ended = msgspec.json.encode(await in_thread(account, call, number))
        await asyncio.to_thread(client.xadd, names.ENDED_STREAM, {"request": ended})

    def booked() -> bool:
        post(client)
        return client.xlen(names.USAGE_STREAM) == client.xlen(names.ENDED_STREAM) == 0

    await in_thread(eventually, booked, "all is booked")
    rows = await in_thread(lambda: list(UsageRecord.objects.for_platform().exclude(counted_as="")))
    assert {row.request_id: row.completion_tokens for row in rows} == {
        call.headers["x-request-id"]: call.tokens for call in calls
    }
    now = datetime.now(UTC)
    report = await in_thread(reconcile, client, now - timedelta(hours=2), now + timedelta(hours=1))
    assert report["total"]["doors"]["requests"] == len(calls)
    assert not any(report["total"]["difference"].values()), "difference 0"
    client.close()
