"""Usage as CSV (RFC 4180), streamed: a page of records at a time, so that a year needs no more memory than a minute."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Q

from berth.core.scoping import ScopedQuerySet
from berth.live.threads import in_thread
from berth.metering.summaries import SUMS

PAGE = 2000
COLUMNS = (
    "request_id", "arrived_at", "tenant_id", "deployment_id", "deployment_name", "class_name", "key_id", "member_id",
    "contract_id", "contract_version", "replica_id", "outcome", "status", "offered", "good", "reason", "prompt_tokens",
    "cached_tokens", "completion_tokens", "ttft_us", "ttft_limit_us", "tpot_us", "tpot_limit_us", "fluidity", "e2e_us",
    "queue_ms", "prefill_ms", "decode_ms", "burst", "cost",
)  # fmt: skip


async def records_csv(records: ScopedQuerySet, currency: str) -> AsyncIterator[bytes]:
    """Oldest first. ``records`` must end at a moment, or an export of a busy installation would have no end."""
    yield csv_lines([[*COLUMNS, "currency"]])
    after: tuple[datetime, str] | None = None
    while rows := await in_thread(_page, records, after):
        yield csv_lines([*map(csv_cell, row), currency] for row in rows)
        after = (rows[-1][1], rows[-1][0])
        if len(rows) < PAGE:
            return


def _page(records: ScopedQuerySet, after: tuple[datetime, str] | None) -> list[tuple[Any, ...]]:
    if after is not None:
        at, request_id = after
        beyond = Q(arrived_at__gt=at) | Q(arrived_at=at, request_id__gt=request_id)
        records = records.filter(beyond, arrived_at__gte=at)
    return list(records.order_by("arrived_at", "request_id").values_list(*COLUMNS)[:PAGE])


def summary_csv(summary: Mapping[str, Any], currency: str) -> Iterator[bytes]:
    """The rows of ``summaries.summarize``; each group as its key and its name."""
    groups: Sequence[str] = summary["groups"]
    heads = [name for group in groups for name in (group, f"{group}_name")]
    yield csv_lines([[*heads, *SUMS, "currency"]])
    for row in summary["rows"]:
        names = [part[what] for part in row["by"] for what in ("key", "label")]
        yield csv_lines([[*map(csv_cell, names), *(csv_cell(row[name]) for name in SUMS), currency]])


def csv_lines(rows: Iterable[Sequence[Any]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()


def csv_cell(value: Any) -> Any:
    """Names are people's words: one that begins as a formula does must not become one in a spreadsheet."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value
