"""Liveness asks nobody; readiness asks the database and Redis and waits for neither longer than a second."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from berth import health
from berth.asgi import Application
from berth.gateway.snapshot import Snapshot

pytestmark = pytest.mark.django_db(transaction=True)


async def get(path: str, app: Any = health.health_app) -> tuple[int, dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "path": path}, None, send)
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
    answers = threading.Event()
    monkeypatch.setattr(health, "_database", lambda: answers.wait(20))
    try:
        status, said = await get("/readyz")
        assert (status, said["database"]) == (503, "no answer within 0.2 s")
        assert not answers.is_set()
    finally:
        answers.set()


async def test_a_gateway_alone_is_ready_with_a_snapshot_whatever_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves from its last one: a balancer that took it out would end what still works."""
    away = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(health.settings, "REDIS_URL", away)
    monkeypatch.setattr(health, "_database", lambda: pytest.fail("nobody waits for the database here"))
    app = Application("gateway", away)
    assert app.gateway is not None
    monkeypatch.setattr(app.gateway, "keeper", SimpleNamespace(current=Snapshot()), raising=False)
    assert await get("/readyz", app) == (503, {"status": "unavailable", "snapshot": "not read yet"})
    assert await get("/healthz", app) == (200, {"status": "ok"})
    app.gateway.keeper.current = Snapshot(version=0)
    assert await get("/readyz", app) == (200, {"status": "ok", "snapshot": "ok"})
