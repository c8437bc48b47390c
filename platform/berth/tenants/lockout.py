"""Lock-out after failed sign-ins, by django-axes: one person from one address, for a while, by the options.

A password, a code and a recovery code count alike, wherever they are asked for.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from axes.utils import reset
from django.contrib.auth.signals import user_login_failed
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from berth.api.errors import respond_with
from berth.core.errors import BerthError
from berth.options.selectors import get as option
from berth.tenants.models import User


class LockedOut(BerthError):
    """Replaced on its way out by ``respond_locked_out``, which knows for how long."""

    code = "locked_out"
    status = 429


def failure_limit(request: HttpRequest, credentials: Any = None) -> int:
    """AXES_FAILURE_LIMIT."""
    return int(option("lockout_attempts"))


def cool_off(request: HttpRequest | None = None) -> timedelta:
    """AXES_COOLOFF_TIME."""
    return timedelta(minutes=option("lockout_minutes"))


def respond_locked_out(
    request: HttpRequest, response: HttpResponse | None = None, credentials: Any = None
) -> HttpResponse:
    """AXES_LOCKOUT_CALLABLE."""
    wait_s = _wait_s(request, credentials or {})
    minutes = math.ceil(wait_s / 60)
    detail = f"Too many failed sign-ins; try again in {minutes} {'minute' if minutes == 1 else 'minutes'}"
    answer = respond_with(429, "locked_out", detail, {"retry_after": wait_s})
    answer["Retry-After"] = str(wait_s)
    return answer


def count_failure(request: HttpRequest, user: User) -> None:
    """A wrong code of a person who is known otherwise. Raises ``LockedOut`` when it was one too many."""
    user_login_failed.send(sender=__name__, credentials={"email": user.email}, request=request)
    if getattr(request, "axes_locked_out", False):
        raise LockedOut("Too many failed sign-ins")


def is_locked(request: HttpRequest, email: str) -> bool:
    return not AxesProxyHandler.is_allowed(request, {"email": email})


def require_not_locked(request: HttpRequest, email: str) -> None:
    if is_locked(request, email):
        request.axes_locked_out, request.axes_credentials = True, {"email": email}  # type: ignore[attr-defined]
        raise LockedOut("Too many failed sign-ins")


def clear_lockout(email: str) -> None:
    reset(username=email)


def _wait_s(request: HttpRequest, credentials: Any) -> int:
    """Until the newest failure of this person from this address is old enough; at least a second."""
    attempts = AccessAttempt.objects.filter(
        username=credentials.get("email") or credentials.get("username"),
        ip_address=getattr(request, "axes_ip_address", None),
    )
    newest = attempts.aggregate(newest=Max("attempt_time"))["newest"] or timezone.now()
    return max(1, math.ceil((newest + cool_off() - timezone.now()).total_seconds()))
