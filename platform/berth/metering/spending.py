"""What a key, a tenant or a contract has used since a day or a month began: tokens in and out, and their cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from django.db import connection

from berth.metering.enrich import price
from berth.metering.join import record_of
from berth.metering.owners import Owner, Spent
from berth.metering.records import UsageEvent

_COLUMNS = "hour, tenant_id, deployment_id, key_id, prompt_tokens, completion_tokens, cost"
# One statement, so one view of the database: a record that is booked meanwhile is in both sums or in none.
_SPENT = """
    SELECT hours.tokens - records.tokens, hours.cost - records.cost FROM (
        SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) AS tokens, coalesce(sum(cost), 0) AS cost
        FROM (
            SELECT {columns} FROM metering_usagehour UNION ALL SELECT {columns} FROM metering_usagecorrection
        ) AS kept WHERE hour >= %(since)s AND {owner}
    ) AS hours, (
        SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) AS tokens, coalesce(sum(cost), 0) AS cost
        FROM metering_usagerecord WHERE request_id = ANY(%(leaving_out)s) AND arrived_at >= %(since)s AND {owner}
    ) AS records
"""


def spent(owner: Owner, since: datetime, leaving_out: Sequence[str] = ()) -> Spent:
    """``since``: a whole hour. ``leaving_out``: ids of requests that are counted elsewhere, booked or not."""
    names = {name: value for name, value in owner._asdict().items() if value}
    where = " AND ".join(f"{name} = %({name})s" for name in names)
    with connection.cursor() as cursor:
        asked = _SPENT.format(owner=where, columns=_COLUMNS)
        cursor.execute(asked, {**names, "since": since, "leaving_out": list(leaving_out)})
        tokens, cost = cursor.fetchone()
    return Spent(int(tokens), cost)


def costs_of(events: Sequence[UsageEvent]) -> list[Decimal]:
    """What the ledger will book each of them for, as far as their gateway counted."""
    rows = [record_of(event, None) for event in events]
    price(rows)
    return [row.cost for row in rows]
