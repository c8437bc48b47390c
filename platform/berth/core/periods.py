"""Calendar days and months of UTC, by the Unix second they begin at. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

DAY_S = 86_400


def day_of(at: float) -> int:
    return int(at) // DAY_S * DAY_S


def month_of(at: float, later: int = 0) -> int:
    """The month of ``at``, or that many months after it."""
    return _month(day_of(at), later)


@lru_cache(maxsize=64)  # every request asks, and a day has but one answer
def _month(day: int, later: int) -> int:
    when = datetime.fromtimestamp(day, UTC)
    months = when.year * 12 + when.month - 1 + later
    return int(datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC).timestamp())
