"""The ledger on real Redis streams and a real database: whoever dies on the way, every request is booked once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import redis
from django.db import connection

from berth.live import names
from berth.metering.ledger import post
from berth.metering.models import UsageRecord
from berth.metering.records import OpenRecord, UsageEvent, encode
from berth.tenants.models import ApiKey
from berth.tenants.services import create_key
from gpuruntime.protocol import EndedRequest
from helpers.factories import make_tenant

pytestmark = pytest.mark.django_db(transaction=True)

TENANT, DEPLOYMENT, REPLICA, GATEWAY = "ten_1", "dep_1", "rep_1", "gw_1"


@pytest.fixture
def store(redis_url: str) -> Iterator[Any]:
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    client.flushdb()
    yield client
    client.close()


def event(number: int = 1, **values: Any) -> UsageEvent:
    given = {
        "request_id": f"req_{number}", "tenant_id": TENANT, "deployment_id": DEPLOYMENT, "deployment_name": "small",
        "key_id": "key_1", "contract_id": "con_1", "contract_version": 2, "class_name": "chat", "at": 1_790_000_000.5,
        "replica_id": REPLICA, "reached": True, "outcome": "completed", "finish_reason": "stop", "prompt_tokens": 20,
        "completion_tokens": 7, "offered": True, "good": True, "compatible": True, "ttft_us": 51_000,
        "ttft_limit_us": 1_000_000, "tpot_us": 9_000.5, "e2e_us": 105_000,
    }  # fmt: skip
    return UsageEvent(**given | values)


def account(number: int = 1, **values: Any) -> EndedRequest:
    given = {
        "request_id": f"req_{number}", "tenant": TENANT, "deployment": DEPLOYMENT, "replica_id": REPLICA, "epoch": "e1",
        "outcome": "completed", "finish_reason": "stop", "prompt_tokens": 21, "completion_tokens": 8,
        "cached_tokens": 16, "new_prompt_tokens": 5, "queue_ms": 1.5, "prefill_ms": 4.0, "decode_ms": 90.0,
        "ttft_ms": 49.0, "duration_ms": 104.0, "preemptions": 0, "ideal_s": 0.01, "executed_ideal_s": 0.02,
    }  # fmt: skip
    return EndedRequest(**given | values)


def at(client: Any, age_s: float, sequence: int = 0) -> str:
    """A stream id of ``age_s`` seconds ago."""
    seconds, micros = client.time()
    return f"{int((int(seconds) + int(micros) / 1e6 - age_s) * 1000)}-{sequence}"


def post_usage(store: Any, usage: UsageEvent, age_s: float | None = None) -> None:
    fields = {"record": encode(usage)}
    store.xadd(names.USAGE_STREAM, fields, id="*" if age_s is None else at(store, age_s))


def post_account(store: Any, ended: EndedRequest, age_s: float | None = None) -> None:
    fields = {"request": msgspec.json.encode(ended)}
    store.xadd(names.ENDED_STREAM, fields, id="*" if age_s is None else at(store, age_s))


def open_request(store: Any, number: int = 1, *, tokens: int = 3, silent_s: float = 0.0, replica: str = REPLICA) -> str:
    request_id = f"req_{number}"
    record = OpenRecord(
        request_id=request_id, tenant_id=TENANT, deployment_id=DEPLOYMENT, deployment_name="small", key_id="key_1",
        class_name="chat", at=1_790_000_000.0,
    )  # fmt: skip
    fields = {
        "record": encode(record), "gateway": GATEWAY, "replica": replica, "prompt_tokens": 20, "tokens": tokens,
        "seen_ms": int((store.time()[0] - silent_s) * 1000),
    }  # fmt: skip
    store.hset(names.open_request(request_id), mapping=fields)
    store.sadd(names.OPEN_REQUESTS, request_id)
    return request_id


def suspected(store: Any, ago_s: float = 6.0) -> None:
    """The gateway had no heartbeat at an earlier look."""
    store.hset(names.SUSPECTS, GATEWAY, store.time()[0] - ago_s)


def rows() -> dict[str, UsageRecord]:
    return {row.request_id: row for row in UsageRecord.objects.for_platform()}


def left(store: Any) -> tuple[int, int]:
    return store.xlen(names.USAGE_STREAM), store.xlen(names.ENDED_STREAM)


def test_the_gateways_verdict_and_the_doors_counts_become_one_record(store: Any) -> None:
    post_account(store, account())
    post_usage(store, event())
    booked = post(store)

    (row,) = booked.records
    assert left(store) == (0, 0)
    assert store.xpending(names.USAGE_STREAM, names.LEDGER_GROUP)["pending"] == 0
    row = rows()["req_1"]
    assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens, row.new_prompt_tokens) == (21, 8, 16, 5)
    assert (row.counted_by, row.outcome, row.good, row.ttft_us) == ("door", "completed", True, 51_000)
    assert (row.queue_ms, row.ideal_s, row.executed_ideal_s, row.preemptions) == (1.5, 0.01, 0.02, 0)
    assert row.arrived_at.timestamp() == 1_790_000_000.5
    assert (row.key_id, row.contract_id, row.contract_version, row.tpot_us) == ("key_1", "con_1", 2, 9_000.5)


@pytest.mark.parametrize("first", ["gateway", "door"])
def test_either_piece_may_come_first_in_another_run(store: Any, first: str) -> None:
    store.set(names.alive(REPLICA), "e1")
    pieces = [lambda: post_usage(store, event()), lambda: post_account(store, account())]
    for piece in pieces if first == "gateway" else pieces[::-1]:
        assert rows() == {}
        piece()
        post(store)
    assert rows()["req_1"].counted_by == "door"
    assert left(store) == (0, 0)


def test_what_reached_no_door_waits_for_none(store: Any) -> None:
    post_usage(store, event(outcome="refused", reached=False, status=503, prompt_tokens=0, completion_tokens=0))
    post(store)
    assert (rows()["req_1"].counted_by, rows()["req_1"].status) == ("gateway", 503)


@pytest.mark.parametrize(
    ("outcome", "alive", "age_s", "booked"),
    [
        ("truncated", True, 5, False),
        ("truncated", True, 16, True),
        ("failed", False, 5, False),
        ("failed", False, 16, True),
        ("completed", True, 100, False),
        ("completed", False, 16, True),
        ("completed", True, 121, True),
        ("client_left", True, 60, False),
    ],
)
def test_how_long_a_door_is_waited_for(store: Any, outcome: str, alive: bool, age_s: float, booked: bool) -> None:
    if alive:
        store.set(names.alive(REPLICA), "e1")
    post_usage(store, event(outcome=outcome), age_s)
    result = post(store)
    assert (len(result.records), result.waiting) == ((1, 0) if booked else (0, 1))
    if booked:
        row = rows()["req_1"]
        assert (row.counted_by, row.completion_tokens, row.outcome) == ("gateway", 7, outcome)


def test_a_door_that_speaks_late_corrects_the_counts_and_nothing_else(store: Any) -> None:
    post_usage(store, event(outcome="truncated", good=False, reason="failed"), 20)
    post(store)
    post_account(store, account(completion_tokens=9, outcome="failed"))
    assert post(store).corrected == 1
    row = rows()["req_1"]
    assert (row.counted_by, row.completion_tokens, row.outcome, row.reason) == ("door", 9, "truncated", "failed")
    post_account(store, account(completion_tokens=1))
    assert post(store).corrected == 0
    assert rows()["req_1"].completion_tokens == 9
    assert left(store) == (0, 0)


def test_another_door_that_was_tried_does_not_count(store: Any) -> None:
    post_account(store, account(replica_id="rep_other", completion_tokens=2, outcome="client_left"))
    post_account(store, account(completion_tokens=8))
    post_usage(store, event())
    post(store)
    assert (rows()["req_1"].replica_id, rows()["req_1"].completion_tokens) == (REPLICA, 8)
    assert left(store) == (0, 0)


def test_fifty_streams_of_a_dead_gateway_are_closed_from_the_door(store: Any) -> None:
    store.set(names.alive(REPLICA), "e1")
    for number in range(50):
        open_request(store, number, tokens=number)
        post_account(store, account(number, completion_tokens=number + 2, outcome="client_left", finish_reason=""))
    post(store)
    assert rows() == {}, "one look without a heartbeat proves nothing"
    suspected(store)
    post(store)

    booked = rows()
    assert sum(row.completion_tokens for row in booked.values()) == sum(number + 2 for number in range(50))
    assert {(r.outcome, r.offered, r.good, r.reason, r.counted_by) for r in booked.values()} == {
        ("gateway_lost", True, False, "failed", "door")
    }
    assert store.smembers(names.OPEN_REQUESTS) == set()
    assert store.keys("berth:open:*") == []
    cells = [json.loads(fields["cells"])[0] for _, fields in store.xrange(names.DELTAS_STREAM)]
    assert len(cells) == 50
    assert cells[0][:3] == [TENANT, DEPLOYMENT, "chat"]
    assert {(cell[3]["offered"], cell[3].get("good", 0)) for cell in cells} == {(1, 0)}
    post(store)
    assert store.xlen(names.DELTAS_STREAM) == 50


@pytest.mark.parametrize(
    ("replica", "alive", "silent_s", "booked"),
    [
        ("", False, 6, True),
        (REPLICA, False, 6, False),
        (REPLICA, False, 16, True),
        (REPLICA, True, 30, False),
        (REPLICA, True, 61, True),
    ],
)
def test_gateway_and_door_are_both_dead(store: Any, replica: str, alive: bool, silent_s: float, booked: bool) -> None:
    """The last counts the gateway wrote are what is left."""
    if alive:
        store.set(names.alive(REPLICA), "e1")
    open_request(store, tokens=11, silent_s=silent_s, replica=replica)
    suspected(store)
    post(store)
    if not booked:
        assert rows() == {}
        return
    row = rows()["req_1"]
    assert (row.outcome, row.prompt_tokens, row.completion_tokens, row.counted_by) == (
        "gateway_lost",
        20,
        11,
        "gateway",
    )


def test_a_gateway_that_beats_again_is_not_lost(store: Any) -> None:
    """After Redis was away every heartbeat is missing for a moment."""
    open_request(store, silent_s=30)
    post(store)
    assert store.hexists(names.SUSPECTS, GATEWAY)
    store.set(names.gateway(GATEWAY), 1, ex=5)
    post(store)
    assert not store.hexists(names.SUSPECTS, GATEWAY)
    store.delete(names.gateway(GATEWAY))
    post(store)
    assert rows() == {}


def test_a_lost_request_whose_gateway_speaks_after_all_stays_as_it_was_booked(store: Any) -> None:
    open_request(store, silent_s=20)
    suspected(store)
    post(store)
    post_usage(store, event(), 20)
    post(store)
    assert rows()["req_1"].outcome == "gateway_lost"
    assert left(store) == (0, 0)


def test_a_door_without_any_gateway_is_booked_after_a_minute(store: Any) -> None:
    post_account(store, account(1), 30)
    post_account(store, account(2), 0)
    post(store)
    assert rows() == {}
    store.delete(names.ENDED_STREAM)
    post_account(store, account(1), 61)
    post(store)
    row = rows()["req_1"]
    assert (row.tenant_id, row.outcome, row.completion_tokens) == (TENANT, "gateway_lost", 8)


def test_an_invalid_request_at_the_door_is_nobodys_usage(store: Any) -> None:
    post_account(store, account(outcome="invalid", completion_tokens=0), 61)
    post(store)
    assert rows() == {}
    assert left(store) == (0, 0)


def test_a_run_that_dies_after_the_database_is_repeated_without_effect(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        post_usage(store, event(number))
        post_account(store, account(number))

    def dies(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("berth.metering.streams.Streams.booked", dies)
        with pytest.raises(KeyboardInterrupt):
            post(store)
    assert len(rows()) == 3
    assert left(store) == (3, 3)
    created = {row.request_id: row.created_at for row in rows().values()}
    post(store)
    assert left(store) == (0, 0)
    assert {row.request_id: row.created_at for row in rows().values()} == created


def test_runs_at_the_same_time_book_each_request_once(store: Any, redis_url: str) -> None:
    for number in range(400):
        post_usage(store, event(number))
        post_account(store, account(number, completion_tokens=number))
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with redis.Redis.from_url(redis_url, decode_responses=True) as client:
                post(client)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    post(store)
    assert errors == []
    assert len(rows()) == 400
    assert sum(row.completion_tokens for row in rows().values()) == sum(range(400))
    assert left(store) == (0, 0)


def test_a_piece_nobody_can_read_holds_up_nothing(store: Any) -> None:
    store.xadd(names.USAGE_STREAM, {"record": "{"})
    store.xadd(names.ENDED_STREAM, {"other": "x"})
    post_usage(store, event(1, finish_reason="x" * 40, reached=False))
    post_usage(store, event(3, completion_tokens=-5, reached=False))
    post_usage(store, event(2, reached=False))
    post(store)
    assert set(rows()) == {"req_2"}, "a record the database refuses keeps no other out"
    assert store.xpending(names.USAGE_STREAM, names.LEDGER_GROUP)["pending"] == 0


def test_a_key_shows_when_it_was_last_used(store: Any) -> None:
    tenant = make_tenant()
    (key, _), (idle, _) = (create_key(tenant=tenant, name=name, actor="test") for name in ("busy", "idle"))
    for number, at_s in enumerate((1_790_000_300.0, 1_790_000_900.0, 1_790_000_600.0)):
        post_usage(store, event(number, key_id=key.id, at=at_s, reached=False))
    post(store)
    post_usage(store, event(9, key_id=key.id, at=1_790_000_000.0, reached=False))
    post(store)
    used = dict(ApiKey.objects.for_platform().values_list("id", "last_used_at"))
    assert used == {key.id: datetime.fromtimestamp(1_790_000_900, UTC), idle.id: None}


def test_a_large_backlog_is_booked_in_one_run(store: Any) -> None:
    with store.pipeline() as pipe:
        for number in range(2500):
            pipe.xadd(names.USAGE_STREAM, {"record": encode(event(number, reached=False))})
        pipe.execute()
    assert len(post(store).records) == 2500
    assert UsageRecord.objects.for_platform().count() == 2500
