"""REST: invitations. Who is invited has no session yet: ``look`` and ``accept`` go by the token alone."""

from __future__ import annotations

from typing import Any

import django_filters
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import TenantFilter, TenantViewSet, person
from berth.config import CONFIG
from berth.core.errors import Conflict, Invalid
from berth.core.scoping import Scope
from berth.tenants import factors, selectors, services
from berth.tenants.api import by, maker
from berth.tenants.invitations import find_invitation
from berth.tenants.mails import mail_invitation
from berth.tenants.me_api import AccountView, me_of
from berth.tenants.models import Invitation, Role, User
from berth.tenants.serializers import (
    AcceptSerializer,
    CreatedInvitationSerializer,
    InvitationLookSerializer,
    InvitationSerializer,
    MemberCreateSerializer,
    MeSerializer,
    TokenSerializer,
)
from berth.tenants.signin import CodeMissing, begin_session, check_code, check_password, require_password_open

STATES = [(state, state) for state in ("open", "expired", "accepted", "revoked")]


class InvitationFilter(TenantFilter):
    state = django_filters.MultipleChoiceFilter(choices=STATES)


class InvitationView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Invitation]):
    """A tenant's invitations, seen and sent by its admins."""

    queryset = Invitation.objects.none()
    serializer_class = InvitationSerializer
    search_fields = ("email",)
    ordering_fields = ("email", "role", "created_at", "expires_at")
    filterset_class = InvitationFilter
    roles = {"resend": Role.ADMIN, "destroy": Role.ADMIN}

    @property
    def scope(self) -> Scope:
        return self.scope_for(None if self.detail else Role.ADMIN)

    def get_queryset(self) -> Any:
        return selectors.invitations(self.scope)

    @extend_schema(request=MemberCreateSerializer, responses={201: CreatedInvitationSerializer})
    def create(self, request: Request) -> Response:
        """The link is told once. It is mailed as well when the platform can send mail."""
        values, user = self.valid(MemberCreateSerializer), person(request)
        tenant = self.tenant_for(values.pop("tenant"), Role.ADMIN)
        rank = by(request, tenant.id)
        made = services.invite(tenant=tenant, actor=self.actor, by=rank, invited_by=maker(user), **values)
        return self._told(*made, status=201)

    @extend_schema(operation_id="invitations_resend", request=None, responses=CreatedInvitationSerializer)
    @action(detail=True, methods=["post"])
    def resend(self, request: Request, id: str) -> Response:
        """A new link and a new term; the link before opens nothing any more."""
        row = self.get_object()
        made = services.resend_invitation(invitation=row, actor=self.actor, by=by(request, row.tenant_id))
        return self._told(*made, status=200)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        """Withdraws it; the row stays as ``revoked``."""
        row = self.get_object()
        services.revoke_invitation(invitation=row, actor=self.actor, by=by(request, row.tenant_id))
        return Response(status=204)

    def _told(self, row: Invitation, token: str, status: int) -> Response:
        row = selectors.invitations(Scope((row.tenant_id,))).get(id=row.id)
        # Behind "#": a browser sends it to no server, so that no log has it.
        base = CONFIG.public_url or self.request.build_absolute_uri("/").rstrip("/")
        url = f"{base}/invitation#{token}"
        body = {"invitation": InvitationSerializer(row).data, "url": url, "mailed": mail_invitation(row, url)}
        return Response(body, status=status)


@method_decorator(csrf_protect, name="dispatch")
class LookView(AccountView):
    """POST, so that the token is in no address."""

    permission_classes = [AllowAny]

    @extend_schema(request=TokenSerializer, responses=InvitationLookSerializer, operation_id="invitations_look")
    def post(self, request: Request) -> Response:
        row = find_invitation(self.valid(TokenSerializer)["token"])
        body = {
            "tenant": row.tenant,
            "email": row.email,
            "role": row.role,
            "invited_by": row.invited_by.email if row.invited_by else None,
            "expires_at": row.expires_at,
            "has_account": selectors.find_user(row.email) is not None,
        }
        return Response(InvitationLookSerializer(body).data)


@method_decorator(csrf_protect, name="dispatch")
class AcceptView(AccountView):
    """Makes the account, or joins the one that has the address, and signs in."""

    permission_classes = [AllowAny]

    @extend_schema(request=AcceptSerializer, responses=MeSerializer, operation_id="invitations_accept")
    def post(self, request: Request) -> Response:
        values = self.valid(AcceptSerializer)
        row = find_invitation(values["token"])
        signed_in = request.user if isinstance(request.user, User) else None
        user = selectors.find_user(row.email)
        if signed_in is not None and signed_in != user:
            message = f"You are signed in as {signed_in.email}, and this invitation is for {row.email}: sign out first"
            raise Conflict(message, code="another_person")
        if signed_in is None:
            require_password_open(user)
        with_factor = False
        if signed_in is None and user is not None:
            with_factor = self._check(request, user, values)
        elif user is None and not values["password"]:
            raise Invalid("Choose a password", field="password", code="required")
        member = services.accept_invitation(
            token=values["token"], user=user, name=values["name"], password=values["password"]
        )
        if signed_in is None:
            begin_session(request._request, member.user, with_factor=with_factor)
        return Response(me_of(member.user))

    def _check(self, request: Request, user: User, values: dict[str, Any]) -> bool:
        """That it is who has the account, as at sign-in. Returns whether a second factor was seen."""
        if not values["password"]:
            raise Invalid(f"{user.email} has an account: enter its password", field="password", code="required")
        check_password(request._request, user.email, values["password"])
        if not factors.has_factor(user):
            return False
        if not values["code"]:
            raise CodeMissing
        check_code(request._request, user, values["code"])
        return True
