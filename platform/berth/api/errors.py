"""Every error of the REST API as RFC 9457 problem details: one shape, made in one place.

``{"type", "title", "status", "detail", "code", "field", "errors": [{"field", "code", "detail"}], "request_id"}``;
``field`` and ``errors`` only where the caller's input is at fault.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, DataError, InterfaceError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from psycopg_pool import PoolTimeout
from rest_framework import exceptions
from rest_framework.response import Response

from berth.core.errors import BerthError
from berth.core.logs import current_request_id

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER_S = "5"


def problem(status: int, code: str, detail: str, *, field: str | None = None, errors: Any = None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": f"urn:berth:error:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if field:
        body["field"] = field
    if errors:
        body["errors"] = errors
    return {**body, "request_id": current_request_id()}


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """Django REST framework's EXCEPTION_HANDLER. None lets Django answer (a fault of ours: 500, logged)."""
    body = _body(error)
    if body is None:
        return None
    headers = {}
    if isinstance(error, exceptions.APIException):
        headers = {"Allow": ", ".join(context["view"].allowed_methods)} if body["status"] == 405 else {}
        if body["status"] == 401:
            headers["WWW-Authenticate"] = getattr(error, "auth_header", "Session")
    if body["status"] == 503:
        headers["Retry-After"] = RETRY_AFTER_S
    return Response(body, status=body["status"], headers=headers, content_type=CONTENT_TYPE)


def _body(error: Exception) -> dict[str, Any] | None:
    body: dict[str, Any] | None = None
    if isinstance(error, BerthError):
        errors = [{"field": error.field, "code": error.code, "detail": error.message}] if error.field else None
        body = problem(error.status, error.code, error.message, field=error.field, errors=errors)
    elif isinstance(error, Http404):
        body = problem(404, "not_found", "Not found")
    elif isinstance(error, PermissionDenied):
        body = problem(403, "forbidden", "You may not do this")
    elif isinstance(error, exceptions.ValidationError):
        body = _invalid(error)
    elif isinstance(error, exceptions.APIException):
        body = problem(error.status_code, _code(error), str(error.detail))
    elif isinstance(error, DataError):
        log.warning("value_out_of_range", extra={"error": str(error)})
        body = problem(400, "invalid", "A value is outside the range that can be stored")
    elif isinstance(error, DatabaseError | InterfaceError | PoolTimeout):
        log.warning("database_failed", extra={"error": f"{type(error).__name__}: {error}"})
        body = problem(503, "database_unavailable", "The database does not answer; try again in a moment")
    return body


def _code(error: exceptions.APIException) -> str:
    code = error.get_codes()
    return {"parse_error": "bad_json", "permission_denied": "forbidden"}.get(str(code), str(code))


def _invalid(error: exceptions.ValidationError) -> dict[str, Any]:
    errors = list(_flatten(error.detail, ""))
    first = errors[0]
    where = f"{first['field']}: " if first["field"] else ""
    return problem(400, "invalid", f"{where}{first['detail']}", field=first["field"] or None, errors=errors)


def _flatten(detail: Any, path: str) -> Iterator[dict[str, str]]:
    """``{"a": [{"b": ["x"]}]}`` as field ``a.0.b``. Errors of the whole object have an empty field."""
    if isinstance(detail, dict):
        for name, inner in detail.items():
            step = "" if name == "non_field_errors" else str(name)
            yield from _flatten(inner, f"{path}.{step}".strip("."))
    elif isinstance(detail, list):
        for number, inner in enumerate(detail):
            nested = isinstance(inner, dict | list)
            yield from _flatten(inner, f"{path}.{number}" if nested else path)
    else:
        yield {"field": path, "code": getattr(detail, "code", "invalid"), "detail": str(detail)}


def respond(status: int, code: str, detail: str, **headers: str) -> JsonResponse:
    """A problem from outside a REST view."""
    answer = respond_with(status, code, detail, {})
    for name, value in headers.items():
        answer[name.replace("_", "-")] = value
    return answer


def respond_with(status: int, code: str, detail: str, more: dict[str, Any]) -> JsonResponse:
    """As ``respond``, with members of its own."""
    return JsonResponse({**problem(status, code, detail), **more}, status=status, content_type=CONTENT_TYPE)


def unknown_route(request: HttpRequest, exception: Exception | None = None, **kwargs: Any) -> HttpResponse:
    return respond(404, "not_found", f"There is no {request.path}")


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """What Django turns down before any view: a Host that is not ours, a path or header that cannot be."""
    return respond(400, "bad_request", "The request cannot be answered as it is; see its Host and path")


def server_error(request: HttpRequest) -> HttpResponse:
    return respond(500, "internal", "Something broke on our side; the log has the request id")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return respond(403, "csrf", f"{reason} Send the csrftoken cookie's value as X-CSRFToken".strip())
