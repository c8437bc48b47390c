"""Usage sums and goodput by the minute, against sums made by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from berth.metering.models import GoodputMinute
from berth.tenants.services import create_key
from gpuruntime.goodput import Window
from helpers.api_cases import World, url
from helpers.usage import book_record

pytestmark = pytest.mark.django_db
DAY = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def used(tenant: str, at: datetime, prompt: int, completion: int, **values: Any) -> None:
    book_record(tenant, at, prompt_tokens=prompt, completion_tokens=completion, **values)


def test_usage_by_day_deployment_key_and_class() -> None:
    world = World()
    mine, theirs = world.tenant.id, world.other.id
    key, _ = create_key(tenant=world.tenant, name="ci", actor="test")
    one = {"deployment_id": "dep_1", "key_id": key.id, "class_name": "chat"}
    used(mine, DAY, 10, 100, **one)
    used(mine, DAY + timedelta(hours=1), 20, 7, good=False, **one)
    used(mine, DAY + timedelta(days=1), 5, 50, deployment_id="dep_2", deployment_name="qwen", class_name="batch")
    used(mine, DAY, 3, 0, good=False, offered=False, outcome="over_quota", **one)
    used(theirs, DAY, 1000, 1000, **one)
    client = world.client("viewer")

    def summary(query: str) -> dict[str, Any]:
        return client.get(url("usage", "summary") + f"?{query}").json()  # type: ignore[no-any-return]

    def rows(query: str) -> list[tuple[Any, ...]]:
        return [(r["label"], r["requests"], r["offered"], r["completion_tokens"]) for r in summary(query)["rows"]]

    assert rows("group=day") == [("2026-03-01T00:00:00+00:00", 3, 2, 107), ("2026-03-02T00:00:00+00:00", 1, 1, 50)]
    assert [r[0] for r in rows("group=hour&to=2026-03-02T00:00:00Z")] == [
        "2026-03-01T12:00:00+00:00",
        "2026-03-01T13:00:00+00:00",
    ]
    assert rows("group=deployment") == [("llama", 3, 2, 107), ("qwen", 1, 1, 50)]
    assert rows("group=key") == [("ci", 3, 2, 107), ("", 1, 1, 50)]
    assert rows("group=class&deployment=dep_2") == [("batch", 1, 1, 50)]
    assert summary("")["total"] == {
        "requests": 4, "offered": 3, "good": 2, "prompt_tokens": 38, "cached_tokens": 0, "completion_tokens": 157,
        "good_tokens": 150, "cost": "0.0000000000",
    }  # fmt: skip
    assert summary("from=2027-01-01T00:00:00Z")["total"]["completion_tokens"] == 0
    listed = client.get(url("usage") + f"?key={key.id}&from=2026-03-01T13:00:00Z").json()["results"]
    assert [row["completion_tokens"] for row in listed] == [7]


def minute(tenant: str, ago: int, window: Window, **cell: str) -> None:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=ago)
    GoodputMinute.objects.create(minute=at, tenant_id=tenant, window=window.to_json(), **cell)


def requests(good: int, offered: int, tokens: int, ttft_ms: float) -> Window:
    window = Window(offered=offered, good=good, good_tokens=tokens, tokens=tokens)
    window.ttft.add(ttft_ms * 1000, offered)
    return window


def test_goodput_adds_windows_and_derives_from_the_sum() -> None:
    world = World()
    mine = world.tenant.id
    minute(mine, 5, requests(9, 10, 900, 100), deployment_id="dep_1", class_name="chat")
    minute(mine, 5, requests(1, 10, 100, 400), deployment_id="dep_2", class_name="batch")
    minute(mine, 5, Window(provisioned_s=60.0, busy_s=30.0), deployment_id="dep_1", replica_id="rep_1")
    minute(mine, 4, requests(5, 5, 500, 100), deployment_id="dep_1", class_name="chat")
    minute(mine, 90, requests(0, 99, 0, 100), deployment_id="dep_1", class_name="chat")
    minute(world.other.id, 5, requests(0, 99, 0, 100), deployment_id="dep_1", class_name="chat")

    answer = world.client("viewer").get(url("goodput") + "?minutes=60").json()

    assert [(m["offered"], m["good"]) for m in answer["minutes"]] == [(20, 10), (5, 5)]
    total = answer["total"]
    assert total["attainment"] == pytest.approx(15 / 25)
    assert total["goodput"] == pytest.approx(1500 / 60)
    assert total["factors"]["U"] == pytest.approx(0.5)
    assert total["ttft_ms"]["p50"] == pytest.approx(100, rel=0.02)
    assert total["ttft_ms"]["p95"] == pytest.approx(400, rel=0.02)
    assert {name: c["good"] for name, c in answer["classes"].items()} == {"chat": 14, "batch": 1}
    assert {name: d["offered"] for name, d in answer["deployments"].items()} == {"dep_1": 15, "dep_2": 10}
    assert answer["classes"]["chat"]["goodput"] is None
    assert answer["deployments"]["dep_1"]["goodput"] == pytest.approx(1400 / 60)
    only = world.client("viewer").get(url("goodput") + "?deployment=dep_2").json()
    assert (only["total"]["offered"], only["total"]["goodput"]) == (10, None)
    assert world.client("operator").get(url("goodput") + "?minutes=120").json()["total"]["offered"] == 25 + 99 + 99
