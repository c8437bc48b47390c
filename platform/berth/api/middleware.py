"""Mints the request id: kept in every log line and every audit event, and returned as ``x-request-id``."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

from berth.core.ids import new_id


class RequestIdMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = new_id("req")
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = self.get_response(request)
        response["x-request-id"] = request_id
        return response
