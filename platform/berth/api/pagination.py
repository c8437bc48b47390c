"""Pages by cursor along any ordering that a view allows: stable while rows arrive, as cheap on page 500 as on page 1.

A cursor holds the values of the row at which the page ends, and the next page is what lies beyond it. Absent values
(NULL) come last in both directions. Source: keyset pagination, https://use-the-index-luke.com/no-offset.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import FieldDoesNotExist, FieldError, ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import F, Model, Q, QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from berth.api.ordering import ordering_of


@dataclass(frozen=True, slots=True)
class Key:
    path: str
    down: bool
    absent: bool


class KeysetPagination(CursorPagination):
    page_size = 50
    max_page_size = 200
    page_size_query_param = "page_size"

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        self.request = request
        self.keys = [Key(path, down, _may_be_absent(queryset.model, path)) for path, down in ordering_of(request, view)]
        size = self.get_page_size(request) or self.page_size
        back, at = self._read(request.query_params.get(self.cursor_query_param), len(self.keys))
        if at is not None:
            queryset = self._beyond(queryset, at, back)
        rows = list(queryset.order_by(*_sorting(self.keys, back))[: size + 1])
        more, rows = len(rows) > size, rows[:size]
        if back:
            rows.reverse()
        self.has_next = bool(rows) and (back or more)
        self.has_previous = bool(rows) and (more if back else at is not None)
        self.rows = rows
        return rows

    def get_next_link(self) -> str | None:
        return self._link(self.rows[-1], False) if self.has_next else None

    def get_previous_link(self) -> str | None:
        return self._link(self.rows[0], True) if self.has_previous else None

    def _link(self, row: Any, back: bool) -> str:
        values = [_value(row, key.path) for key in self.keys]
        text = json.dumps([back, values], cls=DjangoExact, separators=(",", ":"))
        cursor = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return replace_query_param(self.request.build_absolute_uri(), self.cursor_query_param, cursor)

    def _read(self, cursor: str | None, length: int) -> tuple[bool, list[Any] | None]:
        if not cursor:
            return False, None
        try:
            back, at = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
            fits = isinstance(back, bool) and isinstance(at, list) and len(at) == length
        except (ValueError, TypeError, RecursionError):
            fits = False
        if not fits or any(isinstance(value, list | dict) or "\0" in str(value) for value in at):
            raise NotFound(self.invalid_cursor_message)  # of another ordering, or not ours
        return back, at

    def _beyond(self, queryset: QuerySet[Any], at: list[Any], back: bool) -> QuerySet[Any]:
        try:
            return queryset.filter(_after(self.keys, at, back))
        except (ValueError, TypeError, ValidationError, FieldError) as error:
            raise NotFound(self.invalid_cursor_message) from error


class DjangoExact(DjangoJSONEncoder):
    """Moments to the microsecond: Django's encoder cuts them to milliseconds."""

    def default(self, o: Any) -> Any:
        return o.isoformat() if hasattr(o, "isoformat") else super().default(o)


def _may_be_absent(model: type[Model], path: str) -> bool:
    """Whether a row may have no value there. What is no column (an annotation) may always."""
    absent = False
    for name in path.split("__"):
        try:
            field = model._meta.get_field(name)
        except FieldDoesNotExist:
            return True
        absent = absent or bool(getattr(field, "null", True))
        model = field.related_model or model
    return absent


def _sorting(keys: list[Key], back: bool) -> list[Any]:
    """NULLs last; read backwards they come first. A column without NULLs says nothing of them, to use its index."""
    found = []
    for key in keys:
        nulls: dict[str, Any] = {"nulls_first" if back else "nulls_last": True} if key.absent else {}
        found.append(F(key.path).desc(**nulls) if key.down is not back else F(key.path).asc(**nulls))
    return found


def _after(keys: list[Key], at: list[Any], back: bool) -> Q:
    """Rows beyond ``at``: equal in the first keys and beyond in the next, for every next."""
    beyond, equal = Q(pk__in=[]), Q()
    for key, value in zip(keys, at, strict=True):
        absent = Q(**{f"{key.path}__isnull": True})
        if value is None:
            step = ~absent if back else Q(pk__in=[])
            same = absent
        else:
            step = Q(**{f"{key.path}__{_way(key, back)}": value})
            step = step | absent if key.absent and not back else step
            same = Q(**{key.path: value})
        beyond |= equal & step
        equal &= same
    first = keys[0]
    if first.absent:
        return beyond
    return Q(**{f"{first.path}__{_way(first, back)}e": at[0]}) & beyond  # one range of an index


def _way(key: Key, back: bool) -> str:
    return "lt" if key.down is not back else "gt"


def _value(row: Any, path: str) -> Any:
    for name in path.split("__"):
        row = None if row is None else getattr(row, name)
    return row
