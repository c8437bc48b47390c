"""Pages by cursor on ids, which sort by time: newest first, stable while rows arrive."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request


class IdCursorPagination(CursorPagination):
    page_size = 50
    max_page_size = 200
    page_size_query_param = "page_size"
    ordering = "-id"

    def decode_cursor(self, request: Request) -> Any:
        cursor = super().decode_cursor(request)
        if cursor is not None and "\0" in str(cursor.position):  # PostgreSQL takes no NUL, not even to find nothing
            raise NotFound(self.invalid_cursor_message)
        return cursor


class RequestCursorPagination(IdCursorPagination):
    """Usage records: their id is the request's."""

    ordering = "-request_id"
