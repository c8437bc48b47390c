"""Who uses the platform: people and how they sign in, tenants, who belongs to them, and their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.sessions.base_session import AbstractBaseSession
from django.core.validators import MinValueValidator
from django.db import models

from berth.core.budgets import Budgeted
from berth.core.ids import IdFactory
from berth.core.scoping import TenantOwned

if TYPE_CHECKING:
    from berth.tenants.selectors import KeyHolder


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

    # Set where a key acts for its maker; no column.
    holder: KeyHolder | None = None

    objects = UserManager()

    USERNAME_FIELD = "email"

    @property
    def is_staff(self) -> bool:
        return self.is_operator


class UserSession(AbstractBaseSession):
    """A browser that is signed in (``user`` None: a visitor). Deleting the row ends it: ``tenants.sessions``."""

    id = models.CharField(max_length=32, unique=True, editable=False, help_text="derived from the key; tells nothing")
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="sessions")
    created_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    address = models.CharField(max_length=64, blank=True)
    agent = models.CharField(max_length=300, blank=True, help_text="the browser's own name, as it said it")

    class Meta(AbstractBaseSession.Meta):
        abstract = False
        indexes = [models.Index(fields=["expire_date"])]


class SecondFactor(models.Model):
    """A person's TOTP secret (RFC 6238), sealed. Counts from ``confirmed_at`` on, when a first code was right."""

    user = models.OneToOneField(User, primary_key=True, on_delete=models.CASCADE, related_name="second_factor")
    sealed_secret = models.TextField()
    last_step = models.BigIntegerField(default=0, help_text="30-second step of the newest code used: none counts twice")
    created_at = models.DateTimeField(auto_now_add=True)
    confirmed_at = models.DateTimeField(null=True)


class RecoveryCode(models.Model):
    """Stands for a code once. 79 random bits, so that one HMAC is enough, as for keys."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="recovery_codes")
    digest = models.CharField(max_length=64)
    pepper_id = models.CharField(max_length=16)
    used_at = models.DateTimeField(null=True)


def limit_field() -> models.PositiveIntegerField[int | None, int | None]:
    """A limit of requests to ``/v1``; None: no such limit."""
    return models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])


class RateLimited(Budgeted):
    """What its requests to ``/v1`` may take together, whatever the model; a contract's limits hold beside these."""

    requests_per_minute = limit_field()
    tokens_per_minute = limit_field()
    max_concurrency = limit_field()

    class Meta(Budgeted.Meta):
        abstract = True


RATE_LIMITS = ("requests_per_minute", "tokens_per_minute", "max_concurrency")

# Owns what the operators provide (deployments.platform). Its id is fixed, so whoever makes it first makes the same.
PLATFORM_TENANT = "ten_00000000000000000000000000"


class Tenant(RateLimited):
    """A customer: owns keys, deployments, contracts and usage."""

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("ten"), editable=False)
    name = models.CharField(max_length=120)
    slug = models.SlugField(max_length=63, unique=True)
    weight = models.PositiveIntegerField(default=1, help_text="share in every door's queue, relative to other tenants")
    admits_uncounted = models.BooleanField(
        default=True, db_default=True, help_text="requests under limits pass while nothing can count them"
    )
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


class Invitation(TenantOwned):
    """Lets who holds its token, ``ID.SECRET``, join a tenant once. Only HMAC-SHA256(pepper, secret) is kept."""

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("inv"), editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField()
    role = models.CharField(max_length=16, choices=Role.choices)
    digest = models.CharField(max_length=64)
    pepper_id = models.CharField(max_length=16)
    invited_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(help_text="when the token that works now was made")
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "email"],
                condition=models.Q(accepted_at=None, revoked_at=None),
                name="one_open_invitation_an_address",
            )
        ]


class KeyScope(models.TextChoices):
    """What a key opens: ``/v1``; reading ``/api/v1``; reading and changing it."""

    INFERENCE = "inference"
    MANAGEMENT_READ = "management:read"
    MANAGEMENT = "management"


def inference_only() -> list[str]:
    return [str(KeyScope.INFERENCE)]


class ApiKey(TenantOwned, RateLimited):
    """A bearer key, written ``ID.SECRET``. Only HMAC-SHA256(pepper, secret) is kept.

    A rotated key keeps its id: the secret before works as well until ``previous_until``.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("key"), editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=120)
    digest = models.CharField(max_length=64)
    pepper_id = models.CharField(max_length=16)
    hint = models.CharField(max_length=8, help_text="the secret's last four characters, to tell keys apart")
    previous_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    previous_pepper_id = models.CharField(max_length=16, blank=True, default="", db_default="")
    previous_until = models.DateTimeField(null=True, blank=True)
    rotated_at = models.DateTimeField(null=True, blank=True)
    # Defaults of the database as well: the version before, which does not know the columns, makes keys meanwhile.
    scopes = models.JSONField(
        default=inference_only,
        db_default=models.Value(["inference"], models.JSONField()),
        help_text="KeyScope values",
    )
    deployments = models.JSONField(
        default=list,
        db_default=models.Value([], models.JSONField()),
        blank=True,
        help_text="ids it may use; empty: all of its tenant's",
    )
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    playground = models.BooleanField(default=False, help_text="a ten-minute key of the console, not listed")


class CapacityQuota(models.Model):
    """How much memory a tenant's own deployments may reserve; absent means no limit.

    Guaranteed is the tenant's; burst comes on top and is lent.
    """

    tenant = models.OneToOneField(Tenant, primary_key=True, on_delete=models.CASCADE, related_name="quota")
    guaranteed_bytes = models.BigIntegerField(default=0)
    burst_bytes = models.BigIntegerField(default=0)
