"""Pages by cursor on ids, which sort by time: newest first, stable while rows arrive."""

from __future__ import annotations

from rest_framework.pagination import CursorPagination


class IdCursorPagination(CursorPagination):
    page_size = 50
    max_page_size = 200
    page_size_query_param = "page_size"
    ordering = "-id"


class RequestCursorPagination(IdCursorPagination):
    """Usage records: their id is the request's."""

    ordering = "-request_id"
