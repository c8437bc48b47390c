"""Asks Redis whether a request fits under all limits on it.

Without Redis nothing is counted, and without the database no budget that Redis lost: a request under limits then
passes or is refused, as its tenant chose.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from berth.gateway.budgets import FIELDS, budget_refusal, months_around
from berth.gateway.limits import (
    Holder,
    Left,
    Over,
    RateHeaders,
    bursts,
    holders_of,
    rate_headers,
    refusal,
    uncounted_refusal,
)
from berth.gateway.line import Argument, Line, Script
from berth.gateway.seeding import BudgetsAway, Seeding
from berth.gateway.snapshot import NO_BUDGETS, Limits, Route
from berth.live import names
from berth.metering.records import OpenRecord, encode

LEASE_S = 30
AWAY_S = 0.5
SEED_S = 7.0  # longer than a gateway that died over it keeps others waiting
UNSEEDED = -1

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """Room that was made for one request, with each of ``holders``. ``burst``: it went beyond a guaranteed rate."""

    holders: tuple[Holder, ...] = ()
    headers: RateHeaders = ()
    burst: bool = False


class _Asked(NamedTuple):
    """What a request wants; as ``Admission.ask`` has it."""

    opened: OpenRecord
    reserve: int
    cost: int
    replica_id: str
    room: bool


class Admission:
    """One call a request. While Redis is away only one request every half second waits to find out."""

    def __init__(self, line: Line, gateway_id: str, seeding: Seeding) -> None:
        self._line = line
        self._gateway_id = gateway_id
        self._seeding = seeding
        self._script = Script("admission.lua")
        self._away_until = 0.0
        self.refused: Counter[tuple[str, str]] = Counter()
        self.uncounted: Counter[str] = Counter()

    async def ask(
        self,
        route: Route,
        opened: OpenRecord,
        reserve: int,
        replica_id: str,
        *,
        cost: int = 0,
        key_limits: Limits = Limits(),
        room: bool = True,
    ) -> Grant:
        """Raises ``ApiError``: 429 when a limit is reached, 503 when one cannot be counted and the tenant would rather
        wait. Nothing is then reserved or opened.

        ``reserve``: tokens; ``cost``: theirs at most, in 1e-10 of the currency's unit. ``room``: a door has a free
        place, so bursts beyond the guaranteed rates may pass.
        """
        holders = holders_of(route, opened.key_id, key_limits)
        if time.monotonic() < self._away_until:
            self._pass_uncounted(route, holders)
            return Grant(holders)
        asked = _Asked(opened, reserve, cost, replica_id, room)
        try:
            answer = await self._decide(route, holders, asked)
        except RedisError as error:
            self._away_until = time.monotonic() + AWAY_S
            log.warning("limits_away", extra={"error": str(error)})
            self._pass_uncounted(route, holders)
            return Grant(holders)
        admitted, who, what, wait_ms, used, *left = answer
        lefts = _lefts(left)
        headers = rate_headers(holders, lefts, room=room)
        if not admitted:
            over = Over(holders[int(who) - 1], what, int(wait_ms), int(used))
            self.refused[over.holder.owner.kind, what] += 1
            if what in FIELDS:
                now = time.time()
                raise budget_refusal(over, route.model, reserve=reserve, cost=cost, prices=route.prices, now=now)
            raise refusal(over, route.model, reserve, headers, room=room)
        return Grant(holders, headers, room and bursts(holders, lefts))

    async def _decide(self, route: Route, holders: Sequence[Holder], asked: _Asked) -> list[Any]:
        """The script's answer, after every budget it does not know has been counted. Where that cannot be, rates and
        concurrency hold and the open request is known all the same."""
        until = time.monotonic() + SEED_S
        while True:
            answer: list[Any] = await self._script(self._line, *await self._call(holders, asked))
            if answer[0] != UNSEEDED:
                return answer
            try:
                if time.monotonic() > until:
                    raise BudgetsAway
                await self._seeding.seed(holders[int(answer[1]) - 1].owner)
            except BudgetsAway:
                self._pass_uncounted(route, holders)
                holders = [Holder(one.owner, replace(one.limits, budgets=NO_BUDGETS)) for one in holders]

    def _pass_uncounted(self, route: Route, holders: Sequence[Holder]) -> None:
        """The grant keeps its holders: what was reserved for a lost answer is given back when the request settles."""
        refuses = any(holder.limits.any for holder in holders) and not route.admits_uncounted
        self.uncounted["refused" if refuses else "admitted"] += 1
        if refuses:
            raise uncounted_refusal()

    async def _call(self, holders: Sequence[Holder], asked: _Asked) -> tuple[list[str], list[Argument]]:
        opened = asked.opened
        keys = [names.open_request(opened.request_id), names.OPEN_REQUESTS]
        args: list[Argument] = [opened.request_id, asked.reserve, asked.cost, LEASE_S, await self._line.server()]
        args += [*months_around(time.time()), len(holders)]
        for holder in holders:
            limits = holder.limits
            keys += [*names.limits(holder.owner.scope), names.budget(holder.owner.scope)]
            most = (*limits.ceilings(room=asked.room), limits.max_concurrency, *limits.budgets)
            args += [-1 if ceiling is None else ceiling for ceiling in most]
        args += ["record", encode(opened), "gateway", self._gateway_id, "replica", asked.replica_id]
        args += ["prompt_tokens", 0, "tokens", 0]
        return keys, args


def _lefts(values: list[Any]) -> list[Left]:
    return [Left(*map(int, values[at : at + 4])) for at in range(0, len(values), 4)]
