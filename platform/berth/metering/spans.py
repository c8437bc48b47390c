"""Which stored windows add up to a span of time: days, hours and minutes that touch and never overlap. Pure.

    from        hour                day                 day        W      to
     |--minutes--|------hours--------|-------days--------|--hours---|--minutes--|

``W``, a watermark: before it every hour (or day) that had minutes is added up already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MINUTE, HOUR, DAY = 60, 3600, 86_400
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of ``seconds`` length that begin in [start, end)."""

    seconds: int
    start: datetime
    end: datetime


def floor(moment: datetime, seconds: int) -> datetime:
    return moment - (moment - EPOCH) % timedelta(seconds=seconds)


def ceil(moment: datetime, seconds: int) -> datetime:
    low = floor(moment, seconds)
    return low if low == moment else low + timedelta(seconds=seconds)


def cover(start: datetime, end: datetime, watermarks: Mapping[int, datetime], *, coarsest: int = DAY) -> list[Piece]:
    """[start, end), which lie on minutes, from the coarsest rows that are there, in order of time."""
    return _cover(start, end, watermarks, [seconds for seconds in (DAY, HOUR) if seconds <= coarsest])


def _cover(start: datetime, end: datetime, watermarks: Mapping[int, datetime], sizes: list[int]) -> list[Piece]:
    if start >= end:
        return []
    if not sizes:
        return [Piece(MINUTE, start, end)]
    size, finer = sizes[0], sizes[1:]
    low = ceil(start, size)
    high = min(floor(end, size), watermarks.get(size, EPOCH))
    if low >= high:
        return _cover(start, end, watermarks, finer)
    before = _cover(start, low, watermarks, finer)
    after = _cover(high, end, watermarks, finer)
    return [*before, Piece(size, low, high), *after]
