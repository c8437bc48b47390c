"""How tenants, people and keys look on the wire."""

from __future__ import annotations

from rest_framework import serializers

from berth.tenants.models import ApiKey, Membership, Tenant, User


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


class TenantSerializer(serializers.ModelSerializer[Tenant]):
    class Meta:
        model = Tenant
        fields = ["id", "name", "slug", "weight", "suspended_at", "created_at"]
        read_only_fields = fields


class TenantCreateSerializer(serializers.ModelSerializer[Tenant]):
    slug = serializers.SlugField(max_length=63)

    class Meta:
        model = Tenant
        fields = ["name", "slug", "weight"]


class TenantChangeSerializer(serializers.ModelSerializer[Tenant]):
    suspended = serializers.BooleanField(required=False)
    weight = serializers.IntegerField(required=False, min_value=1, max_value=1000)

    class Meta:
        model = Tenant
        fields = ["name", "weight", "suspended"]


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


class MeSerializer(serializers.Serializer[User]):
    user = UserSerializer(source="*")
    is_operator = serializers.BooleanField()
    memberships = MembershipSerializer(many=True, source="own_memberships")


class SessionSerializer(serializers.Serializer[User]):
    user = UserSerializer(allow_null=True)


class SignInSerializer(serializers.Serializer[User]):
    email = serializers.EmailField(max_length=254)
    password = serializers.CharField(max_length=1024, trim_whitespace=False, write_only=True)


class KeySerializer(serializers.ModelSerializer[ApiKey]):
    tenant = serializers.CharField(source="tenant_id")
    created_by = serializers.EmailField(source="created_by.email", default=None, allow_null=True)

    class Meta:
        model = ApiKey
        fields = [
            "id", "tenant", "name", "hint", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at",
        ]  # fmt: skip
        read_only_fields = fields


class KeyCreateSerializer(serializers.ModelSerializer[ApiKey]):
    tenant = serializers.CharField(max_length=32)

    class Meta:
        model = ApiKey
        fields = ["tenant", "name", "expires_at"]


class CreatedKeySerializer(serializers.Serializer[ApiKey]):
    """The only time the token is told."""

    key = KeySerializer()
    token = serializers.CharField()


class PlaygroundSerializer(serializers.Serializer[ApiKey]):
    tenant = serializers.CharField(max_length=32)


class PlaygroundTokenSerializer(serializers.Serializer[ApiKey]):
    token = serializers.CharField()
    expires_at = serializers.DateTimeField()
