"""``/v1``: a plain ASGI application outside Django's request cycle: no ORM, no thread, no database write."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import aiohttp
import msgspec
from redis.exceptions import RedisError
from starlette.types import Receive, Scope, Send

from berth.core.ids import new_id
from berth.gateway.accounts import Accounts
from berth.gateway.admission import LEASE_S, Admission
from berth.gateway.asked import CHAT, COMPLETIONS, EMBEDDINGS, parse_chat, parse_completion, parse_embedding
from berth.gateway.auth import authenticate_soon
from berth.gateway.errors import ApiError, send_error, send_json
from berth.gateway.exchange import Exchange
from berth.gateway.forward import new_session
from berth.gateway.generate import generate, route_of
from berth.gateway.line import Argument, Line, Script
from berth.gateway.replicas import Replicas
from berth.gateway.seeding import Seeding, Usage
from berth.gateway.snapshot import Route, Snapshot
from berth.live import names
from gpuruntime import tracing

BEAT_S = 1.0
MODELS = "/v1/models"
PARSERS = {CHAT: parse_chat, COMPLETIONS: parse_completion, EMBEDDINGS: parse_embedding}
IGNORED_NAMES = 256
IGNORED_NAME_CHARS = 64

log = logging.getLogger(__name__)


class SnapshotSource(Usage, Protocol):
    """The database's side: ``keeper.Keeper``, or a fixed one in a benchmark."""

    current: Snapshot

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Gateway:
    """``start`` and ``stop`` belong to the lifespan of the process; everything else to its one event loop."""

    session: aiohttp.ClientSession
    replicas: Replicas
    admission: Admission
    accounts: Accounts
    keeper: SnapshotSource

    def __init__(self, redis_url: str, keeper: Callable[[str, Callable[[Snapshot], None]], SnapshotSource]) -> None:
        self.id = f"gw_{secrets.token_hex(8)}"
        self.open: dict[str, Exchange] = {}
        self.ignored: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.resumed = 0
        self.tracing: tracing.Tracing | None = None
        self._redis_url = redis_url
        self._make_keeper = keeper
        self._beat = Script("beat.lua")
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.session = new_session()
        self.tracing = tracing.start("berth-gateway", self.id)
        self.replicas = Replicas(self.session)
        self._line = Line(self._redis_url)
        self.accounts = Accounts(self._line, self.id)

        def changed(snapshot: Snapshot) -> None:
            loop.call_soon_threadsafe(self.replicas.sync, snapshot)

        self.keeper = self._make_keeper(self._redis_url, changed)
        self._seeding = Seeding(self._redis_url, self.keeper)
        self.admission = Admission(self._line, self.id, self._seeding)
        self.keeper.start()
        works = (self.accounts.work_forever, self.replicas.probe_forever, self._beat_forever)
        self._tasks = [asyncio.create_task(work()) for work in works]

    async def stop(self) -> None:
        """What was counted is delivered first, if Redis answers."""
        self.keeper.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.accounts.drain(2.0)
        await self.accounts.publish_windows()
        await self.session.close()
        await self._line.close()
        self._seeding.close()
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.stop)

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            now_s = time.monotonic()
            for exchange in list(self.open.values()):
                exchange.check(now_s)
            try:
                await self._beat(self._line, [names.gateway(self.id)], self._beat_args())
                await self.accounts.publish_windows()
            except RedisError as error:
                log.warning("beat_lost", extra={"error": str(error), "open": len(self.open)})

    def _beat_args(self) -> list[Argument]:
        args: list[Argument] = [names.GATEWAY_TTL_S, LEASE_S]
        for request_id, exchange in self.open.items():
            leases = [holder.leases for holder in exchange.grant.holders if holder.leases]
            args += [
                request_id,
                names.open_request(request_id),
                exchange.replica_id,
                exchange.frames.prompt_tokens,
                exchange.line.tokens,
                len(leases),
                *leases,
            ]
        return args

    def count_ignored(self, fields: Sequence[str]) -> None:
        """Fields nobody here knows. Their names are the clients' own, so only so many are told apart."""
        for name in fields:
            room = len(self.ignored) < IGNORED_NAMES and len(name) <= IGNORED_NAME_CHARS
            self.ignored[name if name in self.ignored or room else "(other)"] += 1

    # --- Requests -----------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = str(scope["path"]), str(scope["method"])
        headers = dict(scope["headers"])
        if (parse := PARSERS.get(path)) is not None:
            await self._only("POST", method, path, send, lambda: generate(self, parse, headers, receive, send))
        elif path == MODELS or path.startswith(MODELS + "/"):
            await self._only("GET", method, path, send, lambda: self._models(path, headers, send))
        else:
            error = ApiError(404, f"There is no {method} {path[:200]} here.", code="unknown_url")
            await send_error(send, error, new_id("req"))

    async def _only(
        self, wanted: str, method: str, path: str, send: Send, handle: Callable[[], Awaitable[None]]
    ) -> None:
        if method == wanted:
            await handle()
            return
        text = f"{path} takes {wanted}, not {method}."
        error = ApiError(405, text, code="method_not_allowed", headers=[(b"allow", wanted.encode())])
        await send_error(send, error, new_id("req"))

    async def _models(self, path: str, headers: dict[bytes, bytes], send: Send) -> None:
        request_id = new_id("req")
        try:
            key = await authenticate_soon(headers.get(b"authorization", b"").decode("latin-1"), self.keeper)
            snapshot = self.keeper.current
            if path == MODELS:
                routes = snapshot.models_of(key.tenant_id)
                listed = [_model(route) for route in routes if key.may_use(route.deployment_id)]
                body = msgspec.json.encode({"object": "list", "data": listed})
            else:
                name = path.removeprefix(MODELS + "/")
                body = msgspec.json.encode(_model(route_of(snapshot, key, name)))
        except ApiError as error:
            await send_error(send, error, request_id)
            return
        await send_json(send, 200, body, request_id)


def _model(route: Route) -> dict[str, str | int]:
    owner = "you" if route.owned else "berth"
    return {"id": route.model, "object": "model", "created": route.created, "owned_by": owner}
