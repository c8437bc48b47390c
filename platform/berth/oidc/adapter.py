"""Where allauth hands over: the identity is checked, the outcome is ours."""

from __future__ import annotations

import logging
from typing import Any

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError
from django.http import HttpRequest

from berth.oidc.outcome import finish, refuse
from berth.oidc.protocol import Identity, check_nonce

log = logging.getLogger(__name__)


class Adapter(DefaultSocialAccountAdapter):
    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Always raises: allauth has nothing left to do."""
        assert isinstance(sociallogin, Identity)
        check_nonce(sociallogin)
        raise ImmediateHttpResponse(finish(request, sociallogin.claims, str(sociallogin.state.get("next") or "/")))

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, extra_context: Any = None
    ) -> None:
        log.warning("oidc_failed", extra={"error": str(exception or error)[:300]})
        raise ImmediateHttpResponse(refuse("cancelled" if error == AuthError.CANCELLED else "provider"))

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return False
