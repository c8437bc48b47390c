"""What migrations do to the rows that are there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from berth.metering.models import GoodputMinute

FILL = import_module("berth.metering.migrations.0003_fill_minutes")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.django_db
def test_minutes_without_counts_take_them_from_their_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FILL, "BATCH", 2)
    windows = [{"offered": 7, "good": 5}, {"offered": 3}, {}, {"busy_s": 1.5}, {"offered": 4, "good": 4}]
    for number, window in enumerate(windows):
        GoodputMinute.objects.create(minute=NOON + timedelta(minutes=number), tenant_id="ten_a", window=window)
    kept = {"minute": NOON - timedelta(minutes=1), "tenant_id": "ten_a", "offered": 9, "good": 8}
    GoodputMinute.objects.create(window={"offered": 9, "good": 8}, **kept)
    for _ in range(2):  # twice is once
        with connection.schema_editor() as editor:
            FILL.fill(apps, editor)
        rows = GoodputMinute.objects.for_platform().order_by("minute").values_list("offered", "good")
        assert list(rows) == [(9, 8), (7, 5), (3, 0), (0, 0), (0, 0), (4, 4)]
