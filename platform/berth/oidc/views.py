"""The three addresses of the provider's sign-in. They are no part of ``/api/v1``: where it is off, none exists."""

from __future__ import annotations

import logging

from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_GET
from drf_spectacular.utils import extend_schema
from requests import RequestException
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from berth.config import CONFIG
from berth.core.errors import BerthError
from berth.oidc.outcome import PENDING, begin, pending_user, refuse, safe_next
from berth.oidc.protocol import Client
from berth.tenants.me_api import AccountView, me_of
from berth.tenants.serializers import CodeSerializer
from berth.tenants.signin import check_code

log = logging.getLogger(__name__)
# A provider that is away, or says what none should: what a wrong discovery document leads to is no fault of ours.
FAILURES = (OAuth2Error, RequestException, KeyError, ValueError, TypeError, AttributeError)

_callback = OAuth2CallbackView.adapter_view(Client)


class ProviderAway(BerthError):
    code = "provider_unavailable"
    status = 502


class PendingGone(BerthError):
    code = "sign_in_expired"
    status = 401


class StartSerializer(serializers.Serializer[None]):
    next = serializers.CharField(max_length=2000, required=False, default="/")


@method_decorator(csrf_protect, name="dispatch")
@extend_schema(exclude=True)
class StartView(AccountView):
    permission_classes = [AllowAny]

    def post(self, request: Request) -> Response:
        """``{"url"}``: where the browser signs in. A script follows it, as a form may lead to this site alone."""
        next_url = safe_next(self.valid(StartSerializer)["next"])
        try:
            url = Client(request._request).get_provider().address(request._request, next_url)
        except FAILURES as error:
            log.warning("oidc_not_started", extra={"error": f"{type(error).__name__}: {error}"[:300]})
            raise ProviderAway(f"{CONFIG.oidc_label} does not answer; try again in a moment") from error
        return Response({"url": url})


@require_GET
def callback(request: HttpRequest) -> HttpResponseBase:
    """Always leads somewhere: into the console, or to the sign-in page with a reason."""
    try:
        return _callback(request)
    except FAILURES as error:
        log.warning("oidc_failed", extra={"error": f"{type(error).__name__}: {error}"[:300]})
        return refuse("provider")


@method_decorator(csrf_protect, name="dispatch")
@extend_schema(exclude=True)
class CodeView(AccountView):
    permission_classes = [AllowAny]

    def post(self, request: Request) -> Response:
        """The second factor of whom the provider vouched for. Wrong ones count towards the lock-out."""
        code = self.valid(CodeSerializer)["code"]
        user = pending_user(request._request)
        if user is None:
            raise PendingGone("This took too long; sign in again")
        check_code(request._request, user, code)
        del request.session[PENDING]
        begin(request._request, user, with_factor=True)
        return Response(me_of(user))
