"""Who is asking: the session cookie, with CSRF. Keys of ``/v1`` open nothing here."""

from __future__ import annotations

from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request


class Session(SessionAuthentication):
    """Names a scheme, so that a request without a session is 401 and not 403."""

    def authenticate_header(self, request: Request) -> str:
        return "Session"
