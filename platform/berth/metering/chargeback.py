"""What to charge to whom: whole hours of usage by tenant, deployment, class and key or member.

Three kinds of lines, whose sum is the records':

    sealed      hours that will never change: an invoice of these can be made again to the cent
    open        hours that are not sealed yet
    correction  one a correction, with the hour it corrects and when it was written

So whoever has charged the sealed lines of a month charges, later on, the corrections written since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, get_args

from django.db.models import BooleanField, Case, Max, Q, Value, When

from berth.core.errors import Invalid
from berth.core.scoping import Scope
from berth.metering.export import csv_cell, csv_lines
from berth.metering.hours import sealed_until
from berth.metering.models import UsageCorrection
from berth.metering.names import label_of, labels
from berth.metering.summaries import OF_HOURS, SUMS, Span
from berth.slas.models import PRICE_FIELDS, Contract, ServiceClass
from berth.slas.tiers import terms_by_class

By = Literal["key", "member"]
BYS: tuple[By, ...] = get_args(By)
Kind = Literal["sealed", "open", "correction"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_LINES = 20_000
NAMED = ("tenant", "deployment", "class", "key", "member")
COLUMNS = (
    "kind", "hour", "written_at", "tenant", "tenant_name", "deployment", "deployment_name", "class", "key", "key_name",
    "member", "member_name", "requests", "offered", "good", "attainment", "prompt_tokens", "cached_tokens",
    "completion_tokens", "good_tokens", *PRICE_FIELDS, "cost", "currency",
)  # fmt: skip

_CELL = ("tenant_id", "deployment_id", "class_name")


def chargeback(scope: Scope, start: datetime, end: datetime, by: By, cells: Mapping[str, str]) -> dict[str, Any]:
    """As ``ChargebackSerializer`` shows it. ``start`` and ``end``: whole hours of UTC. Raises ``Invalid``."""
    until = sealed_until()
    span = Span(scope, start, end, cells)
    rows = [*_of_hours(span, f"{by}_id", until), *_corrections(span, f"{by}_id")]
    if len(rows) > MAX_LINES:
        raise Invalid(f"There are more than {MAX_LINES} lines: ask for fewer hours, or for one tenant", field="to")
    names = labels(
        tenants={row["tenant_id"] for row in rows},
        deployments={row["deployment_id"] for row in rows} - {""},
        **{f"{by}s": {row[f"{by}_id"] for row in rows} - {""}},
    )
    prices = _prices(scope, start, end)
    lines = [_line(row, by, names, prices) for row in rows]
    return {
        "from": start,
        "to": end,
        "by": by,
        "sealed": end <= until,
        "lines": sorted(lines, key=_rank),
        "total": {name: sum((line[name] for line in lines), Decimal(0) if name == "cost" else 0) for name in SUMS},
    }


def _of_hours(span: Span, who: str, until: datetime) -> Iterable[dict[str, Any]]:
    sealed = Case(When(hour__lt=until, then=Value(True)), default=Value(False), output_field=BooleanField())
    rows = span.hours().annotate(sealed=sealed).values(*_CELL, who, "sealed")
    for row in rows.annotate(kept_name=Max("deployment_name"), **OF_HOURS).order_by()[: MAX_LINES + 1]:
        yield {**row, "kind": "sealed" if row["sealed"] else "open", "hour": None, "written_at": None}


def _corrections(span: Span, who: str) -> Iterable[dict[str, Any]]:
    rows = span.hours(UsageCorrection).values(*_CELL, who, "hour", "written_at")
    for row in rows.annotate(kept_name=Max("deployment_name"), **OF_HOURS).order_by()[: MAX_LINES + 1]:
        yield {**row, "kind": "correction"}


def _line(row: Mapping[str, Any], by: By, names: Mapping[tuple[str, str], str], prices: _Prices) -> dict[str, Any]:
    cell = (row["tenant_id"], row["deployment_id"], row["class_name"])
    sums = {name: row[f"sum_{name}"] for name in SUMS}
    return {
        **{name: row[name] for name in ("kind", "hour", "written_at")},
        "tenant": row["tenant_id"],
        "tenant_name": label_of(names, "tenant", row["tenant_id"]),
        "deployment": row["deployment_id"],
        "deployment_name": names.get(("deployment", row["deployment_id"]), row["kept_name"]),
        "class": row["class_name"],
        by: row[f"{by}_id"],
        f"{by}_name": names.get((by, row[f"{by}_id"]), ""),
        **sums,
        "attainment": sums["good"] / sums["offered"] if sums["offered"] > 0 else None,
        **dict(zip(PRICE_FIELDS, prices.of(*cell), strict=True)),
    }


def _rank(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """Corrections last, oldest first; else by names, so that the same question has the same answer."""
    who = line.get("key", line.get("member"))
    cell = (line["tenant_name"], line["tenant"], line["deployment_name"], line["deployment"], line["class"], who)
    if line["kind"] == "correction":
        return (1, line["written_at"], line["hour"], *cell)
    return (0, *cell, line["kind"] == "open")


class _Prices:
    """Of a million tokens of a class, by the versions in force within the span; None where these differ."""

    def __init__(self, versions: Iterable[Contract], classes: Iterable[ServiceClass]) -> None:
        self._versions: dict[tuple[str, str], list[Contract]] = {}
        for one in versions:
            self._versions.setdefault((one.tenant_id, one.deployment_id), []).append(one)
        self._classes = {one.name: _triple(one.terms()) for one in classes}

    def of(self, tenant_id: str, deployment_id: str, class_name: str) -> tuple[Decimal | None, ...]:
        versions = self._versions.get((tenant_id, deployment_id), [])
        found = {_triple(terms_by_class(one.terms, one.tiers, class_name)) for one in versions if one.terms}
        if not found and class_name in self._classes:
            return self._classes[class_name]
        return next(iter(found)) if len(found) == 1 else (None,) * len(PRICE_FIELDS)


def _triple(terms: Mapping[str, Any]) -> tuple[Decimal, ...]:
    return tuple(Decimal(str(terms.get(name, 0))) for name in PRICE_FIELDS)


def _prices(scope: Scope, start: datetime, end: datetime) -> _Prices:
    lasted = Q(valid_until=None) | Q(valid_until__gt=start)
    return _Prices(scope.of(Contract.objects).filter(lasted, valid_from__lt=end), ServiceClass.objects.all())


def chargeback_csv(found: Mapping[str, Any], currency: str) -> Iterator[bytes]:
    """A line each, in ``COLUMNS`` less those of the other grouping."""
    other = next(one for one in BYS if one != found["by"])
    columns = [name for name in COLUMNS if name not in (other, f"{other}_name")]
    yield csv_lines([columns])
    for line in found["lines"]:
        values = {**line, "currency": currency}
        yield csv_lines([["" if values[name] is None else csv_cell(values[name]) for name in columns]])
