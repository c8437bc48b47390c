"""``?ordering=name,-created_at`` and ``?search=``: only what a view declares, and an unknown word is an error."""

from __future__ import annotations

import re
from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.filters import BaseFilterBackend, SearchFilter
from rest_framework.request import Request

from berth.core.errors import Invalid

MAX_KEYS = 3
Keys = tuple[tuple[str, bool], ...]


def ordering_of(request: Request, view: Any) -> Keys:
    """((path, descending), ...): what was asked for, or the view's default; the last key is unique.

    ``view.ordering_fields`` maps a name of the API to the database's path, or lists names that are both.
    """
    paths, unique = _paths(view), view.lookup_field
    asked = [part.strip() for part in request.query_params.get("ordering", "").split(",") if part.strip()]
    if len(asked) > MAX_KEYS:
        raise Invalid(f"At most {MAX_KEYS} fields, not {len(asked)}", field="ordering")
    keys = []
    for part in asked or [view.default_ordering]:
        name = part.removeprefix("-")
        if name not in paths:
            raise Invalid(f"{name!r}: expected one of {', '.join(sorted(paths))}", field="ordering")
        keys.append((paths[name], part.startswith("-")))
    if keys[-1][0] != unique:
        keys.append((unique, keys[-1][1]))
    return tuple(keys)


def _paths(view: Any) -> dict[str, str]:
    declared = view.ordering_fields
    named = dict(declared) if isinstance(declared, dict) else {name: name for name in declared}
    default = view.default_ordering.removeprefix("-")
    return {default: default, **named}


class Ordering(BaseFilterBackend):
    """Checks the parameter and describes it; the paginator, which pages along it, does the sorting."""

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        ordering_of(request, view)
        return queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        names = ", ".join(sorted(_paths(view)))
        text = f"up to {MAX_KEYS} of {names}, split by commas; a minus in front sorts downwards; absent values last"
        return [{"name": "ordering", "in": "query", "description": text, "schema": {"type": "string"}}]


class Search(SearchFilter):
    """``?search=``: each word in any of ``view.search_fields``. Where a view has none, it is an error.

    A word may be several, of which one is enough: ``a|b``, or ``"no room|is full"`` with spaces. The console asks so
    for what a person typed in another language than the rows are written in.
    """

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        if not view.search_fields and request.query_params.get("search"):
            raise Invalid("This list has no search", field="search")
        for term in self.get_search_terms(request) if view.search_fields else ():
            queryset = queryset.filter(self._either(term, queryset, view.search_fields))
        return queryset

    def _either(self, term: str, queryset: QuerySet[Any], fields: tuple[str, ...]) -> Q:
        """Alternatives as one pattern a field: each row is read once, however many they are."""
        words = [word for word in term.split("|") if word] or [term]
        pattern = "|".join(map(re.escape, words))
        found = Q()
        for field in fields:
            start = "^" if field.startswith("^") else ""
            if len(words) == 1:
                found |= Q(**{self.construct_search(field, queryset): words[0]})
            else:
                found |= Q(**{f"{field.lstrip('^=@$')}__iregex": f"{start}({pattern})"})
        return found

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        if not view.search_fields:
            return []
        names = ", ".join(field.lstrip("^=@$").replace("__", ".") for field in view.search_fields)
        text = f"words, each of which is part of: {names}; of a|b one is enough"
        return [{"name": "search", "in": "query", "description": text, "schema": {"type": "string"}}]
