"""Sums of usage against a brute force over the records, for any span, filter and groups."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.core.scoping import PLATFORM, Scope
from berth.metering.models import UsageHour, UsageRecord
from berth.metering.services import book, correct
from berth.metering.summaries import GROUPS, SUMS, Span, summarize
from berth.slas.services import change_class, change_contract, create_class, grant_contract
from berth.tenants.services import create_key
from gpuruntime.protocol import EndedRequest
from helpers.api_cases import World, problem, url
from helpers.factories import make_deployment, make_tenant
from helpers.usage import book_record, make_record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
# Around midnight and month's end in UTC, and across hours, to the microsecond.
MOMENTS = st.sampled_from([0, 1, 1799, 3599, 3600, 3601, 43_199, 43_200, 46_800, 86_400]).flatmap(
    lambda s: st.sampled_from([NOON + timedelta(seconds=s, microseconds=m) for m in (-1, 0, 1)])
)
IDS = st.sampled_from(["a", "b"])
COUNTS = st.integers(0, 2_000_000_000)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "at": MOMENTS, "tenant": st.sampled_from(["ten_a", "ten_b"]), "deployment_id": IDS, "class_name": IDS,
            "key_id": IDS, "prompt_tokens": COUNTS, "cached_tokens": COUNTS, "completion_tokens": COUNTS,
            "good": st.booleans(), "offered": st.booleans(),
        }
    ),
    max_size=12,
)  # fmt: skip


def brute(rows: list[dict[str, Any]], groups: list[str]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Adds the records up one by one."""
    found: dict[tuple[str, ...], dict[str, Any]] = defaultdict(lambda: dict.fromkeys(SUMS, 0))
    for row in rows:
        at = row["at"]
        parts = {
            "day": at.replace(hour=0, minute=0, second=0, microsecond=0).isoformat(),
            "hour": at.replace(minute=0, second=0, microsecond=0).isoformat(),
            "tenant": row["tenant"],
            "member": "",
            "key": row["key_id"],
            "deployment": row["deployment_id"],
            "class": row["class_name"],
        }
        sums = found[tuple(parts[group] for group in groups)]
        sums["requests"] += 1
        sums["offered"] += row["offered"]
        sums["good"] += row["good"]
        sums["good_tokens"] += row["completion_tokens"] * row["good"]
        for name in ("prompt_tokens", "cached_tokens", "completion_tokens"):
            sums[name] += row[name]
    return dict(found)


@pytest.mark.django_db
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    records=RECORDS,
    span=st.tuples(st.none() | MOMENTS, st.none() | MOMENTS),
    groups=st.lists(st.sampled_from(GROUPS), min_size=1, max_size=2, unique=True),
    tenant=st.sampled_from([None, "ten_a"]),
    key=st.sampled_from([None, "a"]),
)
def test_sums_are_the_records(
    records: list[dict[str, Any]], span: tuple[datetime | None, datetime | None], groups: list[str],
    tenant: str | None, key: str | None,
) -> None:  # fmt: skip
    UsageHour.objects.for_platform().delete()
    UsageRecord.objects.for_platform().delete()
    start, end = span
    rows = [
        make_record(row["tenant"], row["at"], **{k: v for k, v in row.items() if k not in ("at", "tenant")})
        for row in records
    ]
    book(rows=rows[:5])
    book(rows=rows)  # the ledger may run twice: what is there is not added again
    scope = PLATFORM if tenant is None else Scope((tenant,))
    found = summarize(Span(scope, start, end, {} if key is None else {"key_id": key}), groups)

    wanted = [
        row
        for row in records
        if (tenant is None or row["tenant"] == tenant)
        and (key is None or row["key_id"] == key)
        and (start is None or row["at"] >= start)
        and (end is None or row["at"] < end)
    ]
    by_key = {tuple(part["key"] for part in row["by"]): {n: row[n] for n in SUMS} for row in found["rows"]}
    assert by_key == brute(wanted, groups)
    everything = brute(wanted, []).get((), dict.fromkeys(SUMS, 0))
    assert {name: found["total"][name] for name in SUMS} == everything
    assert not found["truncated"]


@pytest.mark.django_db
def test_hours_and_days_are_utcs_whatever_the_database_thinks() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL TIME ZONE 'Asia/Kolkata'")
    east = timezone(timedelta(hours=5, minutes=30))
    book_record("ten_a", datetime(2026, 3, 2, 5, 29, 59, tzinfo=east))  # 23:59:59 on 1 March in UTC
    book_record("ten_a", datetime(2026, 3, 2, 5, 30, tzinfo=east))
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL TIME ZONE 'UTC'")
    hours = UsageHour.objects.for_platform().order_by("hour").values_list("hour", flat=True)
    assert [hour.astimezone(UTC).isoformat() for hour in hours] == [
        "2026-03-01T23:00:00+00:00",
        "2026-03-02T00:00:00+00:00",
    ]
    days = summarize(Span(PLATFORM, None, None, {}), ["day"])["rows"]
    assert [day["key"] for day in days] == ["2026-03-01T00:00:00+00:00", "2026-03-02T00:00:00+00:00"]


@pytest.mark.django_db
def test_a_late_account_corrects_record_and_sums() -> None:
    row = book_record("ten_a", NOON, counted_by="gateway", prompt_tokens=10, completion_tokens=4, replica_id="rep_1")
    door = EndedRequest(
        request_id=row.request_id, tenant="ten_a", deployment="", replica_id="rep_1", epoch="e", outcome="completed",
        finish_reason="stop", prompt_tokens=11, completion_tokens=6, cached_tokens=3, running_at_arrival=5,
    )  # fmt: skip
    assert correct(row=row, door=door)
    assert not correct(row=row, door=door)
    hour = UsageHour.objects.for_platform().get()
    assert (hour.requests, hour.prompt_tokens, hour.cached_tokens, hour.completion_tokens, hour.good_tokens) == (
        1, 11, 3, 6, 6,
    )  # fmt: skip
    assert UsageRecord.objects.for_platform().get().running_at_arrival == 5


@pytest.mark.django_db
def test_cost_by_the_version_it_was_judged_by_and_the_maker_of_the_key() -> None:
    """By hand: 700 new at 0.5, 300 cached at 0.05, 200 out at 1.5 a million; then output at 3."""
    world = World()
    prices = {"price_input": Decimal("0.5"), "price_cached": Decimal("0.05"), "price_output": Decimal("1.5")}
    service_class = create_class(name="paid", actor="t", base_ms=500, **prices)
    deployment = make_deployment()
    old = grant_contract(tenant=world.tenant, deployment=deployment, service_class=service_class, actor="t")
    maker = world.people["developer"]
    key, _ = create_key(tenant=world.tenant, name="ci", actor=maker.email)
    key.created_by = maker
    key.save()
    counts = {"prompt_tokens": 1000, "cached_tokens": 300, "completion_tokens": 200, "key_id": key.id}
    change_class(service_class=service_class, actor="t", price_output=Decimal(3))
    new = type(old).objects.for_tenant(world.tenant.id).get(version=2)
    cell = {"class_name": "paid", "deployment_id": deployment.id, **counts}
    first = book_record(world.tenant.id, NOON, contract_id=old.id, **cell)
    second = book_record(world.tenant.id, NOON, contract_id=new.id, **cell)
    failed = book_record(world.tenant.id, NOON, contract_id=new.id, **cell | {"outcome": "failed", "good": False})
    bare = book_record(world.tenant.id, NOON, **cell)

    assert first.cost == Decimal("0.000665")  # (350 + 15 + 300) / 10^6
    assert second.cost == bare.cost == Decimal("0.000965")
    assert failed.cost == 0
    answer = world.client("viewer").get(url("usage", "summary") + "?group=member,day").json()
    (row,) = answer["rows"]
    assert [part["label"] for part in row["by"]] == [maker.email, "2026-03-01T00:00:00+00:00"]
    assert (row["requests"], Decimal(row["cost"]), answer["currency"]) == (4, Decimal("0.002595"), "USD")


@pytest.mark.django_db
def test_groups_are_two_at_most_and_known() -> None:
    operator = World().client("operator")
    for query in ("group=day,key,class", "group=day&group=day", "group=week"):
        problem(operator.get(url("usage", "summary") + f"?{query}"), 400, "group")
    problem(operator.get(url("usage", "summary") + "?from=2026-03-02T00:00:00Z&to=2026-03-01T00:00:00Z"), 400, "to")
    problem(operator.get(url("usage", "summary") + "?from=soon"), 400, "from")


@pytest.mark.django_db(transaction=True)
class TestExport:
    def lines(self, answer: Any) -> list[list[str]]:
        assert answer.status_code == 200
        assert answer["content-type"].startswith("text/csv")
        body = b"".join(answer)
        return list(csv.reader(io.StringIO(body.decode())))

    @pytest.fixture
    def pages_of_two(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("berth.metering.export.PAGE", 2)

    @pytest.mark.usefixtures("pages_of_two")
    @pytest.mark.filterwarnings("ignore:StreamingHttpResponse")
    def test_every_record_once_oldest_first_across_pages(self) -> None:
        world = World()
        at = [NOON, NOON, NOON, NOON - timedelta(hours=1), NOON + timedelta(hours=1)]  # three at one moment
        rows = [book_record(world.tenant.id, moment, deployment_name="=1+1") for moment in at]
        book_record(world.other.id, NOON)
        found = self.lines(world.client("viewer").get(url("usage", "export.csv"), headers={"accept": "text/csv"}))
        head, *body = found
        assert [line[0] for line in body] == [
            rows[3].request_id,
            *sorted(r.request_id for r in rows[:3]),
            rows[4].request_id,
        ]
        assert {line[head.index("deployment_name")] for line in body} == {"'=1+1"}
        assert {line[head.index("currency")] for line in body} == {"USD"}
        assert {line[head.index("completion_tokens")] for line in body} == {"5"}
        later = self.lines(world.client("viewer").get(url("usage", "export.csv") + "?from=2026-03-01T12:00:01Z"))
        assert [line[0] for line in later[1:]] == [rows[4].request_id]

    def test_sums_by_group(self) -> None:
        world = World()
        for deployment in ("dep_1", "dep_1", "dep_2"):
            book_record(world.tenant.id, NOON, deployment_id=deployment)
        found = self.lines(world.client("viewer").get(url("usage", "export.csv") + "?group=day,deployment"))
        assert found[0][:5] == ["day", "day_name", "deployment", "deployment_name", "requests"]
        assert [(line[2], line[3], line[4]) for line in found[1:]] == [("dep_1", "llama", "2"), ("dep_2", "llama", "1")]


@pytest.mark.django_db
def test_a_contract_that_changed_keeps_its_usage() -> None:
    """What was judged by version 1 stays its own when version 2 comes."""
    tenant, deployment = make_tenant(), make_deployment()
    service_class = create_class(name="x", actor="t", base_ms=500)
    old = grant_contract(tenant=tenant, deployment=deployment, service_class=service_class, actor="t")
    row = book_record(tenant.id, NOON, contract_id=old.id, contract_version=old.version, ttft_limit_us=500_000)
    change_contract(contract=old, actor="t", weight=2)
    change_class(service_class=service_class, actor="t", base_ms=900)
    kept = UsageRecord.objects.for_tenant(tenant.id).get(request_id=row.request_id)
    assert (kept.contract_version, kept.ttft_limit_us) == (1, 500_000)
    versions = type(old).objects.for_tenant(tenant.id).order_by("version")
    assert [(v.version, v.terms["base_ms"], v.weight) for v in versions] == [(1, 500, 1), (2, 500, 2), (3, 900, 2)]
