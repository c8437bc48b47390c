"""Minute rows: written whole, so that writing them twice changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from django.db import transaction

from berth.metering.cells import CellKey
from berth.metering.models import GoodputMinute
from berth.metering.rollups import roll_up
from gpuruntime.goodput import Window

_CELL = ["minute", "tenant_id", "deployment_id", "class_name", "replica_id"]


@transaction.atomic
def write_minute(minute: int, cells: Mapping[CellKey, Window]) -> None:
    """``minute``: Unix time of its first second. Hours and days that are over are then added up."""
    at = datetime.fromtimestamp(minute, UTC)
    rows = [
        GoodputMinute(
            minute=at,
            tenant_id=cell.tenant_id,
            deployment_id=cell.deployment_id,
            class_name=cell.class_name,
            replica_id=cell.replica_id,
            window=window.to_json(),
            offered=window.offered,
            good=window.good,
        )
        for cell, window in sorted(cells.items())
    ]
    GoodputMinute.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=_CELL, update_fields=["window", "offered", "good"], batch_size=500
    )
    written = GoodputMinute.objects.for_platform().filter(minute=at)
    gone = [
        row.pk
        for row in written.defer("window")
        if CellKey(row.tenant_id, row.deployment_id, row.class_name, row.replica_id) not in cells
    ]
    GoodputMinute.objects.for_platform().filter(pk__in=gone).delete()
    roll_up(at)


def last_minute() -> int | None:
    """Unix time of the newest minute that was written."""
    newest = GoodputMinute.objects.for_platform().order_by("-minute").values_list("minute", flat=True).first()
    return None if newest is None else int(newest.timestamp())
