"""A sealed hour never changes: what comes later is a correction beside it, and both together are the records."""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berth.core.scoping import PLATFORM
from berth.management.retention import sweep
from berth.metering.hours import seal_hours, sealed_until
from berth.metering.models import UsageCorrection, UsageHour, UsageRecord, UsageSeal
from berth.metering.owners import Owner
from berth.metering.services import book, correct
from berth.metering.spans import EPOCH
from berth.metering.spending import spent
from berth.metering.summaries import SUMS, Span, totals
from berth.options.services import set_option
from gpuruntime.protocol import EndedRequest
from helpers.usage import book_record, make_record

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOURS = 6


def clear() -> None:
    for model in (UsageHour, UsageCorrection, UsageRecord):
        model.objects.for_platform().delete()
    UsageSeal.objects.all().delete()


def stored(model: Any = UsageHour, **which: Any) -> list[tuple[Any, ...]]:
    """Every column of every row, so that no change can hide."""
    return list(model.objects.for_platform().filter(**which).order_by("pk").values_list())


def by_hand() -> dict[tuple[Any, ...], dict[str, Any]]:
    """The records added up one by one."""
    found: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(lambda: dict.fromkeys(SUMS, 0))
    for row in UsageRecord.objects.for_platform():
        sums = found[row.arrived_at.replace(minute=0, second=0, microsecond=0), row.tenant_id, row.key_id]
        for name, value in {
            "requests": 1, "offered": row.offered, "good": row.good, "prompt_tokens": row.prompt_tokens,
            "cached_tokens": row.cached_tokens, "completion_tokens": row.completion_tokens,
            "good_tokens": row.completion_tokens * row.good, "cost": row.cost,
        }.items():  # fmt: skip
            sums[name] += value
    return dict(found)


def shown() -> dict[tuple[Any, ...], dict[str, Any]]:
    """Hours plus corrections."""
    found: dict[tuple[Any, ...], dict[str, Any]] = defaultdict(lambda: dict.fromkeys(SUMS, 0))
    for model in (UsageHour, UsageCorrection):
        for row in model.objects.for_platform():
            for name in SUMS:
                found[row.hour, row.tenant_id, row.key_id][name] += getattr(row, name)
    return {key: sums for key, sums in found.items() if any(sums.values())}


def door_of(row: UsageRecord, **counts: int) -> EndedRequest:
    given = {"prompt_tokens": row.prompt_tokens, "completion_tokens": row.completion_tokens} | counts
    return EndedRequest(
        request_id=row.request_id, tenant=row.tenant_id, deployment="", replica_id=row.replica_id, epoch="e",
        outcome="completed", finish_reason="stop", **given,
    )  # fmt: skip


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("book"), st.integers(0, HOURS * 60 - 1), st.sampled_from("ab"), st.integers(0, 10**6)),
        st.tuples(st.just("correct"), st.integers(0, 30), st.integers(0, 10**6), st.booleans()),
        st.tuples(st.just("seal"), st.integers(0, HOURS * 60 + 120)),
    ),
    max_size=14,
)


@pytest.mark.django_db
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_hours_and_corrections_are_the_records_and_sealed_rows_stay(steps: list[tuple[Any, ...]]) -> None:
    clear()
    frozen: list[tuple[Any, ...]] = []
    until = EPOCH
    for step in steps:
        if step[0] == "book":
            _, minute, key, tokens = step
            at = NOON + timedelta(minutes=minute)
            book_record("ten_a", at, key_id=key, completion_tokens=tokens, counted_by="gateway", replica_id="r")
        elif step[0] == "seal":
            seal_hours(NOON + timedelta(minutes=step[1]))
            seal_hours(NOON + timedelta(minutes=step[1]))  # twice is once
            wanted = NOON + timedelta(hours=step[1] // 60 - 1)
            until = max(until, wanted)
            assert sealed_until() == until, "an hour after its end, and never back"
            frozen = stored(hour__lt=until)
        elif rows := list(UsageRecord.objects.for_platform().order_by("arrived_at", "request_id")):
            _, index, tokens, same = step
            row = rows[index % len(rows)]
            done = correct(row=row, door=door_of(row, **({} if same else {"completion_tokens": tokens})))
            assert done == (row.counted_by == "gateway")
        assert stored(hour__lt=until) == frozen
        kept = {key: sums for key, sums in by_hand().items() if any(sums.values())}
        assert shown() == kept
        assert all(row.hour < until for row in UsageCorrection.objects.for_platform())
    whole = totals(Span(PLATFORM, None, None, {}))
    assert {n: whole[n] for n in SUMS} == {n: sum(sums[n] for sums in by_hand().values()) for n in SUMS}
    both = spent(Owner("ten_a"), NOON)
    assert both.tokens == whole["prompt_tokens"] + whole["completion_tokens"]


@pytest.mark.django_db
def test_a_correction_names_its_hour_and_when() -> None:
    row = book_record("ten_a", NOON, counted_by="gateway", completion_tokens=4, replica_id="r", key_id="k")
    book_record("ten_a", NOON, completion_tokens=9, key_id="k")
    seal_hours(NOON + timedelta(days=3))  # nobody sealed for days: one call does it
    assert sealed_until() == NOON + timedelta(days=3, hours=-1)
    before = stored()
    started = datetime.now(UTC)
    assert correct(row=row, door=door_of(row, completion_tokens=1, cached_tokens=3))
    late = make_record("ten_a", NOON + timedelta(minutes=59), completion_tokens=7, good=False, key_id="k")
    book(rows=[late])
    book(rows=[late])
    assert stored() == before
    first, second = UsageCorrection.objects.for_platform().order_by("written_at")
    assert (first.hour, first.requests, first.completion_tokens, first.cached_tokens, first.good_tokens) == (
        NOON, 0, -3, 3, -3,
    )  # fmt: skip
    assert (second.hour, second.requests, second.offered, second.good, second.completion_tokens) == (NOON, 1, 1, 0, 7)
    assert started <= first.written_at < second.written_at <= datetime.now(UTC)


@pytest.mark.django_db
def test_a_correction_that_changes_nothing_leaves_none() -> None:
    row = book_record("ten_a", NOON, counted_by="gateway", replica_id="r")
    seal_hours(NOON + timedelta(days=1))
    assert correct(row=row, door=door_of(row))
    assert stored(UsageCorrection) == []
    assert UsageRecord.objects.for_platform().get().counted_by == "door"


@pytest.mark.django_db
def test_the_grace_period_is_an_option() -> None:
    assert seal_hours(NOON + timedelta(minutes=59)) == NOON - timedelta(hours=1)
    set_option(key="usage_seal_after_minutes", value=180, actor="t")
    assert seal_hours(NOON + timedelta(hours=2, minutes=59)) is None, "a longer grace opens no hour again"
    assert seal_hours(NOON + timedelta(hours=3, minutes=59)) == NOON
    assert list(UsageSeal.objects.order_by("until").values_list("until", flat=True)) == [
        NOON - timedelta(hours=1),
        NOON,
    ]


@pytest.mark.django_db
def test_corrections_are_kept_as_long_as_their_hours() -> None:
    seal_hours(NOON)
    book_record("ten_a", NOON - timedelta(days=1))
    sweep(NOON + timedelta(days=1098))
    assert len(stored(UsageCorrection)) == 1
    sweep(NOON + timedelta(days=1101))
    assert stored(UsageCorrection) == []


@pytest.mark.django_db(transaction=True)
def test_sealing_and_booking_at_once_lose_nothing() -> None:
    """Eight threads book while two seal: each record is in its hour or in a correction, and in one of them only."""
    rows = [make_record("ten_a", NOON + timedelta(minutes=i), completion_tokens=i) for i in range(160)]
    start = threading.Barrier(10)

    def run(work: Any) -> None:
        start.wait()
        try:
            work()
        finally:
            connection.close()

    def booking(part: int) -> Any:
        return lambda: [book(rows=[row]) for row in rows[part::8]]

    def sealing() -> None:
        for minute in range(0, 240, 20):
            seal_hours(NOON + timedelta(minutes=minute))

    threads = [threading.Thread(target=run, args=(work,)) for work in [*map(booking, range(8)), sealing, sealing]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sealed_until() == NOON + timedelta(hours=2)
    assert UsageSeal.objects.count() == 4
    assert shown() == by_hand()
    assert sum(sums["requests"] for sums in shown().values()) == 160
