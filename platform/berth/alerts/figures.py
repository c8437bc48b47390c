"""The counts that the rules judge, added up by the database from the minutes of the aggregator."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.db import connection

WINDOWS = {
    "5m": timedelta(minutes=5),
    "30m": timedelta(minutes=30),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
}
BUDGET_EVERY_S = 600
_BUDGET_KEY = "berth:alerts:budget"

log = logging.getLogger(__name__)
Cell = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Counts:
    offered: int = 0
    good: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def attainment(self) -> float:
        return self.good / self.offered if self.offered else 1.0

    @property
    def missed(self) -> float:
        """The share of requests that was not good."""
        return 1 - self.attainment


@dataclass(frozen=True, slots=True)
class Use:
    """What counts against a contract's limits: requests, tokens of prompts and answers, and what was refused."""

    requests: int = 0
    tokens: int = 0
    refused: int = 0


def recent_counts(now: datetime) -> dict[str, dict[Cell, Counts]]:
    """By window, by (tenant, deployment); one pass over six hours of minutes."""
    columns = ", ".join(f"SUM({what}) FILTER (WHERE minute > %s)" for _ in WINDOWS for what in ("offered", "good"))
    starts = [now - length for length in WINDOWS.values() for _ in range(2)]
    query = (
        f"SELECT tenant_id, deployment_id, {columns} FROM metering_goodputminute "  # noqa: S608 - names of our own
        "WHERE minute > %s AND replica_id = '' AND deployment_id <> '' GROUP BY 1, 2"
    )
    found: dict[str, dict[Cell, Counts]] = {name: {} for name in WINDOWS}
    for tenant, deployment, *sums in _rows(query, [*starts, now - max(WINDOWS.values())]):
        for number, name in enumerate(WINDOWS):
            offered, good = sums[2 * number], sums[2 * number + 1]
            if offered:
                found[name][tenant, deployment] = Counts(int(offered), int(good or 0))
    for cell, reasons in _reasons(now - WINDOWS["1h"]).items():
        for name in ("1h", "6h"):
            if (counts := found[name].get(cell)) is not None:
                found[name][cell] = Counts(counts.offered, counts.good, reasons)
    return found


def _reasons(since: datetime) -> dict[Cell, dict[str, int]]:
    query = (
        "SELECT tenant_id, deployment_id, reason.key, SUM(reason.value::bigint) FROM metering_goodputminute, "
        "jsonb_each_text(\"window\"->'reasons') AS reason "
        "WHERE minute > %s AND replica_id = '' GROUP BY 1, 2, 3"
    )
    found: dict[Cell, dict[str, int]] = {}
    for tenant, deployment, reason, count in _rows(query, [since]):
        found.setdefault((tenant, deployment), {})[reason] = int(count)
    return found


def use_since(since: datetime) -> dict[Cell, Use]:
    sums = ", ".join(
        f"SUM(COALESCE((\"window\"->>'{what}')::bigint, 0))"
        for what in ("offered", "tokens", "prompt_tokens", "over_quota")
    )
    query = (
        f"SELECT tenant_id, deployment_id, {sums} FROM metering_goodputminute "  # noqa: S608 - names of our own
        "WHERE minute > %s AND replica_id = '' AND deployment_id <> '' GROUP BY 1, 2"
    )
    return {
        (tenant, deployment): Use(int(offered), int(tokens) + int(prompt), int(refused))
        for tenant, deployment, offered, tokens, prompt, refused in _rows(query, [since])
    }


def budget_counts(now: datetime, days: int) -> dict[Cell, Counts]:
    """Of the whole budget's time: many rows, so they are added up once in ten minutes and kept in Redis."""
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1)
    with client:
        try:
            if (kept := client.get(_BUDGET_KEY)) is not None:
                saved: dict[str, Any] = json.loads(kept)
                if saved["days"] == days:
                    return {(t, d): Counts(offered, good) for t, d, offered, good in saved["rows"]}
        except (redis.RedisError, ValueError, KeyError, TypeError) as error:
            log.info("budget_not_kept", extra={"error": str(error)})
        rows = _budget_rows(now - timedelta(days=days))
        try:
            client.set(_BUDGET_KEY, json.dumps({"days": days, "rows": rows}), ex=BUDGET_EVERY_S)
        except redis.RedisError as error:
            log.info("budget_not_kept", extra={"error": str(error)})
    return {(tenant, deployment): Counts(offered, good) for tenant, deployment, offered, good in rows}


def _budget_rows(since: datetime) -> list[list[Any]]:
    query = (
        "SELECT tenant_id, deployment_id, SUM(offered), SUM(good) FROM metering_goodputminute "
        "WHERE minute > %s AND replica_id = '' AND deployment_id <> '' GROUP BY 1, 2"
    )
    return [[t, d, int(offered), int(good)] for t, d, offered, good in _rows(query, [since])]


def _rows(query: str, arguments: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return list(cursor.fetchall())
