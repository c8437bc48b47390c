"""The gateway's one connection to Redis, and the scripts it runs there.

Requests share the connection: commands leave as they come, answers return in the same order, so nobody waits for a
free connection and a round trip costs two writes. A command fails fast and is never repeated here; after a failure the
next command connects anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
from collections import deque
from collections.abc import Sequence
from importlib import resources
from typing import Any

from hiredis import pack_command
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

TIMEOUT_S = 0.5

Argument = str | bytes | int | float


class Line:
    """``call`` sends one command. Raises ``redis.RedisError``, within ``TIMEOUT_S`` when nothing answers.

    ``server`` is the run id of the server it is connected to: another after each restart.
    """

    def __init__(self, url: str) -> None:
        self._pool = aioredis.ConnectionPool.from_url(
            url, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 0), decode_responses=True
        )
        self._connection: Any = None
        self._server = ""
        self._reader: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._connecting = asyncio.Lock()

    async def server(self) -> str:
        if self._connection is None:
            await self._connect()
        return self._server

    async def call(self, *command: Argument) -> Any:
        connection = self._connection or await self._connect()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        try:
            await connection.send_packed_command(pack_command(command), check_health=False)  # type: ignore[arg-type]
            async with asyncio.timeout(TIMEOUT_S):
                return await answer
        except TimeoutError as error:  # its answer may still come, so the order of the others is lost
            await self._drop(connection, RedisTimeoutError(f"no answer within {TIMEOUT_S:g} s"))
            raise RedisTimeoutError(f"no answer within {TIMEOUT_S:g} s") from error
        except RedisConnectionError as error:
            await self._drop(connection, error)
            raise

    async def _connect(self) -> Any:
        async with self._connecting:
            if self._connection is None:
                connection = self._pool.make_connection()  # type: ignore[no-untyped-call]
                try:
                    await connection.connect()
                    self._server = await _run_id(connection)
                except OSError as error:
                    raise RedisConnectionError(str(error)) from error
                self._connection = connection
                self._reader = asyncio.create_task(self._read(connection))
            return self._connection

    async def _read(self, connection: Any) -> None:
        try:
            while True:
                answer: Any
                try:
                    answer = await connection.read_response(timeout=math.inf, disconnect_on_error=False)
                except ResponseError as error:
                    answer = error
                waiting = self._waiting.popleft()
                if waiting.done():
                    continue
                if isinstance(answer, ResponseError):
                    waiting.set_exception(answer)
                else:
                    waiting.set_result(answer)
        except (RedisError, OSError, IndexError) as error:
            await self._drop(connection, RedisConnectionError(str(error)))

    async def _drop(self, connection: Any, error: RedisError) -> None:
        if connection is None or self._connection is not connection:
            return
        self._connection = None
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if not one.done():
                one.set_exception(error)
                one.exception()  # whoever waited may be gone
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()
        with contextlib.suppress(RedisError, OSError):
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        await self._drop(self._connection, RedisConnectionError("closed"))


async def _run_id(connection: Any) -> str:
    await connection.send_command("INFO", "server")
    lines = str(await connection.read_response(timeout=TIMEOUT_S)).splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)["run_id"]


class Script:
    """A Lua script beside this file, called by its SHA and loaded when the server does not know it."""

    def __init__(self, name: str) -> None:
        self._source = (resources.files("berth.gateway") / name).read_text()
        self._sha = hashlib.sha1(self._source.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, line: Line, keys: Sequence[str], args: Sequence[Argument]) -> Any:
        try:
            return await line.call("EVALSHA", self._sha, len(keys), *keys, *args)
        except NoScriptError:
            return await line.call("EVAL", self._source, len(keys), *keys, *args)
