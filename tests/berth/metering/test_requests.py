"""Requests over REST: found by what became of them, and explained; and what the ledger gives a record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from berth.deployments.services import create_replica
from berth.fleet.seats import reserve_seat
from berth.slas.models import Contract
from berth.slas.services import change_contract
from berth.tenants.services import create_key
from helpers.api_cases import World, pages, problem, rows_of, url
from helpers.factories import make_deployment, make_gpu
from helpers.usage import book_record

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATE = {"good": False, "reason": "queued", "ttft_us": 812_000, "ttft_limit_us": 500_000, "queue_ms": 640.0,
        "prefill_ms": 60.0, "running_at_arrival": 32, "queued_at_arrival": 0, "e2e_us": 2_000_000}  # fmt: skip


def listed(world: World, query: str, who: str = "viewer") -> list[str]:
    answer = world.client(who).get(url("requests") + f"?{query}")
    assert answer.status_code == 200, answer.content
    return [row["request_id"] for row in answer.json()["results"]]


def test_they_are_found_by_what_became_of_them() -> None:
    world = World()
    mine = world.tenant.id

    def book(minutes: int, **values: Any) -> str:
        return str(book_record(mine, NOON + timedelta(minutes=minutes), **values).request_id)

    good = book(0, ttft_us=300, class_name="chat", deployment_id="dep_1", replica_id="rep_1")
    late = book(1, **LATE, class_name="chat", deployment_id="dep_2")
    failed = book(2, good=False, reason="failed", outcome="failed", key_id="key_1")
    apart = book(3, good=False, offered=False, outcome="client_left", ttft_us=None)
    book_record(world.other.id, NOON, **LATE)

    assert listed(world, "") == [apart, failed, late, good]
    assert [listed(world, f"verdict={v}") for v in ("good", "late", "error", "bad", "apart")] == [
        [good],
        [late],
        [failed],
        [failed, late],
        [apart],
    ]
    assert listed(world, "reason=queued") == [late]
    assert listed(world, "class=chat&deployment=dep_2") == [late]
    assert listed(world, "replica=rep_1") == [good]
    assert listed(world, "key=key_1") == [failed]
    assert listed(world, "from=2026-03-01T12:01:00Z&to=2026-03-01T12:02:00Z") == [late]
    assert listed(world, f"search={late}") == [late]
    assert listed(world, "ordering=-ttft&page_size=2") == [late, good]
    assert listed(world, "ordering=ttft")[:2] == [good, late]
    assert len(listed(world, "verdict=late", "operator")) == 2
    for query in ("verdict=soso", "reason=luck", "from=soon", "ordering=mood"):
        problem(world.client("viewer").get(url("requests") + f"?{query}"), 400, query.partition("=")[0])


def test_pages_follow_one_another_through_equal_moments() -> None:
    world = World()
    rows = {book_record(world.tenant.id, NOON).request_id for _ in range(5)}
    found = pages(world.client("viewer"), url("requests") + "?page_size=2")
    seen = [row["request_id"] for row in rows_of(found)]
    assert seen == sorted(rows, reverse=True)


def test_one_explained_with_what_it_was_promised_and_where_it_ran() -> None:
    world = World()
    deployment = make_deployment(tenant=world.tenant)
    replica = create_replica(deployment=deployment, reason="")
    reserve_seat(replica=replica, gpu=make_gpu(), memory_bytes=1)
    contract = Contract.objects.for_tenant(world.tenant.id).get()
    key, _ = create_key(tenant=world.tenant, name="ci", actor="test")
    where = {"replica_id": replica.id, "deployment_id": deployment.id}
    row = book_record(
        world.tenant.id, NOON, **LATE, **where, contract_id=contract.id, contract_version=1, key_id=key.id
    )
    book_record(world.tenant.id, NOON + timedelta(seconds=1), **where, e2e_us=1, new_prompt_tokens=70)
    book_record(world.other.id, NOON - timedelta(seconds=9), **where, e2e_us=9_500_000, new_prompt_tokens=7)
    book_record(world.other.id, NOON - timedelta(seconds=9), **where, e2e_us=8_500_000)  # it had ended
    book_record(world.other.id, NOON + timedelta(seconds=2), **where)  # it came later
    change_contract(contract=contract, actor="t", weight=7)

    found = world.client("viewer").get(url("requests", row.request_id)).json()
    assert found["verdict"] == "late"
    assert found["sentence"] == (
        "Late: the first token came after 812 ms, promised 500 ms; 640 ms of it waiting in the queue because "
        "32 requests were running on the replica."
    )
    assert [clause["code"] for clause in found["clauses"]] == ["late_first", "queued"]
    assert [phase["phase"] for phase in found["timeline"]] == ["gateway", "queued", "prefill", "decode"]
    assert (found["promised"]["base_ms"], found["record"]["contract_version"]) == (1000, 1)
    assert found["summary"]["key_name"] == "ci"
    assert found["where"]["replica"] == replica.id
    assert found["where"]["slice"] == replica.seat.slice_id
    assert found["where"]["place"].startswith(replica.seat.slice.gpu.node.name)
    assert found["meanwhile"] == {
        "running_at_arrival": 32, "queued_at_arrival": 0, "requests": 2, "of_tenant": 1, "new_prompt_tokens": 77,
    }  # fmt: skip
    problem(world.client("outsider").get(url("requests", row.request_id)), 404)


def test_a_page_takes_few_queries_however_many_rows() -> None:
    world = World()
    client = world.client("viewer")
    counts = []
    for _ in range(2):
        for number in range(4):
            book_record(world.tenant.id, NOON, key_id=f"key_{number}")
        with CaptureQueriesContext(connection) as queries:
            assert client.get(url("requests")).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]
    session_and_scope = 3
    assert counts[0] - session_and_scope <= 5
