"""Leases, ids, the version that gateways watch, and messages that may be lost."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import pytest
import redis
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from berth.core import leases, notify
from berth.core.ids import IdFactory, created_s, new_id
from berth.core.logs import JsonFormatter
from berth.core.models import Lease
from berth.core.version import current_version, raise_version
from berth.live import names
from helpers.patience import PATIENCE_S


def test_ids_sort_by_creation_and_are_url_safe() -> None:
    made = [new_id("dep") for _ in range(5000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(len(one) == 30 and one.startswith("dep_") for one in made)
    assert IdFactory("ten") == IdFactory("ten") != IdFactory("key")


@given(st.integers(min_value=0, max_value=2**48 - 1))
def test_an_ids_first_ten_digits_are_its_millisecond(ms: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: ms * 1_000_000)
        patch.setattr("berth.core.ids._last", 0)
        made = new_id("x")
    digits, value = made[2:12], 0
    for digit in digits:
        value = value * 32 + "0123456789abcdefghjkmnpqrstvwxyz".index(digit)
    assert value == ms
    assert created_s(made) == ms / 1000


@pytest.mark.django_db
def test_a_lease_is_held_by_one_until_it_ends() -> None:
    with leases.hold("reconcile", 30) as first, leases.hold("reconcile", 30) as second:
        assert (first, second) == (True, False)
    assert leases.take("reconcile", "a", 30)
    assert leases.take("reconcile", "a", 30)
    assert not leases.take("reconcile", "b", 30)
    leases.give_back("reconcile", "b")
    assert not leases.take("reconcile", "b", 30)
    Lease.objects.filter(name="reconcile").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert leases.take("reconcile", "b", 30)
    assert not leases.take("reconcile", "a", 30)


@pytest.mark.django_db(transaction=True)
def test_the_version_rises_after_the_commit_and_is_announced(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client, client.pubsub() as channel:
        channel.subscribe(names.CONFIG_CHANNEL)
        assert channel.get_message(timeout=PATIENCE_S)
        before = current_version()
        with transaction.atomic():
            raise_version()
            assert current_version() == before
        assert current_version() == before + 1
        message: Any = channel.get_message(timeout=PATIENCE_S)
        assert message["type"] == "message"
        with transaction.atomic():
            raise_version()
            transaction.set_rollback(True)
        assert current_version() == before + 1


@pytest.mark.django_db(transaction=True)
def test_open_consoles_and_agents_are_told() -> None:
    layer: Any = get_channel_layer()

    async def told() -> list[dict[str, Any]]:
        channel = await layer.new_channel()
        for group in (names.console_group("ten_1"), names.node_group("nod_1")):
            await layer.group_add(group, channel)
        from asgiref.sync import sync_to_async

        await sync_to_async(notify.changed)("key", "key_1", "ten_1")
        await sync_to_async(notify.desired_changed)("nod_1")
        await sync_to_async(notify.changed)("key", "key_2", "ten_2")
        return [await layer.receive(channel) for _ in range(2)]

    first, second = async_to_sync(told)()
    assert first == {"type": "console.message", "data": {"type": "changed", "what": "key", "id": "key_1"}}
    assert second == {"type": "desired.changed"}


@pytest.mark.django_db(transaction=True)
def test_a_commit_stands_when_redis_is_gone(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from berth.celery import app
    from berth.tenants.services import create_tenant

    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.CHANNEL_LAYERS = {
        "default": {**settings.CHANNEL_LAYERS["default"], "CONFIG": {"hosts": [settings.REDIS_URL]}}
    }
    monkeypatch.setattr(app.conf, "broker_url", settings.REDIS_URL)
    monkeypatch.setattr(app.conf, "broker_write_url", settings.REDIS_URL)
    with transaction.atomic():
        tenant = create_tenant(name="still", slug="still", actor="t")
        notify.nudge_scheduler()
        notify.changed("tenant", tenant.id, tenant.id)
    assert current_version() > 0


def test_a_log_line_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    record = logging.LogRecord("berth.x", logging.WARNING, __file__, 1, "lease_lost", None, None)
    record.lease = "reconcile"
    line = JsonFormatter().format(record)
    said = json.loads(line)
    assert (said["event"], said["level"], said["lease"]) == ("lease_lost", "warning", "reconcile")
    assert "\n" not in line
