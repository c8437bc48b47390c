"""Hours and days of goodput, added up from the minutes; each may be added up again at any time: idempotent.

An hour is added up once a minute after it was written, and again when one of its minutes is rewritten by a new leader.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from berth.metering.models import GoodputMinute, GoodputSpan
from berth.metering.spans import DAY, HOUR, floor
from gpuruntime.goodput import Window

# A history that was never added up is worked off a bit with each minute, so that none is late.
AT_ONCE = 24


def watermarks() -> dict[int, datetime]:
    """By length: the end of the last span that is added up."""
    found = {}
    for seconds in (HOUR, DAY):
        rows = GoodputSpan.objects.for_platform().filter(seconds=seconds).order_by("-at")
        last = rows.values_list("at", flat=True).first()
        if last is not None:
            found[seconds] = last + timedelta(seconds=seconds)
    return found


def roll_up(minute: datetime) -> None:
    """After ``minute`` was written: brings the hours and days before it up to date."""
    marks = watermarks()
    if HOUR in marks and minute < marks[HOUR]:
        _add_up(HOUR, floor(minute, HOUR))
        if DAY in marks and minute < marks[DAY]:
            _add_up(DAY, floor(minute, DAY))
        return
    for _ in range(AT_ONCE):
        hour = _next(GoodputMinute.objects.for_platform(), "minute", marks.get(HOUR), HOUR)
        if hour is None or hour + timedelta(seconds=HOUR) > minute:
            break
        _add_up(HOUR, hour)
        marks[HOUR] = hour + timedelta(seconds=HOUR)
    while HOUR in marks:
        hours = GoodputSpan.objects.for_platform().filter(seconds=HOUR)
        day = _next(hours, "at", marks.get(DAY), DAY)
        if day is None or day + timedelta(seconds=DAY) > floor(marks[HOUR], DAY):
            break
        _add_up(DAY, day)
        marks[DAY] = day + timedelta(seconds=DAY)


def _next(rows: Any, field: str, mark: datetime | None, seconds: int) -> datetime | None:
    """The first span at or after ``mark`` that has rows."""
    if mark is not None:
        rows = rows.filter(**{f"{field}__gte": mark})
    first: datetime | None = rows.order_by(field).values_list(field, flat=True).first()
    return None if first is None else floor(first, seconds)


@transaction.atomic
def _add_up(seconds: int, at: datetime) -> None:
    """Replaces the span's rows by the sums of what it is made of."""
    end = at + timedelta(seconds=seconds)
    parts: Any
    if seconds == HOUR:
        parts = GoodputMinute.objects.for_platform().filter(minute__gte=at, minute__lt=end)
    else:
        parts = GoodputSpan.objects.for_platform().filter(seconds=HOUR, at__gte=at, at__lt=end)
    cells: defaultdict[tuple[str, str, str], Window] = defaultdict(Window)
    for tenant, deployment, name, window in parts.values_list("tenant_id", "deployment_id", "class_name", "window"):
        cells[tenant, deployment, name].merge(Window.from_json(window))
    GoodputSpan.objects.for_platform().filter(seconds=seconds, at=at).delete()
    GoodputSpan.objects.bulk_create(
        [
            GoodputSpan(
                seconds=seconds,
                at=at,
                tenant_id=tenant,
                deployment_id=deployment,
                class_name=name,
                window=window.to_json(),
                offered=window.offered,
                good=window.good,
            )
            for (tenant, deployment, name), window in sorted(cells.items())
        ],
        batch_size=500,
    )
