"""Chargeback: its lines add up to the records, parts to the whole, and a sealed month is the same for ever."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.core.scoping import PLATFORM, Scope
from berth.metering.chargeback import BYS, By, chargeback
from berth.metering.hours import seal_hours
from berth.metering.models import UsageCorrection, UsageHour, UsageRecord, UsageSeal
from berth.metering.services import book, correct
from berth.metering.summaries import SUMS
from berth.slas.services import change_class, create_class, grant_contract
from gpuruntime.protocol import EndedRequest
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment
from helpers.usage import book_record, make_record

FIRST = datetime(2026, 3, 1, tzinfo=UTC)
HOURS = 8
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "minute": st.integers(0, HOURS * 60 - 1), "tenant": st.sampled_from(["ten_a", "ten_b"]),
            "deployment_id": st.sampled_from("ab"), "class_name": st.sampled_from("xy"),
            "key_id": st.sampled_from("kl"), "completion_tokens": st.integers(0, 10**6), "good": st.booleans(),
            "offered": st.booleans(),
        }
    ),
    max_size=12,
)  # fmt: skip


def sums_of(rows: list[UsageRecord]) -> dict[str, Any]:
    found = {name: sum(getattr(r, name) for r in rows) for name in ("prompt_tokens", "cached_tokens", "cost")}
    return found | {
        "requests": len(rows),
        "offered": sum(row.offered for row in rows),
        "good": sum(row.good for row in rows),
        "completion_tokens": sum(row.completion_tokens for row in rows),
        "good_tokens": sum(row.completion_tokens for row in rows if row.good),
    }


def added(lines: list[dict[str, Any]], by: By) -> dict[tuple[str, ...], dict[str, Any]]:
    found: dict[tuple[str, ...], dict[str, Any]] = defaultdict(lambda: dict.fromkeys(SUMS, 0))
    for line in lines:
        cell = found[line["tenant"], line["deployment"], line["class"], line[by]]
        for name in SUMS:
            cell[name] += line[name]
    return dict(found)


@pytest.mark.django_db
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    early=RECORDS, late=RECORDS, sealed=st.integers(-1, HOURS), cut=st.integers(0, HOURS), by=st.sampled_from(BYS),
    tenant=st.sampled_from([None, "ten_a"]),
)  # fmt: skip
def test_parts_are_the_whole_and_the_whole_the_records(
    early: Any, late: Any, sealed: int, cut: int, by: By, tenant: str | None
) -> None:
    for model in (UsageHour, UsageCorrection, UsageRecord):
        model.objects.for_platform().delete()
    UsageSeal.objects.all().delete()

    def made(rows: Any) -> list[UsageRecord]:
        return [
            make_record(row["tenant"], FIRST + timedelta(minutes=row["minute"]), **_without(row, "minute", "tenant"))
            for row in rows
        ]

    book(rows=made(early))
    seal_hours(FIRST + timedelta(hours=sealed + 1))
    for row in made(late):
        book(rows=[row])
    scope = PLATFORM if tenant is None else Scope((tenant,))
    end, middle = FIRST + timedelta(hours=HOURS), FIRST + timedelta(hours=cut)
    whole = chargeback(scope, FIRST, end, by, {})
    records = [r for r in UsageRecord.objects.for_platform() if tenant in (None, r.tenant_id)]
    grouped: dict[tuple[str, ...], list[UsageRecord]] = defaultdict(list)
    for row in records:
        grouped[row.tenant_id, row.deployment_id, row.class_name, getattr(row, f"{by}_id")].append(row)
    assert added(whole["lines"], by) == {cell: sums_of(rows) for cell, rows in grouped.items()}
    assert whole["total"] == sums_of(records)
    parts = [chargeback(scope, FIRST, middle, by, {}), chargeback(scope, middle, end, by, {})]
    assert added([line for part in parts for line in part["lines"]], by) == added(whole["lines"], by)
    assert whole["sealed"] == (sealed >= HOURS)
    if not whole["sealed"] and sealed <= 0:
        assert {line["kind"] for line in whole["lines"]} <= {"open"}


def _without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.django_db
def test_an_invoice_is_made_again_to_the_cent_and_its_corrections_listed() -> None:
    """By hand: 700 new at 0.5, 300 cached at 0.05 and 200 out at 1.5 a million; then 100 tokens fewer were made."""
    world = World()
    deployment = make_deployment()
    prices = {"price_input": Decimal("0.5"), "price_cached": Decimal("0.05"), "price_output": Decimal("1.5")}
    service_class = create_class(name="paid", actor="t", base_ms=500, **prices)
    contract = grant_contract(tenant=world.tenant, deployment=deployment, service_class=service_class, actor="t")
    type(contract).objects.for_platform().update(valid_from=FIRST)
    row = book_record(
        world.tenant.id, FIRST, deployment_id=deployment.id, class_name="paid", contract_id=contract.id,
        prompt_tokens=1000, cached_tokens=300, completion_tokens=200, counted_by="gateway", replica_id="r",
    )  # fmt: skip
    seal_hours(datetime(2026, 4, 1, 1, tzinfo=UTC))
    ask = url("usage", "chargeback") + "?month=2026-03"
    invoice = world.client("admin").get(ask).json()
    (line,) = invoice["lines"]
    assert (invoice["sealed"], line["kind"], line["cost"]) == (True, "sealed", "0.0006650000")
    assert (line["price_input"], line["price_cached"], line["price_output"]) == ("0.5000", "0.0500", "1.5000")
    assert (line["deployment_name"], line["tenant_name"]) == (deployment.name, world.tenant.name)
    assert (line["attainment"], invoice["currency"]) == (1.0, "USD")

    change_class(service_class=service_class, actor="t", price_output=Decimal(9))
    door = EndedRequest(
        request_id=row.request_id, tenant=world.tenant.id, deployment="", replica_id="r", epoch="e",
        outcome="completed", finish_reason="stop", prompt_tokens=1000, cached_tokens=300, completion_tokens=100,
    )  # fmt: skip
    assert correct(row=row, door=door)
    again = world.client("admin").get(ask).json()
    kept, correction = again["lines"]
    assert kept == line
    assert (correction["kind"], correction["hour"], correction["requests"]) == ("correction", FIRST.isoformat(), 0)
    assert (correction["completion_tokens"], correction["cost"]) == (-100, "-0.0001500000")
    assert correction["written_at"] is not None
    assert again["total"]["cost"] == "0.0005150000"


@pytest.mark.django_db
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse")
def test_csv_is_the_same_lines_and_only_ones_own() -> None:
    world = World()
    for tenant in (world.tenant, world.other):
        book_record(tenant.id, FIRST, class_name="chat", key_id="k")
    answer = world.client("viewer").get(url("usage", "chargeback.csv") + "?month=2026-03&by=key")
    assert answer["content-disposition"] == 'attachment; filename="chargeback-2026-03-01T00-2026-04-01T00.csv"'
    head, *lines = csv.reader(io.StringIO(b"".join(answer).decode()))
    (line,) = [dict(zip(head, values, strict=True)) for values in lines]
    assert (line["tenant"], line["kind"], line["requests"], line["key"]) == (world.tenant.id, "open", "1", "k")
    assert "member" not in line
    assert (line["cost"], line["currency"], line["hour"]) == ("0.0000000000", "USD", "")
    both = world.client("operator").get(url("usage", "chargeback") + "?month=2026-03&by=member").json()
    assert {one["tenant"] for one in both["lines"]} == {world.tenant.id, world.other.id}
    foreign = world.client("viewer").get(url("usage", "chargeback") + f"?tenant={world.other.id}")
    problem(foreign, 404, "tenant")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("month=2026-13", "month"), ("month=2026-03&to=2026-03-02T00:00:00Z", "month"),
        ("from=2026-03-01T00:00:00Z", "to"),
        ("from=2026-03-01T00:30:00Z&to=2026-03-02T00:00:00Z", "from"), ("by=day", "by"),
        ("from=2026-03-01T00:00:00Z&to=2028-03-02T00:00:00Z", "to"),
    ],
)  # fmt: skip
def test_a_span_that_is_none(query: str, field: str) -> None:
    problem(World().client("viewer").get(url("usage", "chargeback") + "?" + query), 400, field)


@pytest.mark.django_db
def test_reconciliation_is_the_operators(redis_url: str, settings: Any) -> None:
    settings.REDIS_URL = redis_url
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
    world = World()
    problem(world.client("owner").get(url("usage", "reconciliation")), 403)
    found = world.client("operator").get(url("usage", "reconciliation"))
    assert (found.status_code, found.json()["equal"], found.json()["rows"]) == (200, True, [])
    late = url("usage", "reconciliation") + "?from=2026-03-01T00:00:00Z&to=2026-05-01T00:00:00Z"
    problem(world.client("operator").get(late), 400, "from")
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert world.client("operator").get(url("usage", "reconciliation")).status_code == 503
