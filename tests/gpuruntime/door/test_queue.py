"""The queue's order against its definition: fair shares between tenants, urgency within that bound."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.door.queue import CROWD, SHARE, FairQueue, Ticket


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
    tight = Ticket("t", latest_start=10.1)
    loose = Ticket("t", latest_start=10.9)
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


@given(
    pushes=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 50), st.floats(0, 20), st.booleans()), min_size=2, max_size=80
    ),
    freedom=st.sampled_from([0.0, 30.0, 200.0]),
    credit=st.sampled_from([0.0, 30.0, 300.0]),
)
def test_who_keeps_waiting_is_served_within_the_bound(
    pushes: list[tuple[str, int, float, bool]], freedom: float, credit: float
) -> None:
    """The bound of the docstring, over every span in which two tenants wait: by brute force over all spans."""
    weights = {"a": 1, "b": 2, "c": 5}
    queue = FairQueue(freedom=freedom, credit=credit)
    left: Counter[str] = Counter()
    history: list[tuple[dict[str, float], frozenset[str]]] = []
    served = dict.fromkeys(weights, 0.0)

    def note() -> None:
        history.append((dict(served), frozenset(name for name in weights if left[name])))

    now = 0.0
    for tenant, cost, slack, pops in pushes:
        queue.push(Ticket(tenant, weights[tenant], cost, latest_start=now + slack, arrived_s=now), now)
        left[tenant] += 1
        note()
        for _ in range(pops):
            ticket = queue.pop(now)
            assert ticket is not None
            now += 1.0
            served[ticket.tenant] += ticket.cost / ticket.weight
            left[ticket.tenant] -= 1
            note()
    most = max(cost / weights[tenant] for tenant, cost, _, _ in pushes)
    for one, other in (("a", "b"), ("a", "c"), ("b", "c")):
        for at, (before, _) in enumerate(history):
            for after, waiting in history[at:]:
                if not {one, other} <= waiting:
                    break
                difference = (after[one] - before[one]) - (after[other] - before[other])
                assert abs(difference) <= 2 * (freedom + credit + most) + 1e-6


def test_nobody_starves_behind_a_stream_of_more_urgent_ones() -> None:
    """Late ones beside timely ones of their tenant, and batch beside both, are served though the others never end."""
    queue, now = FairQueue(), 0.0
    late = Ticket("t", latest_start=-1.0, cost=10)
    batch, other = Ticket("t", cost=10), Ticket("u", cost=10)
    for ticket in (late, batch, other):
        queue.push(ticket, now)
    served = []
    for _ in range(200):
        now += 1.0
        queue.push(Ticket("t", latest_start=now + 0.5, cost=10, arrived_s=now), now)
        served.append(queue.pop(now))
    share = round(1 / SHARE)
    assert share <= served.index(late) <= share + 1, "as soon as its cost is its share of what the timely ones cost"
    assert max(served.index(batch), served.index(other)) <= 2 * share + 3


def test_batch_has_its_share_by_weight_while_no_deadline_is_at_risk() -> None:
    queue = FairQueue()
    for _ in range(20):
        queue.push(Ticket("chat", cost=10, latest_start=100.0))
        queue.push(Ticket("batch", weight=2.0, cost=10))
    first = [queue.pop(0.0).tenant for _ in range(12)]  # type: ignore[union-attr]
    assert first.count("batch") == 8


def test_a_tenant_that_takes_less_than_its_share_goes_before_more_urgent_ones() -> None:
    queue = FairQueue(freedom=50, credit=100)
    for _ in range(36):
        queue.push(Ticket("flood", cost=10, latest_start=5.0))
    for _ in range(20):
        queue.pop(0.0)
    few = [Ticket("few", cost=10, latest_start=9.0) for _ in range(7)]
    for ticket in few:
        queue.push(ticket)
    assert queue.in_credit("few")
    assert not queue.in_credit("flood")
    assert [queue.pop(0.0) for _ in range(5)] == few[:5], "credit - freedom = 5 requests"
    assert queue.pop(0.0).tenant == "flood"  # type: ignore[union-attr]


def test_a_tenant_of_whom_a_crowd_waits_goes_behind_others_within_the_freedom() -> None:
    queue = FairQueue(freedom=40)
    for _ in range(CROWD + 3):
        queue.push(Ticket("flood", cost=10, latest_start=5.0))
    few = [Ticket("few", cost=10, latest_start=9.0) for _ in range(9)]
    for ticket in few:
        queue.push(ticket)
    # At 50 of cost it is more than 40 above the flood, whose turn it is until then.
    assert [queue.pop(0.0) for _ in range(5)] == few[:5]
    assert [queue.pop(0.0).tenant for _ in range(3)] == ["flood", "few", "flood"]  # type: ignore[union-attr]


def test_of_equal_deadlines_the_one_in_the_prefix_cache_goes_first() -> None:
    queue = FairQueue()
    cold, hot, sooner = (
        Ticket("t", latest_start=1.001, new_tokens=100),
        Ticket("t", latest_start=1.002, cached_tokens=96),
        Ticket("t", latest_start=0.9),
    )
    for ticket in (cold, hot, sooner):
        queue.push(ticket)
    assert drain(queue) == [sooner, hot, cold]


class Counted(float):
    """A number that counts how often it is compared."""

    comparisons = 0

    def __lt__(self, other: float) -> bool:
        Counted.comparisons += 1
        return float(self) < float(other)

    def __gt__(self, other: float) -> bool:
        Counted.comparisons += 1
        return float(self) > float(other)

    def __le__(self, other: float) -> bool:
        Counted.comparisons += 1
        return float(self) <= float(other)

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return float(self) == other

    __hash__ = float.__hash__

    def __add__(self, other: float) -> Counted:
        return Counted(float(self) + other)

    def __sub__(self, other: float) -> Counted:
        return Counted(float(self) - other)

    __radd__ = __add__

    def __truediv__(self, other: float) -> Counted:
        return Counted(float(self) / other)


def comparisons(tickets: int, tenants: int) -> float:
    """A push and a pop each, while so many wait."""
    random = Random(1)
    queue = FairQueue(freedom=Counted(100), credit=Counted(150))

    def push(now: float) -> None:
        name = f"t{random.randrange(tenants)}"
        latest = Counted(now + random.random() * 2 * tickets)
        queue.push(Ticket(name, cost=Counted(random.randint(1, 50)), latest_start=latest, arrived_s=now), now)

    for _ in range(tickets):
        push(0.0)
    Counted.comparisons = 0
    for step in range(tickets):
        queue.pop(float(step))
        push(float(step))
    return Counted.comparisons / tickets


@pytest.mark.parametrize("tenants_of", [lambda n: n, lambda n: 3], ids=["a tenant each", "three tenants"])
def test_the_work_grows_with_the_logarithm_of_what_waits(tenants_of: Callable[[int], int]) -> None:
    few, many = comparisons(64, tenants_of(64)), comparisons(4096, tenants_of(4096))
    assert many <= 2 * few * (math.log2(4096) / math.log2(64))


def test_what_is_ahead_of_a_ticket_is_bounded_by_fairness() -> None:
    """Two thousand tokens of a flood wait; what goes before another tenant's request is within the freedom."""
    queue = FairQueue(freedom=200, credit=0)
    for _ in range(20):
        queue.push(Ticket("flood", cost=100, new_tokens=90, latest_start=1.0))
    victim = Ticket("victim", cost=100, new_tokens=80, latest_start=2.0)
    assert queue.ahead(victim, 0.0) == (2, 180.0)
    assert queue.ahead(Ticket("flood", cost=100, latest_start=2.0), 0.0) == (20, 1800)
    assert queue.ahead(Ticket("flood", cost=100, latest_start=0.5), 0.0) == (0, 0)


def test_a_ticket_waits_only_once() -> None:
    queue = FairQueue()
    queue.push(ticket := Ticket("t"))
    with pytest.raises(ValueError, match="already"):
        queue.push(ticket)
