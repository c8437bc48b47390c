"""What is old goes and what is young stays, by the options."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from berth.audit.models import AuditEvent
from berth.core.ids import new_id
from berth.management import retention
from berth.metering.models import GoodputMinute, GoodputSpan, UsageHour, UsageRecord
from berth.options.services import set_option

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_days_are_the_options() -> None:
    set_option(key="usage_retention_days", value=10, actor="t")
    set_option(key="windows_retention_days", value=5, actor="t")
    for days in (0, 4, 6, 9, 11, 400):
        at = NOW - timedelta(days=days)
        values = {"tenant_id": "ten_a", "arrived_at": at, "outcome": "completed", "counted_by": "door"}
        UsageRecord.objects.create(request_id=new_id("req"), **values)
        GoodputMinute.objects.create(minute=at, tenant_id="ten_a", window={})
    gone = retention.sweep(NOW)
    assert (gone["usage"], gone["windows"]) == (2, 4)
    kept = UsageRecord.objects.for_platform().values_list("arrived_at", flat=True)
    assert sorted((NOW - at).days for at in kept) == [0, 4, 6, 9]
    assert not any(retention.sweep(NOW)[name] for name in ("usage", "windows"))


def test_sums_stay_longer_and_never_go_before_what_they_are_made_of() -> None:
    for days in (0, 30, 50, 1099, 1101):
        at = NOW - timedelta(days=days)
        UsageHour.objects.create(hour=at, tenant_id="ten_a")
        for seconds in (3600, 86_400):
            GoodputSpan.objects.create(seconds=seconds, at=at, tenant_id="ten_a", window={})
    names = ("usage_hours", "goodput_hours", "goodput_days")
    gone = retention.sweep(NOW)
    assert [gone[name] for name in names] == [1, 1, 1]
    for key, days in (("sums", 10), ("usage", 20), ("windows", 40)):
        set_option(key=f"{key}_retention_days", value=days, actor="t")
    gone = retention.sweep(NOW)
    assert [gone[name] for name in names] == [2, 2, 2]
    for model in (UsageHour, GoodputSpan):
        field = "hour" if model is UsageHour else "at"
        kept = model.objects.for_platform().values_list(field, flat=True)
        assert {(NOW - at).days for at in kept} == {0, 30}


def test_audit_goes_by_the_time_in_its_id_and_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    set_option(key="audit_retention_days", value=30, actor="t")
    AuditEvent.objects.for_platform().delete()
    for days in (0, 29, 31, 32, 33):
        at = (NOW - timedelta(days=days)).timestamp()
        with monkeypatch.context() as patched:
            patched.setattr("berth.core.ids.time.time_ns", lambda at=at: int(at * 1e9))
            patched.setattr("berth.core.ids._last", 0)
            AuditEvent.objects.create(actor="t", action=f"day {days}", object_type="", object_id="")
    (audit,) = retention.BY_OPTION["audit_retention_days"]
    until = time.monotonic() + 60
    assert retention.delete_before(audit, NOW - timedelta(days=30), until, batch=2) == 3
    assert set(AuditEvent.objects.for_platform().values_list("action", flat=True)) == {"day 0", "day 29"}
