"""Pages along any ordering: whatever the values, every row once and in order, forwards and back; search; filters."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.audit.models import AuditEvent
from berth.tenants.models import ApiKey
from helpers.api_cases import World, pages, problem, rows_of, url

pytestmark = pytest.mark.django_db
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

moments = st.none() | st.integers(0, 3).map(lambda days: EPOCH + timedelta(days=days, microseconds=days * 333_333))
rows = st.lists(st.tuples(st.sampled_from(["a", "b", "ü", "B"]), moments), max_size=9)


def make(world: World, values: list[tuple[str, Any]]) -> None:
    keys = [
        ApiKey(tenant=world.tenant, name=name, expires_at=at, digest="d", pepper_id="1", hint="h")
        for name, at in values
    ]
    ApiKey.objects.bulk_create(keys)


def ids(bodies: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows_of(bodies)]


@given(values=rows, size=st.integers(1, 4), down=st.booleans())
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_every_row_once_in_order_and_back_again(values: list[tuple[str, Any]], size: int, down: bool) -> None:
    ApiKey.objects.for_platform().delete()
    world = World()
    make(world, values)
    client, sign = world.client("owner"), "-" if down else ""
    path = url("keys") + f"?ordering={sign}expires_at,name&page_size={size}"

    forwards = pages(client, path)

    stored = list(ApiKey.objects.for_tenant(world.tenant.id))
    # Computed another way: Python's stable sort from the least key to the greatest.
    stored.sort(key=lambda key: key.id)
    collated = list(ApiKey.objects.for_tenant(world.tenant.id).order_by("name").values_list("name", flat=True))
    stored.sort(key=lambda key: collated.index(key.name))
    present = [key for key in stored if key.expires_at is not None]
    present.sort(key=lambda key: key.expires_at, reverse=down)
    absent = [key for key in stored if key.expires_at is None]
    assert ids(forwards) == [key.id for key in [*present, *absent]]
    assert all(len(body["results"]) == size for body in forwards[:-1])

    last = forwards[-2]["next"] if forwards[1:] else path
    backwards = pages(client, last, "previous")
    assert ids(backwards[::-1]) == ids(forwards)


def test_rows_that_arrive_move_no_page() -> None:
    world = World()
    make(world, [("a", None)] * 4)
    client = world.client("owner")
    first = client.get(url("keys") + "?page_size=2").json()
    make(world, [("new", None)] * 3)
    second = client.get(first["next"]).json()
    assert second["next"] is None
    seen = [row["id"] for row in first["results"] + second["results"]]
    assert len(set(seen)) == 4
    back = client.get(second["previous"]).json()["results"]
    assert [row["id"] for row in back] == [row["id"] for row in first["results"]]


def test_an_unknown_ordering_or_cursor_is_named() -> None:
    client = World().client("owner")
    detail = problem(client.get(url("keys") + "?ordering=digest"), 400, "ordering")["detail"]
    assert "expires_at" in detail
    for wrong in ("name,digest", "-", "--name", "name,-name,id,created_at", "password", "created_by__password", "%00"):
        problem(client.get(url("keys") + f"?ordering={wrong}"), 400, "ordering")
    for cursor in ([False, ["x"]], [False, [[1], "a"]], {"a": 1}, [0, ["a", "b"]], [False, ["not a moment", "a"]], 7):
        text = base64.urlsafe_b64encode(json.dumps(cursor).encode()).decode()
        problem(client.get(url("keys") + f"?ordering=expires_at&cursor={text}"), 404)


def test_an_ordering_reads_a_related_row() -> None:
    world = World()
    members = rows_of(pages(world.client("owner"), url("members") + "?ordering=email&page_size=2"))
    emails = [row["user"]["email"] for row in members]
    assert emails == sorted(emails)
    assert len(emails) == 4


def test_search_finds_words_and_only_ones_own() -> None:
    world = World()
    make(world, [("billing ci", None), ("billing prod", None), ("100%", None)])
    client = world.client("owner")

    def found(text: str) -> list[str]:
        return sorted(row["name"] for row in client.get(url("keys"), {"search": text}).json()["results"])

    assert found("bill") == ["billing ci", "billing prod"]
    assert found("PROD billing") == ["billing prod"]
    assert found("%") == ["100%"]
    assert found("nothing") == []
    assert found("billing_ci|100%") == ["100%"]
    assert found('"billing ci|100%"') == ["100%", "billing ci"]
    assert found('"billing p|100%"') == ["100%", "billing prod"]
    assert found("billing ci|prod") == ["billing ci", "billing prod"]
    assert found("billing none|prod") == ["billing prod"]
    assert found("prod|") == ["billing prod"]
    assert found("b.lling|nothing") == []
    assert found("|") == []
    assert world.client("outsider").get(url("keys"), {"search": "bill"}).json()["results"] == []
    problem(client.get(url("keys") + "?search=%00"), 400)


def test_a_big_tables_pages_use_its_key() -> None:
    """No sort, no scan of what lies before: page 500 costs what page 1 does."""
    from django.db import connection

    from berth.api.pagination import Key, _after, _sorting

    keys = [Key("id", True, False)]
    query = AuditEvent.objects.for_platform().filter(_after(keys, ["evt_5"], False)).order_by(*_sorting(keys, False))
    with connection.cursor() as cursor:
        for way in ("seqscan", "bitmapscan", "sort"):  # a few rows would not be worth an index
            cursor.execute(f"SET LOCAL enable_{way} = off")
    plan = query[:51].explain()
    assert "Index Cond" in plan
    assert "Sort" not in plan
