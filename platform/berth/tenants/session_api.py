"""REST: signing in and out, and who one is."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import authenticate, login, logout
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect, ensure_csrf_cookie
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from berth.api.views import person
from berth.audit.services import record
from berth.core.errors import BerthError
from berth.tenants.models import User
from berth.tenants.selectors import memberships_of
from berth.tenants.serializers import MeSerializer, SessionSerializer, SignInSerializer, UserSerializer


class WrongCredentials(BerthError):
    code = "wrong_credentials"
    status = 401


@method_decorator(csrf_protect, name="dispatch")
class SessionView(APIView):
    """The session cookie. Signing in is checked for CSRF as well: nobody is signed in as someone else unawares."""

    permission_classes = [AllowAny]

    @extend_schema(responses=SessionSerializer, operation_id="session_retrieve")
    @method_decorator(ensure_csrf_cookie)
    def get(self, request: Request) -> Response:
        user = request.user if request.user.is_authenticated else None
        return Response({"user": UserSerializer(user).data if user else None})

    @extend_schema(request=SignInSerializer, responses=MeSerializer, operation_id="session_create")
    def post(self, request: Request) -> Response:
        serializer = SignInSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        email = serializer.validated_data["email"].lower()
        user = authenticate(request._request, email=email, password=serializer.validated_data["password"])
        if user is None:
            raise WrongCredentials("E-mail or password is wrong")
        login(request._request, user)
        record(actor=email, action="session.create", obj=user)
        return Response(_me(user))

    @extend_schema(request=None, responses={204: None}, operation_id="session_destroy")
    def delete(self, request: Request) -> Response:
        logout(request._request)
        return Response(status=204)


class MeView(APIView):
    @extend_schema(responses=MeSerializer, operation_id="me_retrieve")
    def get(self, request: Request) -> Response:
        return Response(_me(person(request)))


def _me(user: User) -> Any:
    user.own_memberships = list(memberships_of(user))  # type: ignore[attr-defined]
    return MeSerializer(user).data
