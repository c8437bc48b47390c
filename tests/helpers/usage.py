"""Usage records for tests, booked by the real service, so that the sums of their hours are there too."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from berth.core.ids import new_id
from berth.metering.models import UsageRecord
from berth.metering.services import book


def make_record(tenant: str, at: datetime, **values: Any) -> UsageRecord:
    """Not booked. A completed, good request unless the values say otherwise."""
    given = {
        "request_id": new_id("req"), "outcome": "completed", "counted_by": "door", "offered": True, "good": True,
        "deployment_name": "llama", "prompt_tokens": 10, "completion_tokens": 5,
    }  # fmt: skip
    return UsageRecord(tenant_id=tenant, arrived_at=at, **given | values)


def book_record(tenant: str, at: datetime, **values: Any) -> UsageRecord:
    row = make_record(tenant, at, **values)
    book(rows=[row])
    return row
