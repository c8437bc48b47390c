"""``/healthz``: this process answers. ``/readyz``: its database and its Redis answer too, each within a second.

A process that is a gateway alone is ready once it has a snapshot, and stays so: it serves from the last one while the
database or Redis is away, and a balancer that took every gateway out at that moment would end what still works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import redis
from django.conf import settings
from django.db import DatabaseError, connection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

LIMIT_S = 1.0


async def health_app(
    scope: Scope, receive: Receive, send: Send, *, has_snapshot: Callable[[], bool] | None = None
) -> None:
    """``has_snapshot``: of a process that is a gateway alone."""
    checks: dict[str, str] = {}
    if scope["path"] == "/readyz" and has_snapshot is not None:
        checks = {"snapshot": "ok" if has_snapshot() else "not read yet"}
    elif scope["path"] == "/readyz":
        names = {"database": _database, "redis": _redis}
        results = await asyncio.gather(*(_checked(check) for check in names.values()))
        checks = dict(zip(names, results, strict=True))
    ok = all(result == "ok" for result in checks.values())
    body = msgspec.json.encode({"status": "ok" if ok else "unavailable", **checks})
    await Response(body, 200 if ok else 503, media_type="application/json")(scope, receive, send)


async def _checked(check: Callable[[], None]) -> str:
    try:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.to_thread(check)
    except TimeoutError:
        return f"no answer within {LIMIT_S:g} s"
    except (DatabaseError, redis.RedisError, OSError) as error:
        return type(error).__name__
    return "ok"


def _database() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        connection.close()


def _redis() -> None:
    with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=LIMIT_S, socket_connect_timeout=LIMIT_S) as client:
        client.ping()
