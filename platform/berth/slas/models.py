"""What is promised: service classes (templates) and contracts (one tenant, one deployment)."""

from __future__ import annotations

from django.db import models

from berth.core.ids import IdFactory
from berth.core.scoping import TenantOwned
from gpuruntime.goodput import ServiceLevel


class ServiceClass(models.Model):
    """A named service level (docs/goodput.md). An empty limit is a test that always passes."""

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
    created_at = models.DateTimeField(auto_now_add=True)

    def level(self) -> ServiceLevel:
        return ServiceLevel(
            base_ms=self.base_ms,
            free_prompt_tokens=self.free_prompt_tokens,
            prefill_tokens_per_s=self.prefill_tokens_per_s,
            tpot_ms=self.tpot_ms,
            fluidity_floor=self.fluidity_floor,
            attainment_target=self.attainment_target,
            e2e_ms=self.e2e_ms,
        )


class Contract(TenantOwned):
    """What one tenant was promised on one deployment. A change makes a new version; usage keeps the one it met.

    A limit left empty does not apply. ``weight`` multiplies the tenant's share in the door's queue.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("con"), editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="contracts")
    deployment = models.ForeignKey("deployments.Deployment", on_delete=models.CASCADE, related_name="contracts")
    service_class = models.ForeignKey(ServiceClass, on_delete=models.PROTECT, related_name="contracts")
    version = models.PositiveIntegerField(default=1)
    requests_per_min = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_min = models.PositiveIntegerField(null=True, blank=True)
    max_concurrency = models.PositiveIntegerField(null=True, blank=True)
    weight = models.PositiveIntegerField(default=1)
    valid_from = models.DateTimeField(auto_now_add=True)
    valid_until = models.DateTimeField(null=True, blank=True)

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "deployment"],
                condition=models.Q(valid_until=None),
                name="one_open_contract_a_deployment",
            )
        ]
