"""Reads of usage and goodput. Windows are added, never averaged; figures are derived from the sum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, TruncDay, TruncHour

from berth.core.scoping import Scope, ScopedQuerySet
from berth.metering.models import GoodputMinute, UsageRecord
from berth.tenants.models import ApiKey
from gpuruntime.goodput import Window

GROUPS = ("day", "hour", "deployment", "key", "class")


def usage(scope: Scope) -> ScopedQuerySet:
    return scope.of(UsageRecord.objects)


def summarize_usage(records: QuerySet[UsageRecord], group: str, scope: Scope) -> list[dict[str, Any]]:
    """Sums by ``group``, times oldest first, names by tokens; ``key`` is stable, ``label`` is for a person."""
    fields: dict[str, Any] = {
        "day": TruncDay("arrived_at"),
        "hour": TruncHour("arrived_at"),
        "deployment": None,
        "key": None,
        "class": None,
    }
    if fields[group] is not None:
        rows = records.annotate(span=fields[group]).values("span").annotate(**_sums()).order_by("span")
        return [_timed(dict(row)) for row in rows]
    column = {"deployment": "deployment_id", "key": "key_id", "class": "class_name"}[group]
    extra = ["deployment_name"] if group == "deployment" else []
    rows = records.values(column, *extra).annotate(**_sums()).order_by("-completion_tokens", column)
    labels = _key_names(scope) if group == "key" else {}
    return [_named(row, column, labels) for row in rows]


def total_of(records: QuerySet[UsageRecord]) -> dict[str, Any]:
    return records.aggregate(**_sums())


def _sums() -> dict[str, Any]:
    def total(field: str, **only: Any) -> Coalesce:
        return Coalesce(Sum(field, filter=Q(**only) if only else None), 0)

    return {
        "requests": Count("request_id"),
        "offered": Count("request_id", filter=Q(offered=True)),
        "good": Count("request_id", filter=Q(good=True)),
        "prompt_tokens": total("prompt_tokens"),
        "cached_tokens": total("cached_tokens"),
        "completion_tokens": total("completion_tokens"),
        "good_tokens": total("completion_tokens", good=True),
    }


def _timed(row: dict[str, Any]) -> dict[str, Any]:
    at = row.pop("span").isoformat()
    return {"key": at, "label": at, **row}


def _named(row: dict[str, Any], column: str, labels: dict[str, str]) -> dict[str, Any]:
    key = row.pop(column)
    label = row.pop("deployment_name", None) or labels.get(key) or key
    return {"key": key, "label": label, **row}


def _key_names(scope: Scope) -> dict[str, str]:
    return dict(scope.of(ApiKey.objects).filter(playground=False).values_list("id", "name"))


def goodput(scope: Scope, *, since: datetime, deployment_id: str = "") -> dict[str, Any]:
    """Minutes since ``since`` (oldest first), and totals of all, by class and by deployment, as derived figures."""
    rows = scope.of(GoodputMinute.objects).filter(minute__gte=since)
    if deployment_id:
        rows = rows.filter(deployment_id=deployment_id)
    cells = list(rows.order_by("minute").values_list("minute", "class_name", "deployment_id", "window"))
    return {
        "minutes": [{"minute": minute, **derived(window)} for minute, window in _merged(cells, lambda c: c[0]).items()],
        "total": derived(_one([cell[3] for cell in cells])),
        "classes": {name: derived(w) for name, w in _merged(cells, lambda c: c[1]).items() if name},
        "deployments": {name: derived(w) for name, w in _merged(cells, lambda c: c[2]).items() if name},
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


def derived(window: Window) -> dict[str, Any]:
    """The figures of a window as consoles show them (docs/contracts.md, /ws/console). Times in ms."""

    def ms(q: float, name: str) -> float | None:
        value = getattr(window, name).percentile(q)
        return None if value is None else round(value / 1000, 3)

    p5 = window.fluidity.percentile(0.05)
    return {
        "offered": window.offered,
        "good": window.good,
        "late": dict(window.reasons),
        "over_quota": window.over_quota,
        "tokens": window.tokens,
        "good_tokens": window.good_tokens,
        "prompt_tokens": window.prompt_tokens,
        "goodput": window.goodput,
        "attainment": window.attainment,
        "ttft_ms": {"p50": ms(0.5, "ttft"), "p95": ms(0.95, "ttft")},
        "tpot_ms": {"p50": ms(0.5, "tpot"), "p95": ms(0.95, "tpot")},
        "fluidity_p5": None if p5 is None else max(0.0, min(1.0, (p5 - 1) / 1e6)),
        "factors": window.factors,
    }
