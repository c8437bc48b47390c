"""What is promised: service classes (templates) and contracts (one tenant, one deployment)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from berth.core.budgets import Budgeted
from berth.core.ids import IdFactory
from berth.core.scoping import TenantOwned
from gpuruntime.goodput import ServiceLevel

LEVEL_FIELDS = (
    "base_ms", "free_prompt_tokens", "prefill_tokens_per_s", "tpot_ms", "fluidity_floor", "attainment_target", "e2e_ms",
)  # fmt: skip
PRICE_FIELDS = ("price_input", "price_cached", "price_output")
TERM_FIELDS = (*LEVEL_FIELDS, "stretch_tpot_ms", *PRICE_FIELDS, "isolation")


def level_of(terms: Mapping[str, Any]) -> ServiceLevel:
    return ServiceLevel(**{name: terms[name] for name in LEVEL_FIELDS})


def price_field() -> models.DecimalField[Decimal, Decimal]:
    """A price of a million tokens, in the platform's currency, to four decimals."""
    zero = Decimal(0)
    return models.DecimalField(
        max_digits=12, decimal_places=4, default=zero, db_default=zero, validators=[MinValueValidator(0)]
    )


class Isolation(models.TextChoices):
    """What a replica shares with others at most; each rung has all that stand above it here (docs/fleet.md)."""

    TIME_SLICE = "time-slice", "time-slices: memory is bounded, time is shared with the same tenant"
    MPS = "mps", "MPS: SMs and memory are bounded, faults are shared with the same tenant"
    MIG = "mig", "MIG: an instance of its own"
    WHOLE = "whole", "a whole GPU"


class WhenLate(models.TextChoices):
    """What becomes of a request whose first token is predicted to come after its deadline."""

    QUEUE = "queue", "it waits all the same"
    DEGRADE = "degrade", "it is served without its deadline, behind those that can be on time"
    REFUSE = "refuse", "it is refused at once, with the predicted wait"


class ServiceClass(models.Model):
    """A named service level (docs/goodput.md) and its prices. An empty limit is a test that always passes."""

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("cls"), editable=False)
    name = models.SlugField(max_length=40, unique=True)
    description = models.CharField(max_length=200, blank=True)
    base_ms = models.PositiveIntegerField(null=True, blank=True)
    free_prompt_tokens = models.PositiveIntegerField(default=0)
    prefill_tokens_per_s = models.PositiveIntegerField(null=True, blank=True)
    tpot_ms = models.PositiveIntegerField(null=True, blank=True)
    stretch_tpot_ms = models.PositiveIntegerField(null=True, blank=True)
    fluidity_floor = models.FloatField(default=0.99)
    attainment_target = models.FloatField(default=0.95)
    e2e_ms = models.PositiveBigIntegerField(null=True, blank=True)
    isolation = models.CharField(
        max_length=16, choices=Isolation.choices, default=Isolation.TIME_SLICE, db_default=Isolation.TIME_SLICE
    )
    price_input = price_field()
    price_cached = price_field()
    price_output = price_field()
    created_at = models.DateTimeField(auto_now_add=True)

    def level(self) -> ServiceLevel:
        return ServiceLevel(**{name: getattr(self, name) for name in LEVEL_FIELDS})

    def terms(self) -> dict[str, Any]:
        """Limits and prices as a contract's version keeps them: JSON, prices as text so that none is rounded."""
        found = {name: getattr(self, name) for name in TERM_FIELDS}
        return found | {name: f"{Decimal(found[name]):.4f}" for name in PRICE_FIELDS}


class Contract(TenantOwned, Budgeted):
    """One version of what a tenant was promised on a deployment, in force from ``valid_from`` to ``valid_until``.

    A change ends this version and opens the next, a row of its own, now or at a time to come; at most one version is
    in force at a time. ``terms`` is what the class promised when the version was made: the class may change, a version
    never does; ``tiers``, the classes it allows beside its own, are kept likewise (``slas.tiers``). A limit left empty
    does not apply; a burst is what may pass beyond a guaranteed rate while a replica has room. ``weight`` multiplies
    the tenant's share in the door's queue. A version that was replaced before it came into force ended, by
    ``valid_until``, before it began.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("con"), editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="contracts")
    deployment = models.ForeignKey("deployments.Deployment", on_delete=models.CASCADE, related_name="contracts")
    service_class = models.ForeignKey(ServiceClass, on_delete=models.PROTECT, related_name="contracts")
    version = models.PositiveIntegerField(default=1)
    terms = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    # The columns keep the names they had before there were bursts: the running version reads them.
    guaranteed_requests_per_min = models.PositiveIntegerField(null=True, blank=True, db_column="requests_per_min")
    guaranteed_tokens_per_min = models.PositiveIntegerField(null=True, blank=True, db_column="tokens_per_min")
    burst_requests_per_min = models.PositiveIntegerField(default=0, db_default=0)
    burst_tokens_per_min = models.PositiveIntegerField(default=0, db_default=0)
    max_concurrency = models.PositiveIntegerField(null=True, blank=True)
    weight = models.PositiveIntegerField(default=1)
    when_late = models.CharField(
        max_length=8, choices=WhenLate.choices, default=WhenLate.QUEUE, db_default=WhenLate.QUEUE
    )
    tiers = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()), help_text="slas.tiers")
    valid_from = models.DateTimeField(default=timezone.now)
    valid_until = models.DateTimeField(null=True, blank=True)
    replaces = models.CharField(max_length=32, blank=True, default="", db_default="", help_text="the version before")
    created_at = models.DateTimeField(default=timezone.now, db_default=Now())

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "deployment"],
                condition=models.Q(valid_until=None),
                name="one_open_contract_a_deployment",
            )
        ]

    def level(self) -> ServiceLevel:
        return level_of(self.terms or self.service_class.terms())

    def state(self, now: datetime) -> str:
        """``scheduled``, ``current``, ``ended`` or, of one that never came into force, ``replaced``."""
        if self.valid_until is not None and self.valid_until <= self.valid_from:
            return "replaced"
        if self.valid_from > now:
            return "scheduled"
        return "ended" if self.valid_until is not None and self.valid_until <= now else "current"
