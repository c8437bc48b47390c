"""Sessions in the database (Django's SESSION_ENGINE), with whose they are, from where, and when they were last used.

The cookie may live for ``SESSION_COOKIE_AGE``; how long a session lasts without use is the option ``session_days``,
kept in the row. A row that is gone is a session that ended: every request and every websocket looks. The row's key is a
digest of the cookie: who reads the table signs in as nobody.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from berth.options.selectors import get as option
from berth.tenants.models import UserSession

SEEN_EVERY = timedelta(minutes=1)
# Keys of the session's own data, beside Django's.
SINCE, ADDRESS, AGENT, SECOND_FACTOR = "_since", "_address", "_agent", "_second_factor"


class SessionStore(DatabaseStore):
    """``seen_at``: what the row said when it was read."""

    seen_at: datetime | None = None

    @classmethod
    def get_model_class(cls) -> type[UserSession]:
        return UserSession

    def _get_session_from_db(self) -> Any:
        rows = UserSession.objects.filter(session_key=kept(self.session_key or ""), expire_date__gt=timezone.now())
        row = rows.first()
        if row is None:
            self._session_key = None
        self.seen_at = row.last_seen_at if row is not None else None
        return row

    def exists(self, session_key: str) -> bool:
        return super().exists(kept(session_key))

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            super().delete(kept(key))

    def create_model_instance(self, data: dict[str, Any]) -> UserSession:
        now = timezone.now()
        data.setdefault(SINCE, now.isoformat())
        key = self._get_or_create_session_key()  # type: ignore[attr-defined]
        return UserSession(
            session_key=kept(key),
            session_data=self.encode(data),
            expire_date=now + lifetime(),
            id=public_id(key),
            user_id=data.get(SESSION_KEY),
            created_at=datetime.fromisoformat(data[SINCE]),
            last_seen_at=now,
            address=data.get(ADDRESS, ""),
            agent=data.get(AGENT, ""),
        )


def kept(session_key: str) -> str:
    """What the row is found by. A key has 165 random bits, so that one digest is enough."""
    return hashlib.sha256(f"kept:{session_key}".encode("utf-8", "replace")).hexdigest()[:40]


def public_id(session_key: str) -> str:
    """Names a session to its person; the key, which is the cookie, cannot be had from it."""
    digest = hashlib.sha256(f"session:{session_key}".encode()).digest()
    return f"ses_{base64.b32encode(digest)[:26].decode().lower()}"


def lifetime() -> timedelta:
    return timedelta(days=option("session_days"))


class SeenMiddleware:
    """After SessionMiddleware: moves ``last_seen_at`` and the end on, at most once a minute, without a save."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        store, now = request.session, timezone.now()
        seen = getattr(store, "seen_at", None)
        if seen is not None and seen < now - SEEN_EVERY and store.session_key:
            rows = UserSession.objects.filter(session_key=kept(store.session_key))
            rows.update(last_seen_at=now, expire_date=now + lifetime())
        return response


def remember_browser(request: HttpRequest) -> None:
    """Where the session that ``request`` just began is used from."""
    request.session[ADDRESS] = str(request.META.get("REMOTE_ADDR") or "")[:64]
    agent = str(request.META.get("HTTP_USER_AGENT") or "")[:300]
    request.session[AGENT] = "".join(c if c.isprintable() else " " for c in agent)
