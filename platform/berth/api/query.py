"""The query of a GET: a parameter that the route's schema does not name is an error, for it would filter nothing."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import yaml
from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.views import APIView

from berth.core.errors import Invalid

SCHEMA = Path(__file__).parent / "schema.yaml"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # 0.1 s, once a process; without libyaml 2 s
_VARIABLE = re.compile(r"\(\?P<\w+>.*?\)(?=/|$)|<\w+:\w+>|\{\w+\}")


# Mixin of every REST view. Asked after rights: who may not read learns nothing of what there is to filter by.
# (A docstring would be the description of every operation whose view has none.)
class KnownQuery(APIView):
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in ("GET", "HEAD"):
            require_known(request._request)


def require_known(request: HttpRequest) -> None:
    """Raises ``Invalid`` naming the first parameter that the route does not have, and those it has."""
    known = known_parameters().get(_route(request))
    if known is None:
        return  # no GET here: 405 says so
    unknown = next((name for name in request.GET if name not in known), None)
    if unknown is not None and known:
        raise Invalid(f"There is no parameter {unknown!r}; there are: {', '.join(known)}", field=unknown)
    if unknown is not None:
        raise Invalid(f"There is no parameter {unknown!r}: none is taken here", field=unknown)


@functools.cache
def known_parameters() -> dict[str, tuple[str, ...]]:
    """By route (variables as ``{}``), the sorted query parameters of its GET: what the committed schema says."""
    paths = yaml.load(SCHEMA.read_text("utf-8"), Loader=_LOADER)["paths"]  # noqa: S506  (both loaders are safe ones)
    return {
        _VARIABLE.sub("{}", path).lstrip("/"): tuple(
            sorted(each["name"] for each in item["get"].get("parameters", []) if each["in"] == "query")
        )
        for path, item in paths.items()
        if "get" in item
    }


def _route(request: HttpRequest) -> str:
    match = request.resolver_match
    return "" if match is None else _VARIABLE.sub("{}", match.route.removesuffix("$"))
