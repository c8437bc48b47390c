"""Sums of usage by one or two groups: whole hours from ``UsageHour`` and the corrections of those that are sealed, the
ends of the span from the records.

All are sums of the same records, so the answer is exact for any span. Days and hours are UTC's, by arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce, TruncDay, TruncHour

from berth.core.scoping import Scope
from berth.metering.models import UsageCorrection, UsageHour, UsageRecord, UsageSums
from berth.metering.names import label_of, labels
from berth.metering.spans import HOUR, ceil, floor

GROUPS = ("day", "hour", "tenant", "member", "key", "deployment", "class")
TIMES = ("day", "hour")
MAX_ROWS = 10_000
SUMS = (
    "requests", "offered", "good", "prompt_tokens", "cached_tokens", "completion_tokens", "good_tokens", "cost",
)  # fmt: skip
_COLUMNS = {
    "tenant": "tenant_id", "member": "member_id", "key": "key_id", "deployment": "deployment_id", "class": "class_name",
}  # fmt: skip
_TRUNC: dict[str, Any] = {"day": TruncDay, "hour": TruncHour}
# Prefixed: an annotation may not bear the name of a field.
OF_HOURS = {f"sum_{name}": Coalesce(Sum(name), 0) for name in SUMS if name != "cost"} | {
    "sum_cost": Coalesce(Sum("cost"), Decimal(0))
}
_OF_RECORDS: dict[str, Any] = {
    "sum_requests": Count("request_id"),
    "sum_offered": Count("request_id", filter=Q(offered=True)),
    "sum_good": Count("request_id", filter=Q(good=True)),
    "sum_prompt_tokens": Coalesce(Sum("prompt_tokens"), 0),
    "sum_cached_tokens": Coalesce(Sum("cached_tokens"), 0),
    "sum_completion_tokens": Coalesce(Sum("completion_tokens"), 0),
    "sum_good_tokens": Coalesce(Sum("completion_tokens", filter=Q(good=True)), 0),
    "sum_cost": Coalesce(Sum("cost"), Decimal(0)),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Whose usage, from when to when (absent: without end), of which cells. ``cells``: column -> value."""

    scope: Scope
    start: datetime | None
    end: datetime | None
    cells: Mapping[str, str]

    def hours(self, model: type[UsageSums] = UsageHour) -> Any:
        """Whole hours within the span, or the corrections of such."""
        rows = self.scope.of(model.objects).filter(**self.cells)
        if self.start is not None:
            rows = rows.filter(hour__gte=ceil(self.start, HOUR))
        return rows if self.end is None else rows.filter(hour__lt=floor(self.end, HOUR))

    def records(self, now: datetime) -> Any:
        """All of the span, to ``now`` at the latest."""
        end = now if self.end is None else min(self.end, now)
        rows = self.scope.of(UsageRecord.objects).filter(arrived_at__lt=end, **self.cells)
        return rows if self.start is None else rows.filter(arrived_at__gte=self.start)

    def ends(self) -> Any | None:
        """Records of the span that lie in no whole hour; None where there are none of the kind."""
        parts = list(_ends(self.start, self.end))
        if not parts:
            return None
        found = Q()
        for low, high in parts:
            found |= Q(arrived_at__gte=low, arrived_at__lt=high)
        return self.scope.of(UsageRecord.objects).filter(found, **self.cells)


def _ends(start: datetime | None, end: datetime | None) -> Iterable[tuple[datetime, datetime]]:
    first = None if start is None else ceil(start, HOUR)
    last = None if end is None else floor(end, HOUR)
    if start is not None and end is not None and first is not None and last is not None and first > last:
        yield start, end  # within one hour
        return
    if start is not None and first is not None and start < first:
        yield start, first
    if end is not None and last is not None and last < end:
        yield last, end


def summarize(span: Span, groups: Sequence[str]) -> dict[str, Any]:
    """As ``UsageSummarySerializer`` shows it: times oldest first, names by tokens, at most ``MAX_ROWS`` of them.

    ``total`` is of all rows, also where some were left out.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    truncated = False
    for rows, sums, time in _sources(span):
        part = _grouped(rows, groups, sums, time)
        truncated = truncated or len(part) > MAX_ROWS
        for key, values in part:
            known = found.get(key)
            found[key] = values if known is None else {name: known[name] + values[name] for name in SUMS}
    keys = sorted(found, key=lambda key: _rank(key, groups, found[key]))
    total = totals(span) if truncated else _added(found.values())
    shown = keys[:MAX_ROWS]
    names = _labels(span.scope, shown, groups)
    return {
        "groups": list(groups),
        "rows": [_row(key, groups, found[key], names) for key in shown],
        "total": total,
        "truncated": truncated or len(keys) > MAX_ROWS,
    }


def totals(span: Span) -> dict[str, Any]:
    parts = [rows.aggregate(**sums) for rows, sums, _ in _sources(span)]
    return _added({name: part[f"sum_{name}"] for name in SUMS} for part in parts)


def _sources(span: Span) -> list[tuple[Any, dict[str, Any], str]]:
    sources = [(span.hours(model), OF_HOURS, "hour") for model in (UsageHour, UsageCorrection)]
    ends = span.ends()
    return sources if ends is None else [*sources, (ends, _OF_RECORDS, "arrived_at")]


def _grouped(rows: Any, groups: Sequence[str], sums: dict[str, Any], time: str) -> list[tuple[Any, dict[str, Any]]]:
    columns = []
    for group in groups:
        if group in TIMES:
            rows = rows.annotate(**{f"by_{group}": _TRUNC[group](time, tzinfo=UTC)})
        columns.append(f"by_{group}" if group in TIMES else _COLUMNS[group])
    ordered = [columns[i] if group in TIMES else "-sum_completion_tokens" for i, group in enumerate(groups)]
    summed = rows.values(*columns).annotate(**sums).order_by(*dict.fromkeys([*ordered, *columns]))[: MAX_ROWS + 1]
    return [(tuple(row[c] for c in columns), {name: row[f"sum_{name}"] for name in SUMS}) for row in summed]


def _rank(key: tuple[Any, ...], groups: Sequence[str], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Times first and oldest first, then most tokens first."""
    times = [part for part, group in zip(key, groups, strict=True) if group in TIMES]
    names = [part for part, group in zip(key, groups, strict=True) if group not in TIMES]
    return (*times, -values["completion_tokens"], *names)


def _added(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {name: Decimal(0) if name == "cost" else 0 for name in SUMS}
    for part in parts:
        for name in SUMS:
            total[name] += part[name]
    return total


def _labels(scope: Scope, keys: Sequence[tuple[Any, ...]], groups: Sequence[str]) -> dict[tuple[str, str], str]:
    ids = {f"{group}s": {key[i] for key in keys} - {""} for i, group in enumerate(groups) if group in _NAMED}
    names = labels(**ids)
    gone = [id_ for id_ in ids.get("deployments", ()) if ("deployment", id_) not in names]
    if gone:  # named as it was: usage outlives what it names
        for model in (UsageCorrection, UsageHour):
            kept = scope.of(model.objects).filter(deployment_id__in=gone).exclude(deployment_name="")
            for id_, name in kept.values_list("deployment_id", "deployment_name").distinct():
                names["deployment", id_] = name
    return names


_NAMED = ("tenant", "member", "key", "deployment")


def _row(
    key: tuple[Any, ...], groups: Sequence[str], values: dict[str, Any], names: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    parts = [
        {"group": group, "key": text, "label": label_of(names, group, text)}
        for group, part in zip(groups, key, strict=True)
        for text in [part.isoformat() if group in TIMES else part]
    ]
    return {"key": parts[0]["key"], "label": parts[0]["label"], "by": parts, **values}
