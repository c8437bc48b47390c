"""Liveness asks nobody; readiness asks the database and Redis and waits for neither longer than a second."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from berth import health

pytestmark = pytest.mark.django_db(transaction=True)


async def get(path: str) -> tuple[int, dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await health.health_app({"type": "http", "path": path}, None, send)  # type: ignore[arg-type]
    start, body = sent
    return start["status"], json.loads(body["body"])


async def test_all_is_well() -> None:
    assert await get("/readyz") == (200, {"status": "ok", "database": "ok", "redis": "ok"})


async def test_alive_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    status, said = await get("/readyz")
    assert (status, said["status"], said["database"], said["redis"]) == (503, "unavailable", "ok", "ConnectionError")
    assert await get("/healthz") == (200, {"status": "ok"})


async def test_a_database_that_hangs_holds_up_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LIMIT_S", 0.2)
    monkeypatch.setattr(health, "_database", lambda: time.sleep(0.6))
    begun = time.monotonic()
    status, said = await get("/readyz")
    assert (status, said["database"]) == (503, "no answer within 0.2 s")
    assert time.monotonic() - begun < 0.5
