"""The queue's order against its definition: fair shares between tenants, urgency within one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.door.queue import FairQueue, Ticket


def drain(queue: FairQueue, now: float = 0.0) -> list[Ticket]:
    out = []
    while (ticket := queue.pop(now)) is not None:
        out.append(ticket)
    return out


costs = st.lists(st.integers(1, 50), min_size=1, max_size=40)


@given(a=costs, b=costs, weight_a=st.integers(1, 8), weight_b=st.integers(1, 8))
def test_backlogged_tenants_share_by_weight_within_one_request_each(
    a: list[int], b: list[int], weight_a: int, weight_b: int
) -> None:
    """The bound of start-time fair queueing, over every prefix in which both still wait."""
    queue = FairQueue()
    for tenant, weight, costs_ in (("a", weight_a, a), ("b", weight_b, b)):
        for cost in costs_:
            queue.push(Ticket(tenant, weight=weight, cost=cost))
    bound = max(a) / weight_a + max(b) / weight_b
    served: Counter[str] = Counter()
    left = Counter(a=len(a), b=len(b))
    for ticket in drain(queue):
        if min(left.values()) > 0:
            served[ticket.tenant] += ticket.cost
            assert abs(served["a"] / weight_a - served["b"] / weight_b) <= bound + 1e-9
        left[ticket.tenant] -= 1


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.floats(0, 100)), max_size=60),
    st.randoms(use_true_random=False),
)
def test_every_ticket_leaves_exactly_once(pushes: list[tuple[str, bool, float]], random: object) -> None:
    queue = FairQueue()
    tickets = [Ticket(tenant, latest_start=latest) for tenant, _, latest in pushes]
    removed = []
    for ticket, (_, remove, _) in zip(tickets, pushes, strict=True):
        queue.push(ticket)
        if remove:
            assert queue.remove(ticket)
            assert not queue.remove(ticket)
            removed.append(ticket)
    assert len(queue) == len(tickets) - len(removed)
    served = drain(queue, now=50.0)
    assert Counter(map(id, served)) == Counter(id(t) for t in tickets if not any(t is r for r in removed))
    assert len(queue) == 0


def test_a_new_tenant_does_not_wait_for_a_backlog_of_another() -> None:
    queue = FairQueue()
    for _ in range(100):
        queue.push(Ticket("greedy", cost=10))
    for _ in range(50):
        queue.pop(0)
    queue.push(newcomer := Ticket("new", cost=10))
    assert newcomer in (queue.pop(0), queue.pop(0))


def test_an_idle_tenant_saves_no_credit() -> None:
    queue = FairQueue()
    queue.push(Ticket("late", cost=1))
    queue.pop(0)
    for _ in range(20):
        queue.push(Ticket("busy", cost=10))
        queue.pop(0)
    for tenant in ("late", "busy"):
        for _ in range(10):
            queue.push(Ticket(tenant, cost=10))
    first = [queue.pop(0).tenant for _ in range(6)]  # type: ignore[union-attr]
    assert first.count("late") <= 4


def test_the_tightest_deadline_goes_first_then_the_missed_then_those_without() -> None:
    queue = FairQueue()
    endless = Ticket("t")
    missed_second = Ticket("t", latest_start=9.0)
    missed_first = Ticket("t", latest_start=9.5)
    tight = Ticket("t", latest_start=11.0)
    loose = Ticket("t", latest_start=20.0)
    for ticket in (endless, loose, missed_first, missed_second, tight):
        queue.push(ticket)
    assert drain(queue, now=10.0) == [tight, loose, missed_first, missed_second, endless]


def test_the_true_cost_corrects_the_estimate() -> None:
    """A tenant whose requests were ten times as long as estimated waits for the other to catch up."""
    queue = FairQueue()
    for _ in range(12):
        queue.push(Ticket("long", cost=10))
        queue.push(Ticket("short", cost=10))
    first = queue.pop(0)
    while first is not None and first.tenant != "long":
        first = queue.pop(0)
    assert first is not None
    queue.settle(first, 100)
    following = [queue.pop(0).tenant for _ in range(8)]  # type: ignore[union-attr]
    assert following == ["short"] * 8


def test_a_ticket_waits_only_once() -> None:
    queue = FairQueue()
    queue.push(ticket := Ticket("t"))
    with pytest.raises(ValueError, match="already"):
        queue.push(ticket)
