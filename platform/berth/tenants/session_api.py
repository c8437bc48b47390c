"""REST: signing in and out, and who one is."""

from __future__ import annotations

from django.contrib.auth import logout
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect, ensure_csrf_cookie
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.query import KnownQuery
from berth.audit.services import record
from berth.config import CONFIG
from berth.core.notify import session_ended
from berth.tenants.me_api import me_of
from berth.tenants.models import User
from berth.tenants.serializers import MeSerializer, SessionSerializer, SignInSerializer, UserSerializer
from berth.tenants.sessions import public_id
from berth.tenants.signin import sign_in


@method_decorator(csrf_protect, name="dispatch")
class SessionView(KnownQuery):
    """The session cookie. Signing in is checked for CSRF as well: nobody is signed in as someone else unawares."""

    permission_classes = [AllowAny]

    @extend_schema(responses=SessionSerializer, operation_id="session_retrieve")
    @method_decorator(ensure_csrf_cookie)
    def get(self, request: Request) -> Response:
        user = request.user if request.user.is_authenticated else None
        ways = {"password": CONFIG.password_signin, "provider": CONFIG.oidc_label if CONFIG.oidc_issuer else None}
        return Response({"user": UserSerializer(user).data if user else None, "sign_in": ways})

    @extend_schema(request=SignInSerializer, responses=MeSerializer, operation_id="session_create")
    def post(self, request: Request) -> Response:
        serializer = SignInSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        user = sign_in(
            request=request._request,
            email=values["email"].lower(),
            password=values["password"],
            code=values["code"],
        )
        return Response(me_of(user))

    @extend_schema(request=None, responses={204: None}, operation_id="session_destroy")
    def delete(self, request: Request) -> Response:
        if isinstance(request.user, User):
            record(actor=request.user.email, action="session.destroy", obj=request.user)
            session_ended(public_id(request.session.session_key or ""))
        logout(request._request)
        return Response(status=204)
