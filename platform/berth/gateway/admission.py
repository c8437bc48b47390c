"""Asks Redis whether a request fits under all limits on it.

Without Redis nothing is counted: a request under limits then passes or is refused, as its tenant chose.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

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
from berth.gateway.snapshot import Limits, Route
from berth.live import names
from berth.metering.records import OpenRecord, encode

LEASE_S = 30
AWAY_S = 0.5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """Room that was made for one request, with each of ``holders``. ``burst``: it went beyond a guaranteed rate."""

    holders: tuple[Holder, ...] = ()
    headers: RateHeaders = ()
    burst: bool = False


class Admission:
    """One call a request. While Redis is away only one request every half second waits to find out."""

    def __init__(self, line: Line, gateway_id: str) -> None:
        self._line = line
        self._gateway_id = gateway_id
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
        key_limits: Limits = Limits(),
        room: bool = True,
    ) -> Grant:
        """Raises ``ApiError``: 429 when a limit is reached, 503 when none can be counted and the tenant would rather
        wait. Nothing is then reserved or opened.

        ``room``: a door has a free place, so bursts beyond the guaranteed rates may pass.
        """
        holders = holders_of(route, opened.key_id, key_limits)
        if time.monotonic() < self._away_until:
            return self._uncounted(route, holders)
        try:
            answer = await self._script(self._line, *self._call(holders, opened, reserve, replica_id, room))
        except RedisError as error:
            self._away_until = time.monotonic() + AWAY_S
            log.warning("limits_away", extra={"error": str(error)})
            return self._uncounted(route, holders)
        admitted, who, what, wait_ms, *left = answer
        lefts = _lefts(left)
        headers = rate_headers(holders, lefts, room=room)
        if not admitted:
            over = Over(holders[int(who) - 1], what, int(wait_ms))
            self.refused[over.holder.kind, what] += 1
            raise refusal(over, route.model, reserve, headers, room=room)
        return Grant(holders, headers, room and bursts(holders, lefts))

    def _uncounted(self, route: Route, holders: tuple[Holder, ...]) -> Grant:
        """The grant keeps its holders: what was reserved for a lost answer is given back when the request settles."""
        refuses = bool(holders) and not route.admits_uncounted
        self.uncounted["refused" if refuses else "admitted"] += 1
        if refuses:
            raise uncounted_refusal()
        return Grant(holders)

    def _call(
        self, holders: tuple[Holder, ...], opened: OpenRecord, reserve: int, replica_id: str, room: bool
    ) -> tuple[list[str], list[Argument]]:
        request_id = opened.request_id
        keys = [names.open_request(request_id), names.OPEN_REQUESTS]
        args: list[Argument] = [request_id, reserve, LEASE_S, len(holders)]
        for holder in holders:
            keys += names.limits(holder.scope)
            ceilings = (*holder.limits.ceilings(room=room), holder.limits.max_concurrency)
            args += [-1 if ceiling is None else ceiling for ceiling in ceilings]
        args += ["record", encode(opened), "gateway", self._gateway_id, "replica", replica_id]
        args += ["prompt_tokens", 0, "tokens", 0]
        return keys, args


def _lefts(values: list[Any]) -> list[Left]:
    return [Left(*map(int, values[at : at + 4])) for at in range(0, len(values), 4)]
