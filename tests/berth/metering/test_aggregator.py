"""The aggregator on a real stream and a real database: what is shown each second, what is kept each minute."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from django.db import OperationalError
from hypothesis import given
from hypothesis import strategies as st
from redis import asyncio as aioredis

from berth.deployments.services import create_replica
from berth.fleet.services import reserve_seat
from berth.live import names
from berth.live.threads import in_thread
from berth.metering.aggregator import Aggregator, Term
from berth.metering.cells import CellKey, Provisioned, SeatShare, Span, merged
from berth.metering.figures import figures
from berth.metering.inventory import Inventory, ReplicaRow, read_inventory
from berth.metering.minutes import last_minute, write_minute
from berth.metering.models import GoodputMinute
from berth.metering.records import Cell, encode
from gpuruntime.goodput import Window
from gpuruntime.protocol import Work
from helpers.factories import make_deployment, make_gpu, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Any]:
    client = aioredis.Redis.from_url(redis_url, decode_responses=True)
    await client.flushdb()
    yield client
    await client.aclose()


def requests(tenant: str = "ten_1", deployment: str = "dep_1", class_name: str = "chat", **sums: Any) -> dict[str, Any]:
    cells = [Cell(tenant, deployment, class_name, Window(**sums).to_json())]
    return {"kind": "requests", "gateway": "gw", "cells": encode(cells).decode()}


def work(replica: str = "rep_1", **values: Any) -> dict[str, Any]:
    return {"kind": "work", "replica": replica, "work": msgspec.json.encode(Work(**values)).decode()}


def provisioned(*seats: SeatShare, seconds: float = 1.0) -> dict[str, Any]:
    return {"kind": "provisioned", "seats": msgspec.json.encode(Provisioned(seconds, list(seats))).decode()}


SEAT = SeatShare("rep_1", "dep_1", "ten_owner", "gpu_1", 0.5)


# --- Cells (pure) -----------------------------------------------------------------------------------------------


@given(
    st.dictionaries(st.sampled_from(["ten_a", "ten_b", "ten_c"]), st.floats(0.001, 10), max_size=3),
    st.floats(0, 5),
    st.floats(0.1, 4),
)
def test_tenants_share_a_replicas_time_and_nothing_is_lost(
    ideal_s: dict[str, float], busy_s: float, share: float
) -> None:
    span = Span()
    span.take(provisioned(SeatShare("rep_1", "dep_1", "ten_owner", "gpu_1", share), seconds=2.0))
    span.take(work(busy_s=busy_s, executed_ideal_s=sum(ideal_s.values()), ideal_s_by_tenant=ideal_s))
    cells = span.cells()
    whole = merged(cells.values())
    assert whole.provisioned_s == pytest.approx(2 * share)
    assert whole.busy_s == pytest.approx(busy_s)
    assert {cell.tenant_id for cell in cells} == (set(ideal_s) or {"ten_owner"})
    for tenant, value in ideal_s.items():
        got = cells[CellKey(tenant, "dep_1", "", "rep_1")].provisioned_s
        assert got == pytest.approx(2 * share * value / sum(ideal_s.values()))


def test_requests_of_several_gateways_add_up() -> None:
    span = Span()
    for _ in range(3):
        span.take(requests(offered=2, good=1, good_tokens=10))
    window = span.cells()[CellKey("ten_1", "dep_1", "chat")]
    assert (window.offered, window.good, window.good_tokens) == (6, 3, 30)


def test_figures_of_a_window() -> None:
    window = Window(offered=4, good=3, good_tokens=60, tokens=80, provisioned_s=2.0)
    for ms in (10, 20, 30, 1000):
        window.ttft.add(ms * 1000)
    for fluidity in (1.0, 1.0, 0.5):
        window.fluidity.add(1 + 1e6 * fluidity)
    shown = figures(window)
    assert (shown["goodput"], shown["attainment"]) == (30.0, 0.75)
    assert shown["ttft_ms"]["p50"] == pytest.approx(20, rel=0.01)
    assert shown["ttft_ms"]["p95"] == pytest.approx(1000, rel=0.01)
    assert shown["fluidity_p5"] == pytest.approx(0.5, rel=0.011)
    assert shown["tpot_ms"] == {"p50": None, "p95": None}
    json.dumps(shown)


# --- Seats ------------------------------------------------------------------------------------------------------


def test_a_seat_is_its_units_of_the_device() -> None:
    gpu = make_gpu(units=4, memory_bytes=8 << 30)
    deployment = make_deployment()
    shares = []
    for memory_bytes in (1 << 30, 3 << 30):
        replica = create_replica(deployment=deployment, reason="test")
        reserve_seat(replica=replica, gpu=gpu, memory_bytes=memory_bytes)
        shares.append(replica.id)
    inventory = read_inventory()
    assert {seat.replica_id: seat.share for seat in inventory.seats} == {shares[0]: 0.25, shares[1]: 0.5}
    assert (inventory.used, inventory.devices, inventory.used_by) == (1, 1, {deployment.tenant_id: 1})


# --- Minutes ----------------------------------------------------------------------------------------------------


def rows() -> dict[tuple[str, str, str], dict[str, Any]]:
    found = GoodputMinute.objects.for_platform()
    return {(row.tenant_id, row.class_name, row.replica_id): row.window for row in found}


def test_a_minute_is_written_whole() -> None:
    minute = 1_790_000_040
    owner = CellKey("ten_owner", "dep_1", "", "rep_1")
    write_minute(minute, {owner: Window(provisioned_s=10)})
    for _ in range(2):
        write_minute(minute, {CellKey("ten_1", "dep_1", "", "rep_1"): Window(provisioned_s=30)})
    assert rows() == {("ten_1", "", "rep_1"): {"provisioned_s": 30}}, "no cell of an earlier writing is left"
    assert last_minute() == minute
    assert GoodputMinute.objects.for_platform().get().minute == datetime.fromtimestamp(minute, UTC)


_sequence = itertools.count(1)


async def add_at(store: Any, at_s: float, fields: dict[str, Any]) -> None:
    await store.xadd(names.DELTAS_STREAM, fields, id=f"{int(at_s * 1000)}-{next(_sequence)}")


async def test_a_new_leader_writes_the_same_rows_again(store: Any) -> None:
    """One leads for a while; another begins in the middle of a minute; the rows are those of the stream."""
    now = (await store.time())[0]
    minute = now // 60 * 60
    for second in range(minute - 60, minute, 10):
        await add_at(store, second, provisioned(SEAT, seconds=10.0))
        await add_at(store, second, requests(offered=2, good=1, good_tokens=5))
    await in_thread(write_minute, minute - 60, {})
    first = await Term.begin(store)
    await first._write(now)
    before = await in_thread(rows)
    assert before["ten_1", "chat", ""] == {"offered": 12, "good": 6, "good_tokens": 30}
    assert before["ten_owner", "", "rep_1"] == {"provisioned_s": pytest.approx(30)}

    second_leader = await Term.begin(store)
    await second_leader._write(now)
    assert await in_thread(rows) == before


async def test_each_second_is_shown_once_to_whom_it_belongs(store: Any) -> None:
    tenant, other = await in_thread(make_tenant), await in_thread(make_tenant)
    term = await Term.begin(store)
    now = (await store.time())[0]
    await add_at(store, now - 1, requests(tenant.id, offered=3, good=2, good_tokens=9))
    await add_at(store, now - 1, provisioned(SeatShare("rep_1", "dep_1", tenant.id, "gpu_1", 0.5)))
    term._published = now - 2
    await term.step()
    await term.step()

    async def windows(scope: str) -> list[dict[str, Any]]:
        kept = [json.loads(text) for text in await store.lrange(names.history(scope), 0, -1)]
        return [window for window in kept if window["at"] == now - 1]

    for scope in (tenant.id, "platform"):
        (window,) = await windows(scope)
        assert (window["total"]["offered"], window["total"]["good"], window["scope"]) == (3, 2, scope)
        assert window["total"]["goodput"] == 18.0
        assert window["classes"]["chat"]["good_tokens"] == 9
        assert window["deployments"]["dep_1"]["attainment"] == pytest.approx(2 / 3)
    (window,) = await windows(other.id)
    assert (window["total"]["offered"], window["deployments"], window["replicas"]) == (0, {}, [])


async def test_what_a_pause_missed_is_told_in_one_longer_window(store: Any) -> None:
    tenant = await in_thread(make_tenant)
    first = await Term.begin(store)
    await first.step()
    shown = first._published
    for second in range(shown + 1, shown + 12):
        await add_at(store, second, requests(tenant.id, offered=1, good=1, tokens=7))
    await first._read()
    assert first._inventory is not None
    await first._publish(shown + 11, first._inventory)

    for scope in (tenant.id, "platform"):
        kept = [json.loads(text) for text in await store.lrange(names.history(scope), 0, -1)]
        missed = [(w["at"] - shown, w["seconds"], w["total"]["offered"]) for w in kept if w["at"] > shown]
        assert missed == [(8, 8, 8), (9, 1, 1), (10, 1, 1), (11, 1, 1)]
        assert sum(w["total"]["tokens"] for w in kept) == 77
    assert (await Term.begin(store))._published <= shown + 11, "another leader goes on where this one ended"


async def test_only_the_newest_window_kept_tells_of_the_replicas(store: Any) -> None:
    term = await Term.begin(store)
    row = ReplicaRow("rep_1", "ten_1", "dep_1", "chat", "ready", True)
    for _ in range(3):
        await term._publish(term._published + 1, Inventory(replicas=(row,)))
    kept = [json.loads(text) for text in await store.lrange(names.history("platform"), 0, -1)]
    assert [len(window["replicas"]) for window in kept] == [0, 0, 1]
    assert [window["at"] - kept[0]["at"] for window in kept] == [0, 1, 2]


async def test_nothing_is_told_before_the_replicas_are_known(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("the database is away")

    term = await Term.begin(store)
    term._published -= 2
    with monkeypatch.context() as patch:
        patch.setattr("berth.metering.aggregator.read_inventory", away)
        await term.step()
    assert await store.lrange(names.history("platform"), 0, -1) == []
    await term.step()
    assert await store.llen(names.history("platform")) >= 2


async def test_what_is_no_delta_is_left_out(store: Any) -> None:
    now = (await store.time())[0]
    for fields in ({"kind": "requests", "cells": "["}, {"kind": "work"}, {"other": "x"}, {"kind": "unknown"}):
        await add_at(store, now, fields)
    await add_at(store, now, requests(offered=1))
    await in_thread(write_minute, now // 60 * 60, {})
    term = await Term.begin(store)
    await term._write(now)
    assert (await in_thread(rows))["ten_1", "chat", ""] == {"offered": 1}


async def test_one_of_all_processes_leads(store: Any, redis_url: str) -> None:
    one, two = Aggregator(redis_url), Aggregator(redis_url)
    assert await one._lead(False) is True
    assert await two._lead(False) is False
    assert await one._lead(True) is True
