"""Whether the records are what the doors counted, by deployment and hour: the difference is 0, or something is wrong.

    doors       added up from the doors' accounts, each once by its number, before any record was made (metering.doors)
    records     added up from UsageRecord, where a door's account was taken
    loose       accounts that are in no record, and why (LooseAccount)
    waiting     accounts that are counted and wait in Redis to be booked

    difference = doors - loose - waiting - records

Hours are UTC's, by the door's clock at the request's end: the one time that both sides have of the door. What only a
gateway counted has no such time; it is listed beside the sums, by the hour it arrived. All sums are of one statement,
so of one state of the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.db import connection

from berth.live import names
from berth.metering.hours import sealed_until
from berth.metering.join import name_of
from berth.metering.names import labels
from gpuruntime.protocol import EndedRequest

COUNTS = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens")
PAGE = 1000

# Sums of one side are grouped by replica, for a record and an account agree on it; a deployment is named by either.
_SIDES = """
    WITH waiting AS (
        SELECT w.* FROM unnest(
            %(replicas)s::text[], %(epochs)s::text[], %(numbers)s::bigint[], %(ids)s::text[], %(ended)s::timestamptz[],
            %(deployments)s::text[], %(prompt)s::bigint[], %(cached)s::bigint[], %(completion)s::bigint[]
        ) AS w (replica_id, epoch, number, request_id, ended_at, deployment_id, prompt_tokens, cached_tokens,
            completion_tokens)
        JOIN metering_doorepoch e ON e.replica_id = w.replica_id AND e.epoch = w.epoch AND w.number <= e.counted
        WHERE NOT EXISTS (
            SELECT 1 FROM metering_usagerecord r WHERE r.request_id = w.request_id AND r.replica_id = w.replica_id
                AND r.counted_as = w.epoch || ':' || w.number
        ) AND NOT EXISTS (
            SELECT 1 FROM metering_looseaccount l
            WHERE l.replica_id = w.replica_id AND l.epoch = w.epoch AND l.number = w.number
        )
    )
    SELECT 'doors', outcome, hour, replica_id, max(deployment_id), sum(requests), sum(prompt_tokens),
        sum(cached_tokens), sum(completion_tokens)
    FROM metering_doorcount WHERE hour >= %(start)s AND hour < %(end)s GROUP BY 2, 3, 4
    UNION ALL
    SELECT 'records', '', date_trunc('hour', counted_at, 'UTC'), replica_id, max(deployment_id), count(*),
        sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens)
    FROM metering_usagerecord WHERE counted_at >= %(start)s AND counted_at < %(end)s AND counted_as <> '' GROUP BY 3, 4
    UNION ALL
    SELECT 'loose', why, date_trunc('hour', ended_at, 'UTC'), replica_id, max(deployment_id), count(*),
        sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens)
    FROM metering_looseaccount WHERE ended_at >= %(start)s AND ended_at < %(end)s GROUP BY 2, 3, 4
    UNION ALL
    SELECT 'waiting', '', date_trunc('hour', ended_at, 'UTC'), replica_id, max(deployment_id), count(*),
        sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens)
    FROM waiting WHERE ended_at >= %(start)s AND ended_at < %(end)s GROUP BY 3, 4
    UNION ALL
    SELECT 'gateway', CASE WHEN counted_by = 'door' THEN 'unnumbered' WHEN replica_id = '' THEN 'no_door'
            ELSE 'no_account' END || ':' || outcome,
        date_trunc('hour', arrived_at, 'UTC'), '', deployment_id, count(*),
        sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens)
    FROM metering_usagerecord WHERE arrived_at >= %(start)s AND arrived_at < %(end)s AND counted_as = ''
    GROUP BY 2, 3, 5
"""
_WAITING = {
    "replicas": "replica_id", "epochs": "epoch", "numbers": "number", "ids": "request_id", "deployments": "deployment",
    "prompt": "prompt_tokens", "cached": "cached_tokens", "completion": "completion_tokens",
}  # fmt: skip
_decoder = msgspec.json.Decoder(EndedRequest)


def _zero() -> dict[str, int]:
    return dict.fromkeys(COUNTS, 0)


@dataclass(slots=True)
class Line:
    """One deployment in one hour. ``outcomes``: the doors' requests; ``alone``: what only the gateway counted."""

    hour: datetime
    deployment_id: str
    settled: bool = False
    doors: dict[str, int] = field(default_factory=_zero)
    records: dict[str, int] = field(default_factory=_zero)
    loose: dict[str, int] = field(default_factory=_zero)
    waiting: dict[str, int] = field(default_factory=_zero)
    outcomes: dict[str, int] = field(default_factory=dict)
    why_loose: dict[str, int] = field(default_factory=dict)
    alone: list[dict[str, Any]] = field(default_factory=list)

    @property
    def difference(self) -> dict[str, int]:
        return {n: self.doors[n] - self.loose[n] - self.waiting[n] - self.records[n] for n in COUNTS}

    @property
    def equal(self) -> bool:
        return not any(self.difference.values())

    def take(self, side: str, what: str, counts: dict[str, int]) -> None:
        if side == "gateway":
            why, _, outcome = what.partition(":")
            self.alone.append({"why": why, "outcome": outcome, **counts})
            return
        sums: dict[str, int] = getattr(self, side)
        for name in COUNTS:
            sums[name] += counts[name]
        if side in ("doors", "loose"):
            by = self.outcomes if side == "doors" else self.why_loose
            by[what] = by.get(what, 0) + counts["requests"]


def reconcile(client: Any, start: datetime, end: datetime, deployment_id: str = "") -> dict[str, Any]:
    """As ``ReconciliationSerializer`` shows it, oldest hour first. ``client``: a Redis client that decodes.

    An hour is settled once it is sealed and none of its accounts waits: from then on a difference is a fault. Redis is
    asked first, so that what it knows cannot be newer than the database.
    """
    waiting, open_requests = _in_redis(client)
    sealed = sealed_until()
    lines = [one for one in _lines(waiting, start, end) if not deployment_id or one.deployment_id == deployment_id]
    for line in lines:
        line.settled = line.hour < sealed and not line.waiting["requests"]
    named = labels(deployments={line.deployment_id for line in lines} - {""})
    return {
        "rows": [_shown(line, named.get(("deployment", line.deployment_id), "")) for line in lines],
        "total": {
            side: {name: sum(getattr(line, side)[name] for line in lines) for name in COUNTS}
            for side in ("doors", "records", "loose", "waiting", "difference")
        },
        "equal": all(line.equal for line in lines if line.settled),
        "open_requests": open_requests,
        "sealed_until": sealed,
        "from": start,
        "to": end,
    }


def _lines(waiting: Sequence[EndedRequest], start: datetime, end: datetime) -> list[Line]:
    found: dict[tuple[datetime, str], Line] = {}
    rows = _sides(waiting, start, end)
    deployments = {replica_id: deployment for _, _, _, replica_id, deployment, _ in rows if replica_id and deployment}
    for side, what, hour, replica_id, deployment, counts in rows:
        key = hour.astimezone(UTC), deployments.get(replica_id, deployment)
        found.setdefault(key, Line(*key)).take(side, what, counts)
    return [found[key] for key in sorted(found)]


def _sides(
    waiting: Sequence[EndedRequest], start: datetime, end: datetime
) -> list[tuple[str, str, datetime, str, str, dict[str, int]]]:
    asked: dict[str, Any] = {name: [getattr(one, column) for one in waiting] for name, column in _WAITING.items()}
    asked["ended"] = [datetime.fromtimestamp(one.ended_at or 0, UTC) for one in waiting]
    with connection.cursor() as cursor:
        cursor.execute(_SIDES, {**asked, "start": start, "end": end})
        return [
            (side, what, hour, replica_id, deployment, dict(zip(COUNTS, map(int, counts), strict=True)))
            for side, what, hour, replica_id, deployment, *counts in cursor.fetchall()
        ]


def _in_redis(client: Any) -> tuple[list[EndedRequest], int]:
    """Accounts that are not booked, a repetition left out, and how many requests are open."""
    found: dict[tuple[str, str], EndedRequest] = {}
    after = "-"
    while page := client.xrange(names.ENDED_STREAM, min=after, count=PAGE):
        for account in _accounts(fields for _, fields in page):
            found[account.replica_id, name_of(account)] = account
        after = f"({page[-1][0]}"
    return [one for one in found.values() if name_of(one)], int(client.scard(names.OPEN_REQUESTS))


def _accounts(entries: Iterable[dict[str, str]]) -> Iterable[EndedRequest]:
    for fields in entries:
        try:
            yield _decoder.decode(fields["request"])
        except (msgspec.DecodeError, KeyError):
            continue  # the ledger names it in its log and lets it go


def _shown(line: Line, name: str) -> dict[str, Any]:
    return {
        "hour": line.hour,
        "deployment": line.deployment_id,
        "deployment_name": name,
        "settled": line.settled,
        "equal": line.equal,
        "doors": line.doors,
        "records": line.records,
        "loose": line.loose,
        "waiting": line.waiting,
        "difference": line.difference,
        "outcomes": line.outcomes,
        "why_loose": line.why_loose,
        "gateway_only": line.alone,
    }
