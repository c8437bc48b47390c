"""Who is slow among equals: cases with figures that can be checked by hand."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.health.stragglers import FAR_BELOW, Speed, shares


def speeds(group: str = "g", **values: float) -> list[Speed]:
    return [Speed(gpu, group, value) for gpu, value in values.items()]


def test_one_far_below_its_siblings_is_slow() -> None:
    assert shares(speeds(a=1.0, b=1.02, c=0.98, d=0.6)) == {"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.6}


def test_siblings_that_differ_as_much_make_nobody_slow() -> None:
    assert set(shares(speeds(a=1.0, b=1.4, c=0.7, d=0.72)).values()) == {0.0}


def test_nobody_judges_by_one_sibling() -> None:
    assert shares(speeds(a=1.0, b=0.1)) == {}
    assert shares([*speeds(a=1.0, b=0.1), Speed("b", "g", 0.1), Speed("b", "g", 0.1)]) == {}
    assert shares(speeds(a=1.0, b=1.0, c=0.1))["c"] == 0.1


def test_half_of_them_slow_is_the_model_or_the_load() -> None:
    assert set(shares(speeds(a=1.0, b=1.0, c=0.5, d=0.5)).values()) == {0.0}


def test_slow_in_one_group_alone_is_not_the_gpu() -> None:
    first, second = speeds("g", a=1.0, b=1.0, c=0.5), speeds("h", a=1.0, b=1.0, c=0.95)
    assert shares([*first, *second])["c"] == 0.0
    assert shares([*first, *speeds("h", a=1.0, b=1.0, c=0.7)])["c"] == 0.7


def test_a_gpus_replicas_of_one_group_count_as_one() -> None:
    rows = [Speed("c", "g", 0.5), Speed("c", "g", 0.52), Speed("c", "g", 3.0), *speeds(a=1.0, b=1.0)]
    assert shares(rows)["c"] == 0.52


def test_nothing_measured_is_nothing() -> None:
    assert shares([]) == {}
    assert set(shares(speeds(a=0.0, b=0.0, c=0.0)).values()) == {0.0}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=3, max_size=9), st.randoms(use_true_random=False))
def test_neither_unit_nor_order_matter_and_most_are_never_slow(values: list[float], chance: random.Random) -> None:
    rows = [Speed(str(number), "g", value) for number, value in enumerate(values)]
    found = shares(rows)
    assert all(share < FAR_BELOW for share in found.values())
    assert sum(share > 0 for share in found.values()) < len(values) / 2
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert shares(shuffled) == found
    scaled = shares([Speed(row.gpu, row.group, row.value * 2) for row in rows])
    assert {gpu for gpu, share in scaled.items() if share} == {gpu for gpu, share in found.items() if share}
