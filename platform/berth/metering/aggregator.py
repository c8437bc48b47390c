"""Goodput, live: one of all web processes reads what gateways and doors say each second, and tells the consoles.

    berth:deltas --> Span of each second --> consoles, history
                 \\-> Span of each minute --> GoodputMinute

All of it follows from the stream: a new leader reads from the last minute's start and writes the same rows again. An
entry belongs to the second Redis received it, so a second is complete once Redis' clock has passed it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec
from channels.layers import get_channel_layer
from django.db import DatabaseError
from redis import asyncio as aioredis
from redis.exceptions import RedisError

from berth.core import leases
from berth.live import names
from berth.live.threads import in_thread
from berth.metering.cells import CellKey, Provisioned, Span
from berth.metering.figures import window_message
from berth.metering.inventory import Inventory, ReplicaRow, read_inventory
from berth.metering.minutes import last_minute, write_minute
from berth.observability.goodput import GoodputMeter
from berth.observability.names import NameBook
from gpuruntime.goodput import Window

LEASE = "aggregator"
LEASE_S = 5.0
INVENTORY_S = 2.0
WRITE_S = 5.0
HISTORY = 300
HISTORY_TTL_S = 900
GAP_S = 60.0
MEMORY_S = 1800
DELTAS_KEPT = 20_000
WEIGHT_SECONDS = 60
PROMPT_S = 3
PAGE = 1000

log = logging.getLogger(__name__)


class Aggregator:
    """Runs in a thread with an event loop of its own, so that it delays no request."""

    def __init__(self, redis_url: str) -> None:
        self._redis_url = redis_url
        self._holder = f"{LEASE}_{secrets.token_hex(8)}"
        self.names = NameBook()
        self.meter = GoodputMeter(self.names.current)
        self.leading = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="aggregator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(3.0)

    def _main(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        client = aioredis.Redis.from_url(self._redis_url, decode_responses=True, socket_timeout=2)
        term: Term | None = None
        while not self._stop.is_set():
            try:
                if not await self._lead(term is not None):
                    term = None
                elif term is None:
                    term = await Term.begin(client, self.meter)
                self.leading = term is not None
                if term is not None:
                    await term.step()
            except (RedisError, OSError, DatabaseError) as error:
                log.warning("aggregator_waits", extra={"error": str(error).strip()})
            except Exception:
                log.exception("aggregator_failed")
                term = None
            await asyncio.to_thread(self._stop.wait, 1.05 - time.time() % 1.0)
        if term is not None:
            await in_thread(leases.give_back, LEASE, self._holder)
        await client.aclose()

    async def _lead(self, leading: bool) -> bool:
        """Whether this process is the one. Without a database nobody can take over, so a leader goes on."""
        try:
            return await in_thread(leases.take, LEASE, self._holder, LEASE_S)
        except DatabaseError as error:
            log.warning("lease_not_renewed", extra={"error": str(error).strip()})
            return leading


class Term:
    """The time in which one process leads. ``step`` once a second."""

    def __init__(self, client: Any, now: float, first_minute: int, meter: GoodputMeter | None = None) -> None:
        self._client = client
        self._meter = meter
        self._fresh = Span()
        self._cursor = f"{first_minute * 1000}-0"
        self._minutes: dict[int, Span] = {}
        self._seconds: deque[tuple[int, Span]] = deque(maxlen=WEIGHT_SECONDS + 1)
        self._published = int(now) - 1
        self._newest: dict[str, str] = {}  # by scope, without its replicas
        self._provisioned_at: float | None = None
        self._inventory: Inventory | None = None
        self._inventory_at = 0.0
        self._written_at = 0.0

    @classmethod
    async def begin(cls, client: Any, meter: GoodputMeter | None = None) -> Term:
        """Reads the stream from the start of the minute that was written last."""
        now = await _redis_time(client)
        term = cls(client, now, await _first_minute(client, now), meter)
        term._published = await _last_shown(client, now)
        await term._read()
        term._fresh = Span()  # counted by whoever led then
        return term

    async def step(self) -> None:
        now = await _redis_time(self._client)
        await self._refresh_inventory()
        await self._provision(now)
        await self._read()
        self._count()
        if self._inventory is not None:  # until then a window would tell of no replica and no device
            await self._publish(int(now) - 1, self._inventory)
        await self._write(now)

    async def _refresh_inventory(self) -> None:
        if time.monotonic() - self._inventory_at < INVENTORY_S:
            return
        try:
            self._inventory = await in_thread(read_inventory)
            self._inventory_at = time.monotonic()
        except DatabaseError as error:
            log.warning("inventory_not_read", extra={"error": str(error).strip()})

    async def _provision(self, now: float) -> None:
        """Writes what has been reserved since the last such entry, by whoever led then; a longer gap is not guessed."""
        since = self._provisioned_at
        self._provisioned_at = now
        seconds = 1.0 if since is None else min(now - since, GAP_S)
        if self._inventory is None or not self._inventory.seats:
            return
        seats = msgspec.json.encode(Provisioned(seconds, list(self._inventory.seats)))
        fields = {"kind": "provisioned", "seats": seats}
        await self._client.xadd(names.DELTAS_STREAM, fields, maxlen=DELTAS_KEPT, approximate=True)

    def _count(self) -> None:
        """What was read since the last second, for Prometheus."""
        fresh, self._fresh = self._fresh, Span()
        if self._meter is not None:
            self._meter.add(fresh.cells())

    async def _read(self) -> None:
        while True:
            entries = await self._client.xrange(names.DELTAS_STREAM, min=f"({self._cursor}", count=PAGE)
            for entry_id, fields in entries:
                self._cursor = entry_id
                self._take(int(entry_id.partition("-")[0]), fields)
            if len(entries) < PAGE:
                return

    def _take(self, at_ms: int, fields: dict[str, str]) -> None:
        second = at_ms // 1000
        if fields.get("kind") == "provisioned":
            self._provisioned_at = max(self._provisioned_at or 0.0, at_ms / 1000)
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append((second, Span()))
        minute = self._minutes.setdefault(second // 60 * 60, Span())
        try:
            self._seconds[-1][1].take(fields)
            minute.take(fields)
            self._fresh.take(fields)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            log.warning("delta_ignored", extra={"error": str(error)})

    # --- Each second --------------------------------------------------------------------------------------------

    async def _publish(self, last: int, inventory: Inventory) -> None:
        """The seconds that are complete and were not shown: the newest each, those before in one longer window, for a
        console adds up what it is told.
        """
        spans = dict(self._seconds)
        lately = Span()
        for _, span in self._seconds:
            for replica_id, held in span.replicas.items():
                for tenant, ideal_s in held.by_tenant.items():
                    sums = lately.replica(replica_id).by_tenant
                    sums[tenant] = sums.get(tenant, 0.0) + ideal_s
        first = max(self._published + 1, last - WEIGHT_SECONDS + 1)
        newest = max(first, last - PROMPT_S + 1)
        for begin, end in [(first, newest), *((second, second + 1) for second in range(newest, last + 1))]:
            if begin < end:
                cells = _added(spans[second].cells(lately) for second in range(begin, end) if second in spans)
                await self._publish_window(end - 1, end - begin, cells, inventory)
                self._published = end - 1

    async def _publish_window(self, at: int, seconds: int, cells: dict[CellKey, Window], inventory: Inventory) -> None:
        rows = await self._replica_rows(inventory)
        messages = [
            window_message(
                "platform",
                at,
                cells,
                seconds=seconds,
                devices={"in_use": inventory.used, "total": inventory.devices},
                replicas=[row for _, row in rows],
            )
        ]
        for tenant in inventory.tenants:
            used = inventory.used_by.get(tenant, 0)
            messages.append(
                window_message(
                    tenant,
                    at,
                    {cell: window for cell, window in cells.items() if cell.tenant_id == tenant},
                    seconds=seconds,
                    devices={"in_use": used, "total": used},
                    replicas=[row for replica, row in rows if replica.tenant_id == tenant],
                )
            )
        await self._send(messages)

    async def _replica_rows(self, inventory: Inventory) -> list[tuple[ReplicaRow, dict[str, Any]]]:
        replicas = inventory.replicas
        if not replicas:
            return []
        keys = [key for row in replicas for key in (names.alive(row.id), names.stats(row.id))]
        values = await self._client.mget(keys)
        rows = []
        for index, replica in enumerate(replicas):
            alive, stats = values[2 * index], json.loads(values[2 * index + 1] or "{}")
            total = stats.get("kv_total_blocks")
            rows.append(
                (
                    replica,
                    {
                        "id": replica.id,
                        "deployment_id": replica.deployment_id,
                        "deployment": replica.deployment,
                        "state": "lost" if replica.state_is_serving and alive is None else replica.state,
                        "running": stats.get("running", 0),
                        "queued": stats.get("queued", 0),
                        "kv_free": stats.get("kv_free_blocks", 0) / total if total else None,
                    },
                )
            )
        return rows

    async def _send(self, messages: list[dict[str, Any]]) -> None:
        """In the history only the newest window tells of replicas: a page would wait for thousands, 300 times told."""
        layer = get_channel_layer()
        async with self._client.pipeline(transaction=True) as pipe:
            for message in messages:
                key = names.history(message["scope"])
                if before := self._newest.get(message["scope"]):
                    pipe.rpop(key)
                    pipe.rpush(key, before)
                pipe.rpush(key, json.dumps(message, separators=(",", ":")))
                self._newest[message["scope"]] = json.dumps({**message, "replicas": []}, separators=(",", ":"))
                pipe.ltrim(key, -HISTORY, -1)
                pipe.expire(key, HISTORY_TTL_S)
            await pipe.execute()
        for message in messages:
            scope = message["scope"]
            group = names.PLATFORM_GROUP if scope == "platform" else names.console_group(scope)
            await layer.group_send(group, {"type": "console.message", "data": message})

    # --- Each minute --------------------------------------------------------------------------------------------

    async def _write(self, now: float) -> None:
        """The running minute every few seconds, and a finished one once more: then it is final."""
        this_minute = int(now) // 60 * 60
        done = [minute for minute in self._minutes if minute < this_minute]
        if not done and time.monotonic() - self._written_at < WRITE_S:
            return
        for minute in sorted(self._minutes):
            await in_thread(write_minute, minute, self._minutes[minute].cells())
        for minute in done:
            del self._minutes[minute]
        self._written_at = time.monotonic()


async def _first_minute(client: Any, now: float) -> int:
    """The minute to begin with: never one of which the stream has lost the beginning."""
    written = await in_thread(last_minute)
    first = max(written or 0, (int(now - MEMORY_S)) // 60 * 60)
    oldest = await client.xrange(names.DELTAS_STREAM, count=1)
    if oldest and await client.xlen(names.DELTAS_STREAM) >= DELTAS_KEPT:
        first = max(first, (int(oldest[0][0].partition("-")[0]) // 60_000 + 1) * 60)
    return first


def _added(spans: Iterable[dict[CellKey, Window]]) -> dict[CellKey, Window]:
    total: dict[CellKey, Window] = {}
    for cells in spans:
        for cell, window in cells.items():
            total.setdefault(cell, Window()).merge(window)
    return total


async def _last_shown(client: Any, now: float) -> int:
    """The second that whoever led before told the consoles last."""
    newest = await client.lindex(names.history("platform"), -1)
    return min(int(json.loads(newest)["at"]), int(now) - 1) if newest else int(now) - 1


async def _redis_time(client: Any) -> float:
    seconds, micros = await client.time()
    return int(seconds) + int(micros) / 1e6
