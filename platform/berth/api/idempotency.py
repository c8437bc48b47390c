"""``Idempotency-Key`` on POST: a caller that heard no answer asks again, and what it asked for happens once.

The first request's row is inserted before its work and in the same transaction, so that a second one with the same
key waits on the unique index until the first has committed (and then gets its answer) or has failed (and then does
the work). Only answers that changed something are kept: an error is worked out again. Source of the header:
draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import OperationalError, connection
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.models import FirstAnswer
from berth.core.errors import Conflict, Invalid
from berth.core.sealing import Unsealable, seal, unseal
from berth.core.secrets import hmac_hex, rotating

HEADER = "Idempotency-Key"
KEPT = timedelta(hours=24)
KEYS = "answer_keys"
PATIENCE_S = 10
_SWEPT_AT_ONCE = 20
_SHAPE = re.compile(r"[\x21-\x7e]{1,200}")


def once(request: Request, key: str, work: Callable[[], Response]) -> Response:
    """``work``'s answer, or the one it gave before. Call inside a transaction.

    Raises ``Invalid`` for a key of another shape; ``Conflict`` when it came with another request, or while the first
    is still at work after ``PATIENCE_S``.
    """
    if not request.user.is_authenticated:
        return work()  # strangers share no memory
    if not _SHAPE.fullmatch(key):
        raise Invalid(f"{HEADER}: 1 to 200 printable ASCII characters without spaces", code="bad_idempotency_key")
    fingerprint = _fingerprint(request)
    row, is_first = _claim(_caller(request), key, fingerprint)
    if not is_first:
        return _replay(row, fingerprint)
    response = work()
    if response.status_code < 400:
        row.status = response.status_code
        row.sealed = seal(KEYS, JSONRenderer().render({"body": response.data}).decode())
        row.save(update_fields=["status", "sealed"])
    else:
        row.delete()
    return response


def _claim(caller: str, key: str, fingerprint: str) -> tuple[FirstAnswer, bool]:
    """The key's row, and whether this request made it. Forgets a few of the rows that are too old."""
    old = FirstAnswer.objects.filter(created_at__lt=timezone.now() - KEPT)
    old.filter(caller=caller, key=key).delete()
    FirstAnswer.objects.filter(id__in=old.select_for_update(skip_locked=True).values("id")[:_SWEPT_AT_ONCE]).delete()
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{PATIENCE_S}s'")
        try:
            cursor.execute(
                "INSERT INTO api_firstanswer (caller, key, fingerprint, status, sealed, created_at)"
                " VALUES (%s, %s, %s, 0, '', %s) ON CONFLICT (caller, key) DO NOTHING RETURNING id",
                [caller, key, fingerprint, timezone.now()],
            )
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", "") != "55P03":  # lock_not_available
                raise
            busy = f"The first request with this {HEADER} is still at work; ask again in a moment"
            raise Conflict(busy, code="idempotency_in_progress") from error
        made = cursor.fetchone()
        cursor.execute("SET LOCAL lock_timeout = DEFAULT")
    return FirstAnswer.objects.get(caller=caller, key=key), made is not None


def _replay(row: FirstAnswer, fingerprint: str) -> Response:
    if row.fingerprint != fingerprint:
        detail = f"This {HEADER} was used for another request; take a new one"
        raise Conflict(detail, code="idempotency_key_reused")
    try:
        body: Any = json.loads(unseal(KEYS, row.sealed))["body"]
    except Unsealable as error:
        raise Conflict("The first answer can no longer be read; it was given", code="answer_lost") from error
    return Response(body, status=row.status, headers={"Idempotency-Replayed": "true"})


def _caller(request: Request) -> str:
    return request.auth.id if hasattr(request.auth, "id") else str(request.user.pk)


def _fingerprint(request: Request) -> str:
    """Of the request's meaning: the body as it was read, whatever its spaces."""
    body = json.dumps(request.data, sort_keys=True)
    secret = next(reversed(rotating(KEYS).values()))  # the oldest, so that adding a key on top forgets no request
    return hmac_hex(secret, f"{request.method} {request.get_full_path()}\n{body}")
