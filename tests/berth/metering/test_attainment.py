"""Attainment, error budgets and violations against figures made by hand; hours and days against their minutes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from berth.metering.budget import Counted, budget, spent
from berth.metering.cells import CellKey
from berth.metering.minutes import write_minute
from berth.metering.models import GoodputMinute, GoodputSpan
from berth.metering.spans import DAY, HOUR, MINUTE, cover
from berth.slas.services import create_class
from gpuruntime.goodput import Window
from helpers.api_cases import World, problem, url

START = datetime(2026, 3, 1, tzinfo=UTC)


def test_a_budget_by_hand() -> None:
    """1,000 requests at 95 %: 50 may be bad. 20 are: 60 % is left; 980 of 1,000 burn at 0.4."""
    period = spent([Counted(1000, 980, 0.95)])
    hour = spent([Counted(100, 80, 0.95)])
    found = budget(period, hour, spent([Counted(600, 600, 0.95)]))
    assert found == {
        "target": pytest.approx(0.95),
        "attained": 0.98,
        "allowed": pytest.approx(50),
        "bad": 20,
        "budget_left": pytest.approx(0.6),
        "burn_rate_1h": pytest.approx(4.0),  # 20 bad of 5
        "burn_rate_6h": 0.0,
    }


def test_budgets_of_classes_add_up() -> None:
    """5 of 100 and 1 of 1,000 may be bad: 6 together. 9 are."""
    both = spent([Counted(100, 92, 0.95), Counted(1000, 999, 0.999)])
    assert both.allowed == pytest.approx(6)
    assert both.burn_rate == pytest.approx(1.5)
    assert both.budget_left == pytest.approx(-0.5)
    nothing = spent([])
    assert (nothing.attainment, nothing.target, nothing.burn_rate, nothing.budget_left) == (None, None, 0.0, 1.0)
    strict = spent([Counted(10, 9, 1.0)])
    assert (strict.burn_rate, strict.budget_left) == (None, None)


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.floats(0, 0.999))
def test_a_burn_rate_is_its_definition(offered: int, good: int, target: float) -> None:
    good = min(offered, good)
    found = spent([Counted(offered, good, target)]).burn_rate
    assert found == pytest.approx((1 - good / offered) / (1 - target), rel=1e-6, abs=1e-9)


MINUTES = st.integers(0, 5 * 1440)


@given(
    start=MINUTES,
    length=MINUTES,
    hours=st.integers(0, 120),
    days=st.integers(0, 5),
    coarsest=st.sampled_from([MINUTE, HOUR, DAY]),
)
def test_a_span_is_covered_once(start: int, length: int, hours: int, days: int, coarsest: int) -> None:
    """Minute by minute: each in exactly one piece, each piece whole and before its watermark."""
    marks = {HOUR: START + timedelta(hours=hours), DAY: START + timedelta(days=days)}
    begin = START + timedelta(minutes=start)
    end = begin + timedelta(minutes=length)
    at = begin
    for piece in cover(begin, end, marks, coarsest=coarsest):
        assert piece.start == at < piece.end
        assert piece.seconds <= coarsest
        for edge in (piece.start, piece.end):
            assert (edge - START) % timedelta(seconds=piece.seconds) == timedelta()
        if piece.seconds != MINUTE:
            assert piece.end <= marks[piece.seconds]
        at = piece.end
    assert at == max(begin, end)


def window(good: int, bad: int, ttft_ms: float = 100, reason: str = "queued") -> Window:
    made = Window(offered=good + bad, good=good, tokens=10 * (good + bad), good_tokens=10 * good)
    made.reasons.update({reason: bad} if bad else {})
    made.ttft.add(ttft_ms * 1000, good + bad)
    return made


def write(at: datetime, **cells: Window) -> None:
    """``tenant__deployment__class``: its window."""
    write_minute(int(at.timestamp()), {CellKey(*name.split("__")): one for name, one in cells.items()})


@pytest.mark.django_db
def test_hours_and_days_are_their_minutes() -> None:
    for hour in range(26):
        write(START + timedelta(hours=hour, minutes=30), t__d__chat=window(hour, 1))
    write(START + timedelta(hours=26), t__d__chat=window(1, 0))
    spans = GoodputSpan.objects.for_platform()
    hours = {(row.at - START) // timedelta(hours=1): row for row in spans.filter(seconds=HOUR)}
    assert {number: (row.good, row.offered) for number, row in hours.items()} == {h: (h, h + 1) for h in range(26)}
    (day,) = spans.filter(seconds=DAY)
    assert (day.at, day.good, day.offered) == (START, sum(range(24)), sum(range(24)) + 24)
    assert Window.from_json(day.window).reasons == {"queued": 24}

    write(START + timedelta(hours=5, minutes=31), t__d__chat=window(100, 0))  # a new leader writes an old minute
    assert spans.get(seconds=HOUR, at=START + timedelta(hours=5)).good == 105
    assert spans.get(seconds=DAY).good == sum(range(24)) + 100
    write(START + timedelta(hours=5, minutes=31), t__d__chat=window(50, 0))
    assert spans.get(seconds=DAY).good == sum(range(24)) + 50


def ask(world: World, who: str, query: str) -> dict[str, Any]:
    answer = world.client(who).get(url("slas", "attainment") + f"?{query}")
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


@pytest.mark.django_db
def test_attainment_over_two_days_from_days_hours_and_minutes() -> None:
    world = World()
    mine, theirs = world.tenant.id, world.other.id
    create_class(name="gold", actor="t", base_ms=100, attainment_target=0.9)
    create_class(name="bulk", actor="t", base_ms=100, attainment_target=0.5)
    for hour in range(50):
        at = START + timedelta(hours=hour, minutes=10)
        cells = {CellKey(mine, "dep_1", "gold"): window(8, 2, 100), CellKey(theirs, "dep_1", "gold"): window(0, 5)}
        if hour % 2:
            cells[CellKey(mine, "dep_2", "bulk")] = window(1, 1, 400, "decode")
        cells[CellKey(mine, "dep_1", "", "rep_1")] = Window(provisioned_s=60.0)
        write_minute(int(at.timestamp()), cells)
    write_minute(
        int((START + timedelta(hours=49, minutes=20)).timestamp()), {CellKey(mine, "dep_1", "gold"): window(20, 0)}
    )
    span = "from=2026-03-01T00:05:00Z&to=2026-03-03T02:00:00Z"

    found = ask(world, "viewer", span + "&step=3600")
    gold, bulk = {group["key"]: group for group in found["groups"]}["gold"], found["groups"][0]
    assert (gold["offered"], gold["good"]) == (50 * 10 + 20, 50 * 8 + 20)
    assert gold["budget"] == {
        "target": pytest.approx(0.9), "attained": pytest.approx(420 / 520), "allowed": pytest.approx(52), "bad": 100,
        "budget_left": pytest.approx(1 - 100 / 52), "burn_rate_1h": pytest.approx(2 / 3),  # 2 bad of 30, 3 allowed
        "burn_rate_6h": pytest.approx(12 / 8),  # 6 hours: 60 + 20 offered, 12 bad, 8 allowed
    }  # fmt: skip
    assert (bulk["key"], bulk["offered"], bulk["late"]) == ("bulk", 50, {"decode": 25})
    assert bulk["budget"]["budget_left"] == pytest.approx(0)
    total = found["total"]
    assert (total["offered"], total["budget"]["allowed"]) == (570, pytest.approx(52 + 25))
    assert total["late"] == {"queued": 100, "decode": 25}
    assert total["ttft_ms"]["p50"] == pytest.approx(100, rel=0.02)  # 520 of 570 at 100 ms
    assert total["ttft_ms"]["p95"] == pytest.approx(400, rel=0.02)
    assert len(found["series"]) == 50
    assert sum(point["offered"] for point in found["series"]) == 570
    assert found["series"][-1]["offered"] == 32
    by_day = ask(world, "viewer", span + "&step=86400")["series"]
    assert [point["offered"] for point in by_day] == [264, 264, 42]
    fine = ask(world, "viewer", "from=2026-03-03T01:00:00Z&to=2026-03-03T02:00:00Z&step=300")
    assert [point["offered"] for point in fine["series"]] == [0, 0, 12, 0, 20, 0, 0, 0, 0, 0, 0, 0]
    assert ask(world, "operator", span)["total"]["offered"] == 570 + 250
    assert ask(world, "operator", span + f"&tenant={theirs}&class=gold")["total"]["budget"]["bad"] == 250
    contracts = ask(world, "viewer", span + "&group=contract")["groups"]
    assert [(g["deployment"], g["class_name"], g["offered"]) for g in contracts] == [
        ("dep_1", "gold", 520),
        ("dep_2", "bulk", 50),
    ]


@pytest.mark.django_db
def test_violations_by_reason_and_by_where() -> None:
    world = World()
    mine = world.tenant.id
    minute = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=5)
    write_minute(
        int(minute.timestamp()),
        {
            CellKey(mine, "dep_1", "chat"): window(10, 3),
            CellKey(mine, "dep_2", "chat"): window(10, 1, 100, "decode"),
            CellKey(world.other.id, "dep_2", "chat"): window(0, 9),
        },
    )

    def rows(query: str) -> list[tuple[str, int, float, int]]:
        answer = world.client("viewer").get(url("slas", "violations") + f"?{query}").json()
        assert answer["total"] == {"offered": 24, "bad": 4}
        return [(row["key"], row["bad"], row["share"], row["offered"]) for row in answer["rows"]]

    assert rows("") == [("queued", 3, 0.75, 24), ("decode", 1, 0.25, 24)]
    assert rows("group=deployment") == [("dep_1", 3, 0.75, 13), ("dep_2", 1, 0.25, 11)]
    assert rows("group=class") == [("chat", 4, 1.0, 24)]


@pytest.mark.django_db
def test_what_is_asked_amiss_is_named() -> None:
    client = World().client("operator")
    path = url("slas", "attainment")
    problem(client.get(path + "?step=7"), 400, "step")
    problem(client.get(path + "?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z&step=60"), 400, "step")
    problem(client.get(path + "?from=2020-01-01T00:00:00Z"), 400, "from")
    problem(client.get(path + "?from=1900-01-01T00:00:00Z"), 400, "from")
    problem(client.get(path + "?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z"), 400, "to")
    problem(client.get(path + "?group=key"), 400, "group")
    problem(client.get(path + "?tenant=ten_nothing"), 404, "tenant")
    assert client.get(path).json()["total"]["budget"]["burn_rate_1h"] == 0.0
    assert GoodputMinute.objects.for_platform().count() == 0
