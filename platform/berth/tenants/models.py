"""Who uses the platform: people, tenants, their membership and their keys."""

from __future__ import annotations

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models

from berth.core.ids import IdFactory
from berth.core.scoping import TenantOwned


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email__iexact=username)


class User(AbstractBaseUser):
    """A person who signs in. An operator runs the platform; everyone else acts through memberships."""

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("usr"), editable=False)
    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_operator = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = UserManager()

    USERNAME_FIELD = "email"

    @property
    def is_staff(self) -> bool:
        return self.is_operator


class Tenant(models.Model):
    """A customer: owns keys, deployments, contracts and usage."""

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("ten"), editable=False)
    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=63, unique=True)
    weight = models.PositiveIntegerField(default=1, help_text="share in every door's queue, relative to other tenants")
    suspended_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)


class Role(models.TextChoices):
    OWNER = "owner"
    ADMIN = "admin"
    DEVELOPER = "developer"
    VIEWER = "viewer"


class Membership(TenantOwned):
    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("mem"), editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantOwned.Meta):
        constraints = [models.UniqueConstraint(fields=["tenant", "user"], name="one_membership_a_person")]


class ApiKey(TenantOwned):
    """A bearer key of ``/v1``, written ``ID.SECRET``. Only HMAC-SHA256(pepper, secret) is kept."""

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("key"), editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=120)
    digest = models.CharField(max_length=64)
    pepper_id = models.CharField(max_length=16)
    hint = models.CharField(max_length=8, help_text="the secret's last four characters, to tell keys apart")
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    playground = models.BooleanField(default=False, help_text="a ten-minute key of the console, not listed")


class CapacityQuota(models.Model):
    """How much memory a tenant's own deployments may reserve; absent means no limit."""

    tenant = models.OneToOneField(Tenant, primary_key=True, on_delete=models.CASCADE, related_name="quota")
    guaranteed_bytes = models.BigIntegerField(default=0)
    burst_bytes = models.BigIntegerField(default=0)
