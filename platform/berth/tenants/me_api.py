"""REST: one's own account: name, password, sessions, second factor. With the session cookie only, never with a key."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import update_session_auth_hash
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from berth.api.query import KnownQuery
from berth.api.views import person
from berth.core.errors import Invalid, NotFound
from berth.tenants import factors, services
from berth.tenants.models import User
from berth.tenants.selectors import memberships_of, sessions_of
from berth.tenants.serializers import (
    CodeSerializer,
    FactorSecretSerializer,
    FactorSerializer,
    MeChangeSerializer,
    MeSerializer,
    PasswordSerializer,
    RecoveryCodesSerializer,
    SessionRowSerializer,
)
from berth.tenants.sessions import SECOND_FACTOR, public_id
from berth.tenants.signin import WrongCredentials, check_code, check_password


class AccountView(KnownQuery):
    def valid(self, serializer_class: type[BaseSerializer[Any]]) -> dict[str, Any]:
        serializer = serializer_class(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values


class MeView(AccountView):
    @extend_schema(responses=MeSerializer, operation_id="me_retrieve")
    def get(self, request: Request) -> Response:
        return Response(me_of(person(request)))

    @extend_schema(request=MeChangeSerializer, responses=MeSerializer, operation_id="me_partial_update")
    def patch(self, request: Request) -> Response:
        user = person(request)
        return Response(me_of(services.change_user(user=user, actor=user.email, **self.valid(MeChangeSerializer))))


class PasswordView(AccountView):
    @extend_schema(request=PasswordSerializer, responses={204: None}, operation_id="me_password_create")
    def post(self, request: Request) -> Response:
        """Ends every other session. A wrong ``current`` counts as a failed sign-in."""
        values, user = self.valid(PasswordSerializer), person(request)
        try:
            check_password(request._request, user.email, values["current"])
        except WrongCredentials as error:
            raise Invalid("This is not your present password", field="current", code="wrong_password") from error
        key = request.session.session_key or ""
        try:
            services.set_password(user=user, password=values["new"], actor=user.email, keep_session=key)
        except Invalid as error:
            raise Invalid(error.message, field="new") from error
        update_session_auth_hash(request._request, user)
        return Response(status=204)


class SessionsView(AccountView):
    @extend_schema(responses=SessionRowSerializer(many=True), operation_id="me_sessions_list")
    def get(self, request: Request) -> Response:
        """The browsers that are signed in as you, the one used last first."""
        rows = list(sessions_of(person(request))[:200])
        current = public_id(request.session.session_key or "")
        for row in rows:
            row.current = row.id == current  # type: ignore[attr-defined]
        return Response(SessionRowSerializer(rows, many=True).data)

    @extend_schema(responses={204: None}, operation_id="me_sessions_destroy_others")
    def delete(self, request: Request) -> Response:
        """Ends all but this one."""
        user = person(request)
        services.end_sessions(user=user, actor=user.email, keep_session=request.session.session_key or "")
        return Response(status=204)


class OneSessionView(AccountView):
    @extend_schema(responses={204: None}, operation_id="me_sessions_destroy")
    def delete(self, request: Request, id: str) -> Response:
        """It stops working at once, and its live connection closes."""
        user = person(request)
        row = sessions_of(user).filter(id=id).first()
        if row is None:
            raise NotFound("There is no such session; it may have ended")
        services.end_session(session=row, actor=user.email)
        return Response(status=204)


class FactorView(AccountView):
    @extend_schema(responses=FactorSerializer, operation_id="me_mfa_retrieve")
    def get(self, request: Request) -> Response:
        return Response(_factor(person(request)))

    @extend_schema(request=None, responses={201: FactorSecretSerializer}, operation_id="me_mfa_create")
    def post(self, request: Request) -> Response:
        """A new secret for an authenticator; it counts once ``me/mfa/confirm`` has seen a code of it."""
        user = person(request)
        secret, uri = services.begin_factor(user=user, actor=user.email)
        return Response({"secret": secret, "uri": uri}, status=201)

    @extend_schema(request=CodeSerializer, responses={204: None}, operation_id="me_mfa_destroy")
    def delete(self, request: Request) -> Response:
        """Takes a code in the body. An operator who must have a second factor sets up another one next."""
        user = person(request)
        check_code(request._request, user, self.valid(CodeSerializer)["code"])
        services.disable_factor(user=user, actor=user.email)
        request.session[SECOND_FACTOR] = False
        return Response(status=204)


class ConfirmFactorView(AccountView):
    @extend_schema(request=CodeSerializer, responses=RecoveryCodesSerializer, operation_id="me_mfa_confirm")
    def post(self, request: Request) -> Response:
        """Switches the second factor on, ends every other session and tells the recovery codes, once."""
        user = person(request)
        code = self.valid(CodeSerializer)["code"]
        codes = services.confirm_factor(user=user, code=code, actor=user.email)
        services.end_sessions(user=user, actor=user.email, keep_session=request.session.session_key or "")
        request.session[SECOND_FACTOR] = True
        return Response({"recovery_codes": codes})


class RecoveryCodesView(AccountView):
    @extend_schema(request=CodeSerializer, responses=RecoveryCodesSerializer, operation_id="me_mfa_recovery_codes")
    def post(self, request: Request) -> Response:
        """Ten new recovery codes; those before are void."""
        user = person(request)
        check_code(request._request, user, self.valid(CodeSerializer)["code"])
        return Response({"recovery_codes": services.renew_recovery_codes(user=user, actor=user.email)})


def me_of(user: User) -> Any:
    user.own_memberships = list(memberships_of(user))  # type: ignore[attr-defined]
    return MeSerializer(user).data


def _factor(user: User) -> dict[str, Any]:
    enabled = factors.has_factor(user)
    left = factors.codes_left(user) if enabled else 0
    return {"enabled": enabled, "required": factors.is_required(user), "recovery_codes_left": left}
