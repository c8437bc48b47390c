"""The only writer of usage records and of their hours: both in one transaction, so that the sums are the records'."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.db import DataError, IntegrityError, transaction
from django.utils import timezone

from berth.metering.enrich import enrich, price
from berth.metering.hours import add_to_hours, be_alone, drop_empty_corrections
from berth.metering.join import take_counts
from berth.metering.models import UsageRecord
from gpuruntime.protocol import EndedRequest

BATCH = 500

log = logging.getLogger(__name__)


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
    be_alone()
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
    be_alone()
    kept: UsageRecord | None = UsageRecord.objects.for_platform().filter(request_id=row.request_id).first()
    if kept is None or kept.counted_by != "gateway":
        return False
    at = timezone.now()
    add_to_hours([kept.request_id], -1, at)
    take_counts(kept, door)
    price([kept])
    kept.save()
    add_to_hours([kept.request_id], 1, at)
    drop_empty_corrections(at)
    return True
