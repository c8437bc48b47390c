"""The cheapest cover against every cover there is."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.packing.mixes import Item, Worth, cheapest

ITEMS = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 9)).map(lambda pair: (pair[0] / 4, pair[1] / 8)), max_size=4
).map(lambda pairs: [Item(n, rate, price) for n, (rate, price) in enumerate(pairs)])


def brute(items: list[Item], worth: Worth, least: int, most: int) -> float:
    best = worth.loss(0.0)
    for counts in product(range(6), repeat=len(items)):
        if least <= sum(counts) <= most:
            rate = sum(item.rate * n for item, n in zip(items, counts, strict=True))
            price = sum(item.price * n for item, n in zip(items, counts, strict=True))
            best = min(best, price + worth.loss(rate))
    return best


@given(ITEMS, st.integers(0, 4), st.integers(0, 4), st.integers(1, 3), st.integers(1, 5), st.floats(0.1, 10))
def test_no_mix_is_cheaper(
    items: list[Item], guaranteed: int, burst: int, least: int, most: int, burst_price: float
) -> None:
    worth = Worth(guaranteed / 4, (guaranteed + burst) / 4, 20.0, burst_price)
    found = cheapest(items, worth, least, most)
    assert found.cost == pytest.approx(brute(items, worth, least, most))
    assert found.bound <= found.cost + 1e-9
    assert found.replicas == 0 or least <= found.replicas <= most


def test_a_long_cover_is_found_without_looking_at_all_of_them() -> None:
    items = [Item(0, 1.0, 0.14), Item(1, 1.9, 0.25), Item(2, 2.1, 0.33), Item(3, 4.1, 0.5), Item(4, 8.4, 1.0)]
    found = cheapest(items, Worth(100.3, 100.3, 1e3, 0.0))
    assert found.rate >= 100.3
    # No price a token is below the whole GPU's, 1 / 8.4.
    assert 100.3 / 8.4 <= found.cost <= 100.3 / 8.4 + 0.15


def test_goodput_that_is_worth_less_than_its_price_is_left() -> None:
    worth = Worth(1.0, 10.0, 100.0, 0.1)
    assert cheapest([Item(0, 1.0, 0.5)], worth).counts == ((0, 1),)
    assert cheapest([Item(0, 1.0, 0.05)], worth).counts == ((0, 10),)


def test_nothing_on_offer_serves_nothing() -> None:
    found = cheapest([], Worth(1.0, 1.0, 5.0, 0.0))
    assert (found.counts, found.cost) == ((), 5.0)
