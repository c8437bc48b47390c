"""How tenants, people and keys look on the wire."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from berth.tenants.limits import LIMITS
from berth.tenants.models import (
    ApiKey,
    CapacityQuota,
    Invitation,
    KeyScope,
    Membership,
    Role,
    Tenant,
    User,
)
from berth.tenants.services import MAX_QUOTA_BYTES


class UserSerializer(serializers.ModelSerializer[User]):
    class Meta:
        model = User
        fields = ["id", "email", "name", "is_operator"]
        read_only_fields = fields


class TenantRefSerializer(serializers.ModelSerializer[Tenant]):
    class Meta:
        model = Tenant
        fields = ["id", "name", "slug"]
        read_only_fields = fields


class QuotaInSerializer(serializers.ModelSerializer[CapacityQuota]):
    class Meta:
        model = CapacityQuota
        fields = ["guaranteed_bytes", "burst_bytes"]
        read_only_fields = fields


class TenantSerializer(serializers.ModelSerializer[Tenant]):
    """``quota`` or a limit null: none. ``reserved_bytes``: what its running deployments reserve.

    ``admits_uncounted``: whether requests under limits pass while Redis, which counts them, is away; else they are 503.
    """

    quota = QuotaInSerializer(allow_null=True, default=None)
    reserved_bytes = serializers.SerializerMethodField()

    class Meta:
        model = Tenant
        fields = [
            "id", "name", "slug", "weight", *LIMITS, "admits_uncounted", "suspended_at", "created_at", "quota",
            "reserved_bytes",
        ]  # fmt: skip
        read_only_fields = fields

    def get_reserved_bytes(self, tenant: Tenant) -> int:
        return int(self.context["reserved"][tenant.id])


class QuotaSerializer(serializers.Serializer[Any]):
    """Bytes of memory that a tenant's own deployments may reserve; null: no limit."""

    guaranteed_bytes = serializers.IntegerField(allow_null=True)
    burst_bytes = serializers.IntegerField(allow_null=True)
    reserved_bytes = serializers.IntegerField()


class QuotaChangeSerializer(serializers.Serializer[Any]):
    guaranteed_bytes = serializers.IntegerField(min_value=0, max_value=MAX_QUOTA_BYTES)
    burst_bytes = serializers.IntegerField(min_value=0, max_value=MAX_QUOTA_BYTES)


class TenantCreateSerializer(serializers.ModelSerializer[Tenant]):
    slug = serializers.SlugField(max_length=63)

    class Meta:
        model = Tenant
        fields = ["name", "slug", "weight", *LIMITS]


class TenantChangeSerializer(serializers.ModelSerializer[Tenant]):
    suspended = serializers.BooleanField(required=False)
    weight = serializers.IntegerField(required=False, min_value=1, max_value=1000)

    class Meta:
        model = Tenant
        fields = ["name", "weight", "suspended", *LIMITS, "admits_uncounted"]


class MembershipSerializer(serializers.ModelSerializer[Membership]):
    tenant = TenantRefSerializer()

    class Meta:
        model = Membership
        fields = ["tenant", "role"]
        read_only_fields = fields


class MemberSerializer(serializers.ModelSerializer[Membership]):
    user = UserSerializer()
    tenant = serializers.CharField(source="tenant_id")

    class Meta:
        model = Membership
        fields = ["id", "tenant", "user", "role", "created_at"]
        read_only_fields = fields


class MemberCreateSerializer(serializers.Serializer[Membership]):
    tenant = serializers.CharField(max_length=32)
    email = serializers.EmailField(max_length=254)
    role = serializers.ChoiceField(choices=Role.choices)


class MemberChangeSerializer(serializers.Serializer[Membership]):
    role = serializers.ChoiceField(choices=Role.choices)


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    """``state``: open, expired, accepted or revoked."""

    tenant = serializers.CharField(source="tenant_id")
    invited_by = serializers.EmailField(source="invited_by.email", default=None, allow_null=True)
    state = serializers.CharField()

    class Meta:
        model = Invitation
        fields = [
            "id", "tenant", "email", "role", "state", "invited_by", "created_at", "sent_at", "expires_at",
            "accepted_at", "revoked_at",
        ]  # fmt: skip
        read_only_fields = fields


class CreatedInvitationSerializer(serializers.Serializer[Any]):
    """The only time the link is told. ``mailed``: it was also sent to the address."""

    invitation = InvitationSerializer()
    url = serializers.CharField()
    mailed = serializers.BooleanField()


class TokenSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=100)


class InvitationLookSerializer(serializers.Serializer[Any]):
    tenant = TenantRefSerializer()
    email = serializers.EmailField()
    role = serializers.ChoiceField(choices=Role.choices)
    invited_by = serializers.EmailField(allow_null=True)
    expires_at = serializers.DateTimeField()
    has_account = serializers.BooleanField()


class AcceptSerializer(serializers.Serializer[Any]):
    """A new account takes a name and a password; an account that exists its password, unless it is signed in."""

    token = serializers.CharField(max_length=100)
    name = serializers.CharField(max_length=120, required=False, allow_blank=True, default="")
    password = serializers.CharField(
        max_length=1024, required=False, allow_blank=True, default="", trim_whitespace=False, write_only=True
    )
    code = serializers.CharField(max_length=64, required=False, allow_blank=True, default="", write_only=True)


class MeSerializer(serializers.Serializer[User]):
    user = UserSerializer(source="*")
    is_operator = serializers.BooleanField()
    memberships = MembershipSerializer(many=True, source="own_memberships")


class SignInWaysSerializer(serializers.Serializer[Any]):
    """``password`` false: for operators alone. ``provider``: what the single sign-on is called; null: there is none."""

    password = serializers.BooleanField()
    provider = serializers.CharField(allow_null=True)


class SessionSerializer(serializers.Serializer[User]):
    user = UserSerializer(allow_null=True)
    sign_in = SignInWaysSerializer()


class SignInSerializer(serializers.Serializer[User]):
    """``code``: of the authenticator, or a recovery code, when ``mfa_required`` was the answer without one."""

    email = serializers.EmailField(max_length=254)
    password = serializers.CharField(max_length=1024, trim_whitespace=False, write_only=True)
    code = serializers.CharField(max_length=64, required=False, allow_blank=True, default="", write_only=True)


class MeChangeSerializer(serializers.Serializer[User]):
    name = serializers.CharField(max_length=120, allow_blank=True)


class PasswordSerializer(serializers.Serializer[User]):
    current = serializers.CharField(max_length=1024, trim_whitespace=False, write_only=True)
    new = serializers.CharField(max_length=1024, trim_whitespace=False, write_only=True)


class SessionRowSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    created_at = serializers.DateTimeField()
    last_seen_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(source="expire_date")
    address = serializers.CharField()
    agent = serializers.CharField()
    current = serializers.BooleanField()


class FactorSerializer(serializers.Serializer[Any]):
    """``required``: an operator must have one. ``recovery_codes_left``: unused."""

    enabled = serializers.BooleanField()
    required = serializers.BooleanField()  # type: ignore[assignment]
    recovery_codes_left = serializers.IntegerField()


class FactorSecretSerializer(serializers.Serializer[Any]):
    """Told once; ``uri`` is what a QR code holds."""

    secret = serializers.CharField()
    uri = serializers.CharField()


class CodeSerializer(serializers.Serializer[Any]):
    code = serializers.CharField(max_length=64)


class RecoveryCodesSerializer(serializers.Serializer[Any]):
    recovery_codes = serializers.ListField(child=serializers.CharField())


class KeySerializer(serializers.ModelSerializer[ApiKey]):
    """``deployments``: ids it may use, empty for all. ``previous_until``: until when the secret before works.

    A limit null: none. The tenant's hold beside the key's, so the smaller counts.
    """

    tenant = serializers.CharField(source="tenant_id")
    created_by = serializers.EmailField(source="created_by.email", default=None, allow_null=True)
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=KeyScope.choices))
    deployments = serializers.ListField(child=serializers.CharField())

    class Meta:
        model = ApiKey
        fields = [
            "id", "tenant", "name", "hint", "scopes", "deployments", *LIMITS, "created_by", "created_at",
            "expires_at", "revoked_at", "last_used_at", "rotated_at", "previous_until",
        ]  # fmt: skip
        read_only_fields = fields


class KeyCreateSerializer(serializers.ModelSerializer[ApiKey]):
    tenant = serializers.CharField(max_length=32)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=KeyScope.choices), required=False, allow_empty=False, max_length=3
    )
    deployments = serializers.ListField(child=serializers.CharField(max_length=32), required=False, max_length=200)

    class Meta:
        model = ApiKey
        fields = ["tenant", "name", "expires_at", "scopes", "deployments", *LIMITS]


class KeyChangeSerializer(serializers.ModelSerializer[ApiKey]):
    deployments = serializers.ListField(child=serializers.CharField(max_length=32), required=False, max_length=200)

    class Meta:
        model = ApiKey
        fields = ["name", "deployments", "expires_at", *LIMITS]


class KeyRotateSerializer(serializers.Serializer[ApiKey]):
    """For how long the secret before goes on working; 0 ends it now."""

    grace_seconds = serializers.IntegerField(min_value=0, max_value=30 * 86400, default=86400)


class CreatedKeySerializer(serializers.Serializer[ApiKey]):
    """The only time the token is told."""

    key = KeySerializer()
    token = serializers.CharField()


class PlaygroundSerializer(serializers.Serializer[ApiKey]):
    tenant = serializers.CharField(max_length=32)


class PlaygroundTokenSerializer(serializers.Serializer[ApiKey]):
    token = serializers.CharField()
    expires_at = serializers.DateTimeField()
