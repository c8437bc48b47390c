"""The hours' sums: open ones are added to in place, sealed ones stay as they are and get corrections.

    now - grace        the watermark: every hour before it is sealed, whether it has rows or not
    -----sealed-----|-----open-----
    UsageCorrection | UsageHour         where a record that is booked now goes

All of it happens under one lock of the database, so that no record falls between the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from berth.metering.models import UsageCorrection, UsageSeal
from berth.metering.spans import EPOCH, HOUR, floor
from berth.options.selectors import get as option

# Of the one writer at a time: it reads which records are there before it adds to the sums.
_LOCK = 0x7573616765

_CELL = ("hour", "tenant_id", "deployment_id", "class_name", "key_id")
_COUNTS = ("requests", "offered", "good", "prompt_tokens", "cached_tokens", "completion_tokens", "good_tokens", "cost")
_WORDS = {
    "cell": ", ".join(_CELL),
    "columns": ", ".join((*_CELL, "member_id", "deployment_name", *_COUNTS)),
    "added": ", ".join(f"{name}=kept.{name}+excluded.{name}" for name in _COUNTS),
}
# The sums come from the rows as the database stored them. date_trunc's third argument keeps hours in UTC whatever the
# session's time zone.
_ROLL = """
    WITH sums AS MATERIALIZED (
        SELECT date_trunc('hour', arrived_at, 'UTC') AS hour, tenant_id, deployment_id, class_name, key_id,
            max(member_id) AS member_id, max(deployment_name) AS deployment_name,
            %(sign)s * count(*) AS requests, %(sign)s * count(*) FILTER (WHERE offered) AS offered,
            %(sign)s * count(*) FILTER (WHERE good) AS good, %(sign)s * sum(prompt_tokens) AS prompt_tokens,
            %(sign)s * sum(cached_tokens) AS cached_tokens, %(sign)s * sum(completion_tokens) AS completion_tokens,
            %(sign)s * coalesce(sum(completion_tokens) FILTER (WHERE good), 0) AS good_tokens,
            %(sign)s * sum(cost) AS cost
        FROM metering_usagerecord WHERE request_id = ANY(%(ids)s) GROUP BY 1, 2, 3, 4, 5
    ), opened AS (
        INSERT INTO metering_usagehour AS kept ({columns})
        SELECT {columns} FROM sums WHERE hour >= %(sealed)s
        ON CONFLICT ({cell}) DO UPDATE SET {added}
    )
    INSERT INTO metering_usagecorrection AS kept ({columns}, written_at)
    SELECT {columns}, %(at)s FROM sums WHERE hour < %(sealed)s
    ON CONFLICT ({cell}, written_at) DO UPDATE SET {added}
"""


def be_alone() -> None:
    """Until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def sealed_until() -> datetime:
    """Hours before it are sealed; the epoch while none is."""
    return UsageSeal.objects.order_by("-until").values_list("until", flat=True).first() or EPOCH


@transaction.atomic
def seal_hours(now: datetime | None = None) -> datetime | None:
    """Seals every hour that ended longer ago than the grace period. The new watermark, None where it stays.

    However long nobody called, one call does it all; two at once do it once.
    """
    now = now or timezone.now()
    until = floor(now - timedelta(minutes=option("usage_seal_after_minutes")), HOUR)
    if until <= sealed_until():
        return None
    be_alone()
    if until <= sealed_until():
        return None
    UsageSeal.objects.create(until=until, sealed_at=now)
    return until


def add_to_hours(request_ids: Iterable[str], sign: int, at: datetime | None = None) -> None:
    """Adds records, as they are in the database, to their hours; with ``sign`` -1 takes them out. Be alone first.

    ``at``: when a correction is written; those of one moment and cell are one.
    """
    if ids := list(request_ids):
        at = at or timezone.now()
        with connection.cursor() as cursor:
            cursor.execute(_ROLL.format(**_WORDS), {"ids": ids, "sign": sign, "sealed": sealed_until(), "at": at})


def drop_empty_corrections(at: datetime) -> None:
    """Those written at this moment that in the end change nothing."""
    nothing = dict.fromkeys(_COUNTS, 0)
    UsageCorrection.objects.for_platform().filter(written_at=at, **nothing).delete()
