"""Reads of usage and goodput. Windows are added, never averaged; figures are derived from the sum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, TruncDay, TruncHour

from berth.core.scoping import Scope, ScopedQuerySet
from berth.metering.figures import figures
from berth.metering.models import GoodputMinute, UsageRecord
from berth.tenants.models import ApiKey
from gpuruntime.goodput import Window

GROUPS = ("day", "hour", "deployment", "key", "class")


def usage(scope: Scope) -> ScopedQuerySet:
    return scope.of(UsageRecord.objects)


def summarize_usage(records: QuerySet[UsageRecord], group: str, scope: Scope) -> list[dict[str, Any]]:
    """Sums by ``group``, times oldest first, names by tokens; ``key`` is stable, ``label`` is for a person."""
    if group in _SPANS:
        spans = records.annotate(span=_SPANS[group]("arrived_at")).values("span").annotate(**_SUMS).order_by("span")
        return [_row(row, row["span"].isoformat(), row["span"].isoformat()) for row in spans]
    column = {"deployment": "deployment_id", "key": "key_id", "class": "class_name"}[group]
    extra = {"label": Max("deployment_name")} if group == "deployment" else {}
    rows = records.values(column).annotate(**_SUMS, **extra).order_by("-sum_completion_tokens", column)
    names = _key_names(scope) if group == "key" else {}
    return [_row(row, row[column], row.get("label") or names.get(row[column]) or row[column]) for row in rows]


def total_of(records: QuerySet[UsageRecord]) -> dict[str, int]:
    return _plain(records.aggregate(**_SUMS))


def _total(field: str, **only: Any) -> Coalesce:
    return Coalesce(Sum(field, filter=Q(**only) if only else None), 0)


_SPANS: dict[str, Any] = {"day": TruncDay, "hour": TruncHour}
# Prefixed: an annotation may not bear the name of a field.
_SUMS: dict[str, Any] = {
    "sum_requests": Count("request_id"),
    "sum_offered": Count("request_id", filter=Q(offered=True)),
    "sum_good": Count("request_id", filter=Q(good=True)),
    "sum_prompt_tokens": _total("prompt_tokens"),
    "sum_cached_tokens": _total("cached_tokens"),
    "sum_completion_tokens": _total("completion_tokens"),
    "sum_good_tokens": _total("completion_tokens", good=True),
}


def _plain(row: Mapping[str, Any]) -> dict[str, int]:
    return {name.removeprefix("sum_"): row[name] for name in _SUMS}


def _row(row: Mapping[str, Any], key: str, label: str) -> dict[str, Any]:
    return {"key": key, "label": label, **_plain(row)}


def _key_names(scope: Scope) -> dict[str, str]:
    return dict(scope.of(ApiKey.objects).filter(playground=False).values_list("id", "name"))


def goodput(scope: Scope, *, since: datetime, deployment_id: str = "") -> dict[str, Any]:
    """Minutes since ``since`` (oldest first), and totals: of all, by class, by deployment."""
    rows = scope.of(GoodputMinute.objects).filter(minute__gte=since)
    if deployment_id:
        rows = rows.filter(deployment_id=deployment_id)
    cells = list(rows.order_by("minute").values_list("minute", "class_name", "deployment_id", "window"))
    return {
        "minutes": [{"minute": minute, **figures(window)} for minute, window in _merged(cells, lambda c: c[0]).items()],
        "total": figures(_one([cell[3] for cell in cells])),
        "classes": {name: figures(w) for name, w in _merged(cells, lambda c: c[1]).items() if name},
        "deployments": {name: figures(w) for name, w in _merged(cells, lambda c: c[2]).items() if name},
    }


def _merged(cells: Iterable[tuple[Any, ...]], key: Callable[[tuple[Any, ...]], Any]) -> dict[Any, Window]:
    windows: defaultdict[Any, Window] = defaultdict(Window)
    for cell in cells:
        windows[key(cell)].merge(Window.from_json(cell[3]))
    return dict(windows)


def _one(windows: Iterable[dict[str, Any]]) -> Window:
    total = Window()
    for window in windows:
        total.merge(Window.from_json(window))
    return total
