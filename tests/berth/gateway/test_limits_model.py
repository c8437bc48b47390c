"""The scripts of admission against a plain model of the limits, through any order of asking, settling and time.

Time passes by making what Redis holds older. The model takes the second from what the script wrote, so no boundary of
a second can make them differ.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.core.periods import day_of, month_of
from berth.gateway.budgets import months_around
from berth.live import names

LEASE_S = 30
HOLDERS = 3
SCOPES = [f"model:{number}" for number in range(HOLDERS)]
ADMIT, SETTLE = ((resources.files("berth.gateway") / name).read_text() for name in ("admission.lua", "settle.lua"))
DAY_S, MONTH_S = 86_400, 30 * 86_400
BUDGETS = ("tokens:day", "cost:day", "tokens:month", "cost:month")
WHATS = ("requests", "tokens", "concurrency", "tokens_day", "cost_day", "tokens_month", "cost_month")
PRICE = 9_007_199_254_740_993  # of a token, 2**53 + 1: whoever counts in doubles is wrong from the first on
Limit = tuple[int, ...]

OFF = st.just(-1)
TOKENS, COST = st.integers(30, 150), st.integers(30 * PRICE, 150 * PRICE)
LIMIT = st.tuples(
    OFF | st.integers(1, 4), OFF | st.integers(20, 99), OFF | st.integers(1, 3),
    OFF | TOKENS, OFF | COST, OFF | TOKENS, OFF | COST,
)  # fmt: skip
ASK = st.tuples(st.just("ask"), st.integers(0, 9), st.integers(0, 40))
CLOSE = st.tuples(st.just("settle"), st.integers(0, 9), st.integers(0, 60))
PASS = st.tuples(st.just("pass"), st.sampled_from([5, 35, 61, DAY_S, MONTH_S]), st.just(0))
STEPS = st.lists(st.one_of(ASK, ASK, CLOSE, PASS), min_size=12, max_size=40)


@dataclass
class Reservation:
    age: int = 0  # seconds that the test made pass since
    tokens: int = 0
    open: bool = True
    lease_s: int = LEASE_S
    days: int = 0
    months: int = 0

    @property
    def counts(self) -> bool:
        return self.age < 60


@dataclass
class Model:
    """What every holder should allow: all counters are sums over the reservations that were made."""

    limits: list[Limit]
    made: list[tuple[str, Reservation]] = field(default_factory=list)

    def used(self) -> tuple[int, ...]:
        counted = [one for _, one in self.made if one.counts]
        in_flight = sum(one.open and one.lease_s > 0 for _, one in self.made)
        today = sum(one.tokens for _, one in self.made if one.days == one.months == 0)
        this_month = sum(one.tokens for _, one in self.made if one.months == 0)
        budgets = (today, today * PRICE, this_month, this_month * PRICE)
        return len(counted), sum(one.tokens for one in counted), in_flight, *budgets

    def open(self, request: str) -> Reservation | None:
        return next((one for id, one in self.made if id == request and one.open), None)

    def fits(self, need: int) -> bool:
        more = (1, need, 1, need, need * PRICE, need, need * PRICE)
        wants = tuple(used + extra for used, extra in zip(self.used(), more, strict=True))
        return all(limit < 0 or want <= limit for held in self.limits for limit, want in zip(held, wants, strict=True))


class Store:
    def __init__(self, url: str, limits: list[Limit]) -> None:
        self.client = redis.Redis.from_url(url, decode_responses=True)
        self.client.flushdb()
        self.limits = limits
        for scope in SCOPES:
            self.client.hset(names.budget(scope), "server", "server")
        self.admit, self.close = self.client.register_script(ADMIT), self.client.register_script(SETTLE)

    def ask(self, request: str, need: int) -> list[Any]:
        keys = [names.open_request(request), names.OPEN_REQUESTS]
        keys += [key for scope in SCOPES for key in (*names.limits(scope), names.budget(scope))]
        limits = [limit for held in self.limits for limit in held]
        args = [
            request,
            need,
            need * PRICE,
            LEASE_S,
            "server",
            *months_around(time.time()),
            HOLDERS,
            *limits,
            "record",
            "{}",
        ]
        answer: list[Any] = self.admit(keys, args)
        return answer

    def settle(self, request: str, used: int) -> int:
        keys = [names.open_request(request), names.OPEN_REQUESTS, names.USAGE_STREAM, names.settled(request)]
        keys += [key for scope in SCOPES for key in (*names.limits(scope)[1:], names.budget(scope))]
        return int(self.close(keys, [request, used, used * PRICE, 0, 0, ""]))

    def turn(self, period: str, seconds: int) -> None:
        """What is of this day or month is of one before."""
        for scope in SCOPES:
            budget = names.budget(scope)
            for name, value in self.client.hgetall(budget).items():
                unit, _, rest = name.partition(":")
                if rest.startswith(period):
                    self.client.hdel(budget, name)
                    start = int(rest.partition(":")[2]) - seconds
                    self.client.hincrby(budget, f"{unit}:{period}:{start}", int(value))
        for request in self.client.smembers(names.OPEN_REQUESTS):
            self.client.hincrby(names.open_request(request), period, -seconds)

    def grow_older(self, seconds: int) -> None:
        if seconds >= DAY_S:
            self.turn("day", DAY_S)
        if seconds >= MONTH_S:
            self.turn("month", MONTH_S)
        for scope in SCOPES:
            requests, tokens, leases = names.limits(scope)
            for key in (requests, tokens):
                counters = self.client.hgetall(key)
                if counters:
                    self.client.delete(key)
                    self.client.hset(key, mapping={int(at) - seconds: n for at, n in counters.items()})
            for member, end in self.client.zrange(leases, 0, -1, withscores=True):
                self.client.zadd(leases, {member: end - seconds})
        for request in self.client.smembers(names.OPEN_REQUESTS):
            self.client.hincrby(names.open_request(request), "second", -seconds)

    def everything(self) -> dict[str, Any]:
        """Without the windows' seconds and leases that are past: a refusal may sweep those."""
        now = self.client.time()[0]
        found: dict[str, Any] = {}
        for scope in SCOPES:
            requests, tokens, leases = names.limits(scope)
            for key in (requests, tokens):
                found[key] = {at: n for at, n in self.client.hgetall(key).items() if int(at) > now - 60}
            found[leases] = [one for one in self.client.zrange(leases, 0, -1, withscores=True) if one[1] > now]
            fields = self.client.hgetall(names.budget(scope))
            starts = {"day": day_of(now), "month": month_of(now)}
            found[names.budget(scope)] = [
                int(fields.get(f"{budget}:{starts[budget.partition(':')[2]]}", 0)) for budget in BUDGETS
            ]
        found["open"] = self.client.smembers(names.OPEN_REQUESTS)
        return found


def step(store: Store, model: Model, kind: str, number: int, amount: int) -> None:
    request = f"req_{number}"
    held = model.open(request)
    if kind == "pass":
        store.grow_older(number)
        for _, one in model.made:
            one.age += number
            one.lease_s -= number
            one.days += number >= DAY_S
            one.months += number >= MONTH_S
    elif kind == "settle":
        assert store.settle(request, amount) == (held is not None)
        assert store.settle(request, amount) == 0  # a second time changes nothing
        if held is not None:
            held.open, held.tokens = False, amount
    elif held is not None:  # the same request once more: still admitted, counted once
        assert store.ask(request, amount)[0] == 1
    elif model.fits(amount):
        assert store.ask(request, amount)[0] == 1
        model.made.append((request, Reservation(tokens=amount)))
    else:
        before = store.everything()
        admitted, who, what, wait_ms, *_ = store.ask(request, amount)
        assert (admitted, store.everything()) == (0, before)
        place = WHATS.index(what)
        more = (1, amount, 1, amount, amount * PRICE, amount, amount * PRICE)[place]
        assert 0 <= model.limits[who - 1][place] < model.used()[place] + more
        assert 0 < wait_ms <= (60_000 if place < 3 else DAY_S * 1000 if what.endswith("day") else 31 * DAY_S * 1000)


@settings(max_examples=150, deadline=None)
@given(limits=st.lists(LIMIT, min_size=HOLDERS, max_size=HOLDERS), steps=STEPS)
def test_any_order_of_requests_keeps_every_limit(limits: list[Limit], steps: list[tuple[str, int, int]]) -> None:
    store, model = Store(_url(), limits), Model(limits)
    try:
        for kind, number, amount in steps:
            step(store, model, kind, number, amount)
            state = store.everything()
            for scope, (requests, tokens, leases, *budgets) in zip(SCOPES, limits, strict=True):
                keys = names.limits(scope)
                seen = (sum(map(int, state[keys[0]].values())), sum(map(int, state[keys[1]].values())))
                expected = model.used()
                assert requests < 0 or seen[0] == expected[0] <= requests
                assert tokens < 0 or seen[1] == expected[1]
                assert leases < 0 or len(state[keys[2]]) == expected[2] <= leases
                assert state[names.budget(scope)] == list(expected[3:])
                assert all(limit < 0 or used >= 0 for limit, used in zip(budgets, expected[3:], strict=True))
            assert state["open"] == {id for id, one in model.made if one.open}
    finally:
        store.client.flushdb()
        store.client.close()


def _url() -> str:
    return os.environ["BERTH_REDIS_URL"]
