"""Counts anew what a budget has used: after Redis lost it, after it restarted, and when a budget is the first of its
holder. Everything runs in a thread: requests wait for it, the event loop does not.

seed.lua: from here on counted by itself | open requests + records not booked + database -> seeded.lua: added
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from importlib import resources
from typing import Any, Protocol

import msgspec
import redis
from django.db import Error as AnyDatabaseError
from psycopg_pool import PoolTimeout

from berth.core.periods import day_of, month_of
from berth.live import names
from berth.metering.owners import Owner, Spent, owners_of
from berth.metering.records import OpenRecord, UsageEvent, open_decoder, usage_decoder
from berth.slas.costs import to_parts

TAKEN_OVER_S = 5
AWAY_S = 0.5
LOOK_S = 0.02
PAGE = 1000
TIMEOUT_S = 5.0
# Below what a counter of 64 bits holds, by more than a month's usage of anyone under a budget.
MOST = 4 * 10**18

log = logging.getLogger(__name__)


class Usage(Protocol):
    """The database's side; called in a thread."""

    def spent(self, owner: Owner, since: datetime, leaving_out: Sequence[str]) -> Spent: ...
    def costs(self, events: Sequence[UsageEvent]) -> list[Decimal]: ...


class BudgetsAway(Exception):
    """What a budget has used cannot be found out at the moment."""


class Seeding:
    def __init__(self, redis_url: str, usage: Usage) -> None:
        self._client: Any = redis.Redis.from_url(
            redis_url, decode_responses=True, socket_timeout=TIMEOUT_S, socket_connect_timeout=1
        )
        self._usage = usage
        self._begin, self._end = (self._client.register_script(_source(name)) for name in ("seed.lua", "seeded.lua"))
        self._running: dict[Owner, asyncio.Task[None]] = {}
        self._away_until: dict[Owner, float] = {}

    async def seed(self, owner: Owner) -> None:
        """One at a time for an owner. Raises ``BudgetsAway``, for half a second at once."""
        if time.monotonic() < self._away_until.get(owner, 0.0):
            raise BudgetsAway
        task = self._running.get(owner)
        if task is None:
            task = self._running[owner] = asyncio.create_task(self._run(owner))
            task.add_done_callback(partial(self._ended, owner))
        await asyncio.shield(task)

    def _ended(self, owner: Owner, task: asyncio.Task[None]) -> None:
        self._running.pop(owner, None)
        if not task.cancelled():
            task.exception()  # whoever waited may be gone

    def close(self) -> None:
        self._client.close()

    async def _run(self, owner: Owner) -> None:
        try:
            if not await asyncio.to_thread(self._seed, owner):
                await asyncio.sleep(LOOK_S)  # another gateway is at it
            self._away_until.pop(owner, None)
        except (redis.RedisError, AnyDatabaseError, PoolTimeout) as error:
            self._away_until[owner] = time.monotonic() + AWAY_S
            log.warning("budgets_away", extra={"scope": owner.scope, "error": str(error).strip()})
            raise BudgetsAway from error

    def _seed(self, owner: Owner) -> bool:
        budgets, name = names.budget(owner.scope), secrets.token_hex(8)
        server = str(self._client.info("server")["run_id"])
        keys = [budgets, names.OPEN_REQUESTS, names.USAGE_STREAM]
        mine, *before = self._begin(keys, [server, name, TAKEN_OVER_S, names.open_request("")])
        if not mine:
            return False
        second, last, opened = before
        sums = self._sums(owner, int(second), last, opened)
        return bool(self._end([budgets], [name, *(value for pair in sums.items() for value in pair)]))

    def _sums(self, owner: Owner, second: int, last: str, opened: Sequence[Sequence[str]]) -> dict[str, int]:
        """By field of the hash. A request that is open or not booked yet is left out of the database's sums."""
        sums: Counter[str] = Counter()
        known: set[str] = set()
        for record, reserved, reserved_cost, day, month in opened:
            one = open_decoder.decode(record)
            if _counts_for(owner, one):
                known.add(one.request_id)
                _add(
                    sums, int(day or day_of(one.at)), int(month or month_of(one.at)), int(reserved), int(reserved_cost)
                )
        events = {one.request_id: one for one in self._unbooked(last) if _counts_for(owner, one)}
        closed = [event for request_id, event in events.items() if request_id not in known]
        for event, cost in zip(closed, self._usage.costs(closed), strict=True):
            used = event.prompt_tokens + event.completion_tokens
            _add(sums, day_of(event.at), month_of(event.at), used, to_parts(cost))
        known |= events.keys()
        for period, start in (("day", day_of(second)), ("month", month_of(second))):
            spent = self._usage.spent(owner, datetime.fromtimestamp(start, UTC), sorted(known))
            sums[f"tokens:{period}:{start}"] += min(MOST, spent.tokens)
            sums[f"cost:{period}:{start}"] += min(MOST, to_parts(spent.cost))
        return dict(sums)

    def _unbooked(self, last: str) -> Iterator[UsageEvent]:
        """The usage stream up to its entry ``last``: what came after is counted by itself."""
        after = "-"
        while last and (page := self._client.xrange(names.USAGE_STREAM, after, last, count=PAGE)):
            for _, fields in page:
                try:
                    yield usage_decoder.decode(fields["record"])
                except (msgspec.DecodeError, KeyError):
                    continue  # the ledger names it and lets it go
            after = f"({page[-1][0]}"


def _counts_for(owner: Owner, opened: OpenRecord) -> bool:
    return owner in owners_of(opened.tenant_id, opened.deployment_id, opened.key_id)


def _add(sums: Counter[str], day: int, month: int, tokens: int, cost: int) -> None:
    for period in (f"day:{day}", f"month:{month}"):
        sums[f"tokens:{period}"] += tokens
        sums[f"cost:{period}"] += cost


def _source(name: str) -> str:
    return (resources.files("berth.gateway") / name).read_text()
