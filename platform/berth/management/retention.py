"""What is deleted because it is old: by the options of the group ``retention``, oldest first, a batch at a time.

A batch is a transaction of its own, so that nothing waits long for a lock and a run that is cut short has done its
part. Decisions and devices' history have their own (``berth.decisions.tasks``, ``berth.fleet.tasks``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import redis
from axes.models import AccessAttempt, AccessFailureLog
from django.conf import settings
from django.db import models
from django.utils import timezone

from berth.audit.models import AuditEvent
from berth.config import CONFIG
from berth.core.ids import earliest_id
from berth.embedded.paths import Home
from berth.live import names
from berth.metering.models import (
    DoorCount,
    DoorEpoch,
    GoodputMinute,
    GoodputSpan,
    LooseAccount,
    UsageCorrection,
    UsageHour,
    UsageRecord,
)
from berth.metering.spans import DAY, HOUR
from berth.options.selectors import get as option
from berth.tenants.models import UserSession

BATCH = 5000
BUDGET_S = 300.0
TRIED_SIGN_INS_KEPT = timedelta(days=7)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """Rows of one model. ``index``: the indexed column that tells a row's age; ``bound``: its value at a time."""

    name: str
    rows: Callable[[], models.QuerySet[Any]]
    index: str
    bound: Callable[[datetime], Any]


def _time(at: datetime) -> datetime:
    return at


def _audit_id(at: datetime) -> str:
    return earliest_id("evt", at.timestamp())


def _spans(seconds: int) -> models.QuerySet[Any]:
    return GoodputSpan.objects.for_platform().filter(seconds=seconds)


BY_OPTION: dict[str, tuple[Kept, ...]] = {
    "usage_retention_days": (
        Kept("usage", UsageRecord.objects.for_platform, "arrived_at", _time),
        Kept("door_counts", DoorCount.objects.all, "hour", _time),
        Kept("door_epochs", DoorEpoch.objects.all, "counted_at", _time),
        Kept("loose_accounts", LooseAccount.objects.all, "ended_at", _time),
    ),
    "windows_retention_days": (Kept("windows", GoodputMinute.objects.for_platform, "minute", _time),),
    # Small, and they outlive what they were added up from: what was billed years ago can still be shown.
    "sums_retention_days": (
        Kept("usage_hours", UsageHour.objects.for_platform, "hour", _time),
        Kept("usage_corrections", UsageCorrection.objects.for_platform, "hour", _time),
        Kept("goodput_hours", partial(_spans, HOUR), "at", _time),
        Kept("goodput_days", partial(_spans, DAY), "at", _time),
    ),
    "audit_retention_days": (Kept("audit", AuditEvent.objects.for_platform, "id", _audit_id),),
}
# Readers take a sum for all that it was made of, so that none may go before its parts.
_NOT_BEFORE = {"sums_retention_days": ("usage_retention_days", "windows_retention_days")}


def sweep(now: datetime | None = None) -> dict[str, int]:
    """Deletes what is too old at ``now``; how many of each. After ``BUDGET_S`` it stops, and the next run goes on."""
    now = now or timezone.now()
    until = time.monotonic() + BUDGET_S
    gone: dict[str, int] = {}
    for key, kinds in BY_OPTION.items():
        limit = now - timedelta(days=max(option(name) for name in (key, *_NOT_BEFORE.get(key, ()))))
        for kept in kinds:
            gone[kept.name] = delete_before(kept, limit, until)
    gone["sessions"] = UserSession.objects.filter(expire_date__lt=now).delete()[0]
    for tried in (AccessAttempt, AccessFailureLog):
        gone["sign_ins"] = tried.objects.filter(attempt_time__lt=now - TRIED_SIGN_INS_KEPT).delete()[0]
    logs_kept = timedelta(days=option("logs_retention_days"))
    gone["log_files"] = _old_log_files(now - logs_kept)
    gone["log_lines"] = _silent_logs(logs_kept)
    if any(gone.values()):
        log.info("swept", extra={name: count for name, count in gone.items() if count})
    return gone


def delete_before(kept: Kept, limit: datetime, until: float, batch: int = BATCH) -> int:
    """``until``: monotonic seconds after which no other batch begins."""
    total = 0
    while True:
        old = kept.rows().filter(**{f"{kept.index}__lt": kept.bound(limit)}).order_by(kept.index)
        ids = list(old.values_list("pk", flat=True)[:batch])
        if ids:
            total += kept.rows().filter(pk__in=ids).delete()[0]
        if len(ids) < batch or time.monotonic() > until:
            return total


def _old_log_files(limit: datetime) -> int:
    """Rotated ones below BERTH_HOME/logs: a file that is written to is younger."""
    return sum(_remove(path, limit) for path in Home(CONFIG.home).logs.glob("*.log.*"))


def _remove(path: Path, limit: datetime) -> bool:
    try:
        if path.stat().st_mtime >= limit.timestamp():
            return False
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def _silent_logs(kept: timedelta) -> int:
    """Replicas' last lines in Redis: each line renews its list's term, so that what is left of it tells its age."""
    gone = 0
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=5) as client:
            for key in client.scan_iter(match=names.log("*"), count=500):
                left = client.ttl(key)
                if left >= 0 and names.LOG_TTL_S - left > kept.total_seconds():
                    gone += int(client.delete(key))
    except redis.RedisError as error:
        log.warning("logs_not_swept", extra={"error": str(error)})
    return gone
