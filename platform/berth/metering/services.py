"""The only writer of usage records and of their hours: both in one transaction, so that the sums are the records'."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from django.db import DataError, IntegrityError, connection, transaction

from berth.metering.enrich import enrich, price
from berth.metering.join import take_counts
from berth.metering.models import UsageRecord
from gpuruntime.protocol import EndedRequest

BATCH = 500
# Of the one writer at a time: it reads which records are there before it adds to the sums.
_LOCK = 0x7573616765

log = logging.getLogger(__name__)

# The sums come from the rows as the database stored them. date_trunc's third argument keeps hours in UTC whatever the
# session's time zone.
_ROLL = """
    INSERT INTO metering_usagehour AS kept (
        hour, tenant_id, deployment_id, class_name, key_id, member_id, deployment_name, requests, offered, good,
        prompt_tokens, cached_tokens, completion_tokens, good_tokens, cost
    )
    SELECT date_trunc('hour', arrived_at, 'UTC'), tenant_id, deployment_id, class_name, key_id, max(member_id),
        max(deployment_name), %(sign)s * count(*), %(sign)s * count(*) FILTER (WHERE offered),
        %(sign)s * count(*) FILTER (WHERE good), %(sign)s * sum(prompt_tokens), %(sign)s * sum(cached_tokens),
        %(sign)s * sum(completion_tokens), %(sign)s * coalesce(sum(completion_tokens) FILTER (WHERE good), 0),
        %(sign)s * sum(cost)
    FROM metering_usagerecord WHERE request_id = ANY(%(ids)s) GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (hour, tenant_id, deployment_id, class_name, key_id) DO UPDATE SET
        requests = kept.requests + excluded.requests, offered = kept.offered + excluded.offered,
        good = kept.good + excluded.good, prompt_tokens = kept.prompt_tokens + excluded.prompt_tokens,
        cached_tokens = kept.cached_tokens + excluded.cached_tokens,
        completion_tokens = kept.completion_tokens + excluded.completion_tokens,
        good_tokens = kept.good_tokens + excluded.good_tokens, cost = kept.cost + excluded.cost
"""


def book(*, rows: Sequence[UsageRecord]) -> int:
    """Adds the records that are not there yet, with who, where and what it cost. Returns how many were new.

    One that the database cannot hold must not keep the others out: it is named in the log and left out.
    """
    enrich(rows)
    try:
        return _book(rows)
    except (DataError, IntegrityError):
        booked = 0
        for row in rows:
            try:
                booked += _book([row])
            except (DataError, IntegrityError) as error:
                log.error("record_refused", extra={"request_id": row.request_id, "error": str(error).strip()})
        return booked


@transaction.atomic
def _book(rows: Sequence[UsageRecord]) -> int:
    _be_alone()
    new = {row.request_id: row for row in reversed(rows)}
    for known in (
        UsageRecord.objects.for_platform().filter(request_id__in=list(new)).values_list("request_id", flat=True)
    ):
        del new[known]
    UsageRecord.objects.bulk_create(new.values(), batch_size=BATCH)
    add_to_hours(new, 1)
    return len(new)


@transaction.atomic
def correct(*, row: UsageRecord, door: EndedRequest) -> bool:
    """The door's counts for a record that was booked without them. False when it has them by now."""
    _be_alone()
    kept: UsageRecord | None = UsageRecord.objects.for_platform().filter(request_id=row.request_id).first()
    if kept is None or kept.counted_by != "gateway":
        return False
    add_to_hours([kept.request_id], -1)
    take_counts(kept, door)
    price([kept])
    kept.save()
    add_to_hours([kept.request_id], 1)
    return True


def _be_alone() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def add_to_hours(request_ids: Iterable[str], sign: int) -> None:
    """Adds records, as they are in the database, to their hours; with ``sign`` -1 takes them out."""
    ids = list(request_ids)
    if ids:
        with connection.cursor() as cursor:
            cursor.execute(_ROLL, {"ids": ids, "sign": sign})
