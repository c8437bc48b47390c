"""Bounded-load consistent hashing: what it promises, over many keys and loads."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from berth.gateway.asked import AFFINITY_BYTES, parse_chat
from berth.gateway.routing import BOUND, Candidate, affinity_key, order

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        id=st.integers(0, 10**6).map(str),
        load=st.integers(0, 20),
        capacity=st.integers(1, 16),
        kv_free=st.sampled_from([0.0, 0.5, 1.0]),
        predicted_ttft_ms=st.sampled_from([0.0, 500.0, 5000.0]),
    ),
    max_size=8,
    unique_by=lambda c: c.id,
)


def idle(count: int, capacity: int = 100) -> list[Candidate]:
    return [Candidate(f"rep_{number}", 0, capacity) for number in range(count)]


def keys(count: int) -> list[bytes]:
    return [affinity_key("ten_1", f"conversation {number}".encode()) for number in range(count)]


@given(st.binary(max_size=40), CANDIDATES)
def test_all_are_named_once_and_the_order_given_does_not_matter(key: bytes, candidates: list[Candidate]) -> None:
    found = order(key, candidates, 1000)
    assert sorted(found) == sorted(c.id for c in candidates)
    assert order(key, candidates[::-1], 1000) == found


@given(st.binary(max_size=40), CANDIDATES)
def test_a_full_or_late_replica_never_comes_before_one_with_room(key: bytes, candidates: list[Candidate]) -> None:
    by_id = {c.id: c for c in candidates}
    ranked = [by_id[i] for i in order(key, candidates, 1000)]
    full = [c.load >= c.capacity or c.kv_free <= 0.02 for c in ranked]
    assert full == sorted(full)
    late = [c.predicted_ttft_ms > 1000 for c, is_full in zip(ranked, full, strict=True) if not is_full]
    assert late == sorted(late)


@given(st.binary(max_size=40), CANDIDATES)
def test_the_first_is_within_the_bound_when_anyone_with_room_is(key: bytes, candidates: list[Candidate]) -> None:
    usable = [replace(c, kv_free=1.0, predicted_ttft_ms=0.0) for c in candidates if c.load < c.capacity]
    if not usable:
        return
    first = next(c for c in usable if c.id == order(key, usable)[0])
    mean = (sum(c.load for c in usable) + 1) / sum(c.capacity for c in usable)
    assert first.load < math.ceil(BOUND * mean * first.capacity)


def test_keys_spread_evenly() -> None:
    counts = Counter(order(key, idle(4))[0] for key in keys(4000))
    assert all(850 < count < 1150 for count in counts.values())


def test_a_replica_that_leaves_moves_only_its_own_keys() -> None:
    four, three = idle(4), idle(4)[:3]
    for key in keys(500):
        before = order(key, four)[0]
        assert before == "rep_3" or order(key, three)[0] == before


def test_tenants_do_not_share_a_key() -> None:
    assert affinity_key("ten_1", b"x") != affinity_key("ten_", b"1x")


def test_a_busy_favourite_is_passed_over_and_taken_again() -> None:
    (key,) = keys(1)
    favourite, second = order(key, idle(3))[:2]
    busy = [replace(c, load=6 if c.id == favourite else 0) for c in idle(3)]
    assert order(key, busy)[0] == second
    assert order(key, idle(3))[0] == favourite


def test_a_cache_key_takes_the_conversations_place() -> None:
    """Whoever names one wants requests with it together, whatever they begin with."""

    def affinity(text: str, **more: str) -> bytes:
        body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
        return parse_chat(json.dumps(body).encode()).affinity

    assert affinity("a") != affinity("b")
    assert affinity("a", prompt_cache_key="k") == affinity("b", prompt_cache_key="k") == b"k"
    assert affinity("a", prompt_cache_key="") == affinity("a")
    assert len(affinity("a", prompt_cache_key="k" * 5000)) == AFFINITY_BYTES
