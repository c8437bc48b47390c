"""What every view's writes share: If-Match, and Idempotency-Key on POST. Without these headers nothing changes.

With one of them the whole request is one transaction, which an error rolls back.
"""

from __future__ import annotations

import functools
from typing import Any

from django.db import models, transaction
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api import idempotency
from berth.api.concurrency import require_match, tag_of
from berth.api.query import KnownQuery
from berth.core.errors import Invalid

SAFE = ("GET", "HEAD", "OPTIONS")


class CarefulWrites(KnownQuery):
    """Mixin before any REST view. Where a failure is remembered (a wrong code counted), set ``careful`` False."""

    careful = True
    _is_atomic = False
    _tag_checked = False

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        asked = request.method not in SAFE and self.careful
        if not asked or not ("If-Match" in request.headers or idempotency.HEADER in request.headers):
            return super().dispatch(request, *args, **kwargs)
        with transaction.atomic():
            self._is_atomic = True
            return super().dispatch(request, *args, **kwargs)

    def handle_exception(self, exc: Exception) -> Response:
        if self._is_atomic:
            transaction.set_rollback(True)
        return super().handle_exception(exc)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        method = str(request.method).lower()
        handler = getattr(self, method, None)
        if self._is_atomic and handler is not None:
            setattr(self, method, functools.partial(self._carefully, handler))

    def _carefully(self, handler: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        work = functools.partial(handler, request, *args, **kwargs)
        key = request.headers.get(idempotency.HEADER)
        response = idempotency.once(request, key, work) if key is not None and request.method == "POST" else work()
        if self.asked_tag and not self._tag_checked and "Idempotency-Replayed" not in response.headers:
            raise Invalid("If-Match means nothing here: there is no single object", code="no_tag")
        return response

    @property
    def asked_tag(self) -> str | None:
        """The request's If-Match."""
        return None if self.request.method in SAFE else self.request.headers.get("If-Match")

    def etag_of(self, row: models.Model) -> str:
        """The entity tag of the view's object. Override where the resource holds more than its row's columns."""
        return tag_of(row)

    def check_tag(self, row: models.Model) -> None:
        """Called by ``BerthViewSet.get_object``; a view that finds its object itself locks the row, then calls it.

        Raises ``Stale`` when If-Match names another version.
        """
        if self.asked_tag:
            require_match(self.asked_tag, self.etag_of(row))
            self._tag_checked = True
