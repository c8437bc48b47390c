"""Signing in: password, then the second factor where there is one. What fails counts towards the lock-out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth import authenticate, login
from django.http import HttpRequest, HttpResponse

from berth.api.errors import respond
from berth.audit.services import record
from berth.config import CONFIG
from berth.core.errors import BerthError, Forbidden
from berth.tenants import factors
from berth.tenants.lockout import LockedOut, count_failure, require_not_locked
from berth.tenants.models import User
from berth.tenants.sessions import SECOND_FACTOR, remember_browser

# What an operator without the second factor that is required may still do: set it up, or leave.
OPEN_PATHS = ("/api/v1/session", "/api/v1/me", "/api/v1/me/mfa", "/api/v1/me/mfa/confirm")


class WrongCredentials(BerthError):
    code = "wrong_credentials"
    status = 401


class CodeMissing(BerthError):
    """The password was right; ask for the code and send both."""

    code = "mfa_required"
    status = 401

    def __init__(self) -> None:
        super().__init__("Enter the code of your authenticator, or a recovery code", field="code")


def check_password(request: HttpRequest, email: str, password: str) -> User:
    """Who it is. Raises ``WrongCredentials`` and ``LockedOut``; unknown, inactive and wrong read the same."""
    user = authenticate(request, email=email, password=password)
    if isinstance(user, User):
        return user
    if getattr(request, "axes_locked_out", False):
        raise LockedOut("Too many failed sign-ins")
    raise WrongCredentials("E-mail or password is wrong")


def check_code(request: HttpRequest, user: User, code: str) -> None:
    """Raises ``factors.WrongCode`` and ``LockedOut``. Uses the code up."""
    require_not_locked(request, user.email)
    if not factors.check_code(user=user, code=code):
        count_failure(request, user)
        raise factors.WrongCode


def sign_in(*, request: HttpRequest, email: str, password: str, code: str = "") -> User:
    """Begins a session on ``request``."""
    user = check_password(request, email, password)
    require_password_open(user)
    with_factor = factors.has_factor(user)
    if with_factor:
        if not code:
            raise CodeMissing
        check_code(request, user, code)
    begin_session(request, user, with_factor=with_factor)
    return user


def require_password_open(user: User | None) -> None:
    """BERTH_PASSWORD_SIGNIN closes it to all but operators, who keep a way in while the provider is away."""
    if not CONFIG.password_signin and not (user is not None and user.is_operator):
        raise Forbidden(f"Passwords are closed here; sign in with {CONFIG.oidc_label}", code="password_closed")


def begin_session(request: HttpRequest, user: User, *, with_factor: bool, provider: str = "") -> None:
    """``provider``: who vouched for the person, where no password did."""
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    remember_browser(request)
    request.session[SECOND_FACTOR] = with_factor
    address = request.META.get("REMOTE_ADDR")
    after = {"address": address, "mfa": with_factor} | ({"provider": provider} if provider else {})
    record(actor=user.email, action="session.create", obj=user, after=after)


def lacks_second_factor(user: User, session: Any) -> bool:
    """Whether this session must set up a second factor before it may do anything else."""
    return user.is_operator and not session.get(SECOND_FACTOR) and factors.is_required(user)


class SecondFactorMiddleware:
    """After AuthenticationMiddleware: holds operators to the option ``require_operator_mfa`` on the REST API."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/api/") and request.path not in OPEN_PATHS:
            user = request.user
            if isinstance(user, User) and lacks_second_factor(user, request.session):
                detail = "Operators need a second factor here; set one up under your account"
                return respond(403, "mfa_setup_required", detail)
        return self.get_response(request)
