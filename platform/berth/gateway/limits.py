"""The gateway's connections to Redis: a command fails fast and is never retried here."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Any

from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

TIMEOUT_S = 0.5


def connect(url: str) -> aioredis.Redis:
    return aioredis.Redis.from_url(
        url,
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        max_connections=64,
        decode_responses=True,
    )


class Script:
    """A Lua script beside this file, called by its SHA and loaded when the server does not know it."""

    def __init__(self, name: str) -> None:
        self.source = (resources.files("berth.gateway") / name).read_text()
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    async def __call__(self, client: aioredis.Redis, keys: list[str], args: list[Any]) -> Any:
        try:
            return await client.evalsha(self.sha, len(keys), *keys, *args)
        except NoScriptError:
            return await client.eval(self.source, len(keys), *keys, *args)
