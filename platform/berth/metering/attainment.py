"""Attainment over time and its error budget, from the stored windows. A request counts in the minute it ended.

Counts come from the database's sums; percentiles from added histograms, never averaged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec
from django.db.models import DateTimeField, F, Func, Q, Sum, TextField, Value
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Cast

from berth.core.scoping import Scope
from berth.metering.budget import Counted, Spent, budget, spent
from berth.metering.figures import percentiles
from berth.metering.models import GoodputMinute, GoodputSpan
from berth.metering.names import label_of, labels
from berth.metering.rollups import watermarks
from berth.metering.spans import EPOCH, MINUTE, Piece, cover, floor
from berth.slas.models import ServiceClass
from gpuruntime.goodput import Window

GROUPS = ("class", "deployment", "tenant", "contract")
VIOLATION_GROUPS = ("reason", "deployment", "class", "tenant")
DEFAULT_TARGET = 0.95
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Question:
    """[start, end) on minutes, of which cells."""

    scope: Scope
    start: datetime
    end: datetime
    deployment_id: str = ""
    class_name: str = ""

    def rows(self, manager: Any) -> Any:
        """Cells of requests: those of replicas have no class."""
        rows = self.scope.of(manager).exclude(class_name="")
        if self.deployment_id:
            rows = rows.filter(deployment_id=self.deployment_id)
        return rows.filter(class_name=self.class_name) if self.class_name else rows


class Count(NamedTuple):
    at: datetime
    tenant_id: str
    deployment_id: str
    class_name: str
    offered: int
    good: int


def attainment(asked: Question, *, step: int, group: str) -> dict[str, Any]:
    """``step``: seconds, of a minute, an hour or a day. The answer is of ``AttainmentSerializer``."""
    marks, targets = watermarks(), _targets()
    by_step = _counts(asked, cover(asked.start, asked.end, marks, coarsest=step), step)
    six_hours, hour = _lately(asked)
    windows = _windows(asked, cover(asked.start, asked.end, marks))
    counts = [count for count, _ in windows]
    key = _KEYS[group]
    names = _names_for(group, [*counts, *six_hours])
    by_key = [_by(key, rows) for rows in (counts, hour, six_hours)]
    windows_by_key = _by(lambda pair: key(pair[0]), windows)
    groups = [
        {
            **_named(group, wanted, names),
            **_part(
                _added(window for _, window in windows_by_key.get(wanted, ())),
                *(rows.get(wanted, []) for rows in by_key),
                targets=targets,
                target=targets.get(wanted) if group == "class" else None,
            ),
        }
        for wanted in sorted({*by_key[0], *by_key[2]})
    ]
    everything = _added(window for _, window in windows)
    return {
        "from": asked.start,
        "to": asked.end,
        "step": step,
        "group": group,
        "total": _part(everything, counts, hour, six_hours, targets=targets, target=targets.get(asked.class_name)),
        "groups": groups,
        "series": _series(asked, by_step, step, targets),
    }


def _part(
    window: Window,
    counts: list[Count],
    hour: list[Count],
    six_hours: list[Count],
    *,
    targets: Mapping[str, float],
    target: float | None,
) -> dict[str, Any]:
    period, last_hour, last_six = (_spent(rows, targets) for rows in (counts, hour, six_hours))
    return _shown(window, budget(period, last_hour, last_six, target))


def violations(asked: Question, *, group: str) -> dict[str, Any]:
    """Bad requests by ``group`` and by reason, most first."""
    tallies: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    offered: defaultdict[str, int] = defaultdict(int)
    key = _KEYS.get(group)
    for row in _reasons(asked, cover(asked.start, asked.end, watermarks())):
        tenant, deployment, name, reasons, count = row
        cell = Count(asked.start, tenant, deployment, name, count, 0)
        where = "" if key is None else key(cell)
        offered[where] += count
        for reason, number in (reasons or {}).items():
            tallies[reason if key is None else where][reason] += number
    total = sum(sum(reasons.values()) for reasons in tallies.values())
    names = labels(deployments=tallies if group == "deployment" else (), tenants=tallies if group == "tenant" else ())
    rows: list[dict[str, Any]] = [
        {
            "key": name,
            "label": label_of(names, group, name),
            "bad": sum(reasons.values()),
            "share": sum(reasons.values()) / total,
            "offered": sum(offered.values()) if key is None else offered[name],
            "reasons": dict(sorted(reasons.items())),
        }
        for name, reasons in tallies.items()
    ]
    rows.sort(key=lambda row: (-row["bad"], row["key"]))
    everything = {"offered": sum(offered.values()), "bad": total}
    return {"from": asked.start, "to": asked.end, "group": group, "rows": rows, "total": everything}


_KEYS: dict[str, Callable[[Any], Any]] = {
    "class": lambda row: row.class_name,
    "deployment": lambda row: row.deployment_id,
    "tenant": lambda row: row.tenant_id,
    "contract": lambda row: (row.tenant_id, row.deployment_id, row.class_name),
}


def _by(key: Callable[[Row], Any], rows: Iterable[Row]) -> dict[Any, list[Row]]:
    found: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return dict(found)


def _names_for(group: str, counts: Iterable[Count]) -> dict[tuple[str, str], str]:
    """Of the rows in the answer, which are the asker's own."""
    if group == "class":
        return {}
    rows = list(counts)
    return labels(deployments={row.deployment_id for row in rows}, tenants={row.tenant_id for row in rows})


def _named(group: str, wanted: Any, names: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Who a group is: ids and names of all that it fixes."""
    shown: dict[str, Any] = {"tenant": None, "deployment": None, "class_name": None}
    if group == "contract":
        tenant, deployment, name = wanted
        shown = {"tenant": tenant, "deployment": deployment, "class_name": name}
        label = f"{label_of(names, 'tenant', tenant)} / {label_of(names, 'deployment', deployment)}"
        return {"key": "/".join(wanted), "label": label, **shown}
    shown["class_name" if group == "class" else group] = wanted
    return {"key": wanted, "label": label_of(names, group, wanted), **shown}


def _shown(total: Window, figures: dict[str, Any]) -> dict[str, Any]:
    return {
        "offered": total.offered,
        "good": total.good,
        "attainment": total.attainment,
        "late": dict(sorted(total.reasons.items())),
        "over_quota": total.over_quota,
        "tokens": total.tokens,
        "good_tokens": total.good_tokens,
        "ttft_ms": percentiles(total.ttft, (0.5, 0.95, 0.99)),
        "tpot_ms": percentiles(total.tpot, (0.5, 0.95, 0.99)),
        "budget": figures,
    }


def _series(asked: Question, counts: list[Count], step: int, targets: Mapping[str, float]) -> list[dict[str, Any]]:
    """Every step of the span, also those in which nothing was offered."""
    bins: defaultdict[datetime, list[Count]] = defaultdict(list)
    for count in counts:
        bins[floor(count.at, step)].append(count)
    points, at = [], floor(asked.start, step)
    while at < asked.end:
        here = _spent(bins.get(at, ()), targets)
        shown = {"offered": here.offered, "good": here.good, "attainment": here.attainment}
        points.append({"at": at, **shown, "burn_rate": here.burn_rate if here.offered else None})
        at += timedelta(seconds=step)
    return points


def _spent(counts: Iterable[Count], targets: Mapping[str, float]) -> Spent:
    return spent(Counted(c.offered, c.good, targets.get(c.class_name, DEFAULT_TARGET)) for c in counts)


def _targets() -> dict[str, float]:
    return dict(ServiceClass.objects.values_list("name", "attainment_target"))


# --- Rows -----------------------------------------------------------------------------------------------------------


def _within(pieces: list[Piece], field: str, *, spans: bool) -> Q | None:
    """Rows of the pieces that are minutes, or of the others."""
    found: Q | None = None
    for piece in pieces:
        if (piece.seconds == MINUTE) is spans:
            continue
        here = Q(**{f"{field}__gte": piece.start, f"{field}__lt": piece.end})
        here = here & Q(seconds=piece.seconds) if spans else here
        found = here if found is None else found | here
    return found


_CELL = ("tenant_id", "deployment_id", "class_name")
_TABLES = ((GoodputMinute.objects, "minute", False), (GoodputSpan.objects, "at", True))


def _rows(asked: Question, pieces: list[Piece], *columns: Any, **named: Any) -> list[tuple[Any, ...]]:
    """(time, tenant, deployment, class, ...) of every cell in the pieces."""
    found: list[tuple[Any, ...]] = []
    for manager, field, spans in _TABLES:
        where = _within(pieces, field, spans=spans)
        if where is not None:
            rows = asked.rows(manager).filter(where).annotate(**named)
            found += rows.values_list(field, *_CELL, *columns, *named)
    return found


def _counts(asked: Question, pieces: list[Piece], step: int) -> list[Count]:
    """Summed by class and the step they fall into: all that a series tells apart."""
    found: list[Count] = []
    for manager, field, spans in _TABLES:
        where = _within(pieces, field, spans=spans)
        if where is not None:
            length = Value(timedelta(seconds=step))
            step_of = Func(length, F(field), Value(EPOCH), function="date_bin", output_field=DateTimeField())
            rows = asked.rows(manager).filter(where).annotate(begins=step_of).values_list("begins", "class_name")
            sums = rows.annotate(Sum("offered"), Sum("good")).order_by()
            found += [Count(at, "", "", name, int(offered), int(good)) for at, name, offered, good in sums]
    return found


def _lately(asked: Question) -> tuple[list[Count], list[Count]]:
    """The last six hours and the last hour."""
    start, last = asked.end - timedelta(hours=6), asked.end - timedelta(hours=1)
    rows = asked.rows(GoodputMinute.objects).filter(minute__gte=start, minute__lt=asked.end).values_list(*_CELL)
    within = Q(minute__gte=last)
    sums = {
        "o6": Sum("offered"),
        "g6": Sum("good"),
        "o1": Sum("offered", filter=within),
        "g1": Sum("good", filter=within),
    }
    six, one = [], []
    for tenant, deployment, name, offered, good, offered_1, good_1 in rows.annotate(**sums).order_by():
        six.append(Count(start, tenant, deployment, name, offered, good))
        one.append(Count(last, tenant, deployment, name, offered_1 or 0, good_1 or 0))
    return six, one


def _windows(asked: Question, pieces: list[Piece]) -> list[tuple[Count, Window]]:
    """Each cell's windows, added up over time."""
    cells: defaultdict[tuple[str, str, str], Window] = defaultdict(Window)
    for _, tenant, deployment, name, window in _rows(asked, pieces, text=Cast("window", TextField())):
        cells[tenant, deployment, name].merge_json(msgspec.json.decode(window))
    return [(Count(asked.start, *cell, window.offered, window.good), window) for cell, window in cells.items()]


def _reasons(asked: Question, pieces: list[Piece]) -> list[tuple[str, str, str, dict[str, int] | None, int]]:
    rows = _rows(asked, pieces, "offered", found=KeyTransform("reasons", "window"))
    return [(tenant, deployment, name, reasons, offered) for _, tenant, deployment, name, offered, reasons in rows]


def _added(windows: Iterable[Window]) -> Window:
    total = Window()
    for window in windows:
        total.merge(window)
    return total
