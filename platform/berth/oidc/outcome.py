"""From what the provider signed to a session, or to the sign-in page with the reason why not.

verified address --> a person who is active      --> session, or their second factor first
                 '-> open invitations of theirs  --> an account without a password, then the same
"""

from __future__ import annotations

import time
from typing import Any

from django.http import HttpRequest, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from berth.config import CONFIG
from berth.tenants import factors
from berth.tenants.invitations import accept_invitations_of
from berth.tenants.lockout import is_locked
from berth.tenants.models import User
from berth.tenants.selectors import find_user
from berth.tenants.signin import begin_session

PENDING = "oidc_pending"
PENDING_S = 300.0


class Refused(Exception):
    """``code`` is what the sign-in page has a sentence for."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def finish(request: HttpRequest, claims: dict[str, Any], next_url: str) -> HttpResponseRedirect:
    try:
        user = _person(claims)
    except Refused as refused:
        return refuse(refused.code)
    if is_locked(request, user.email):
        return refuse("locked")
    if factors.has_factor(user):
        request.session[PENDING] = {"user": user.id, "at": time.time()}
        return HttpResponseRedirect("/signin?" + urlencode({"step": "code", "next": safe_next(next_url)}))
    begin(request, user, with_factor=False)
    return HttpResponseRedirect(safe_next(next_url))


def begin(request: HttpRequest, user: User, *, with_factor: bool) -> None:
    """Who has an account accepts what is open for its address by signing in, as who has none."""
    accept_invitations_of(email=user.email, user=user)
    begin_session(request, user, with_factor=with_factor, provider=CONFIG.oidc_issuer)


def refuse(code: str) -> HttpResponseRedirect:
    return HttpResponseRedirect("/signin?" + urlencode({"failed": code}))


def pending_user(request: HttpRequest) -> User | None:
    """Whom the provider vouched for a moment ago in this browser, and whose second factor is still to come."""
    held = request.session.get(PENDING)
    if not held or time.time() - held["at"] > PENDING_S:
        return None
    return User.objects.filter(id=held["user"], is_active=True).first()


def safe_next(url: str) -> str:
    """A path of this site, or its root."""
    return url if url.startswith("/") and url_has_allowed_host_and_scheme(url, allowed_hosts=None) else "/"


def _person(claims: dict[str, Any]) -> User:
    """Raises ``Refused``."""
    email = str(claims.get("email") or "").strip().lower()
    if not email or claims.get("email_verified") is not True:
        raise Refused("unverified")
    domains = CONFIG.oidc_email_domains
    if domains and email.rpartition("@")[2] not in domains:
        raise Refused("domain")
    name = str(claims.get("name") or "")[:120]
    # The last look is for who accepted in another tab meanwhile.
    user = find_user(email) or accept_invitations_of(email=email, name=name) or find_user(email)
    if user is None or not user.is_active:
        raise Refused("no_account")
    return user
