"""Reads of usage and goodput. Windows are added, never averaged; figures are derived from the sum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from berth.core.scoping import Scope, ScopedQuerySet
from berth.metering.figures import figures
from berth.metering.models import GoodputMinute, UsageRecord
from gpuruntime.goodput import Window


def usage(scope: Scope) -> ScopedQuerySet:
    return scope.of(UsageRecord.objects)


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
