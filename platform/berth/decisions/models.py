"""What the scheduler decided, and why: kept so that a person can ask later."""

from __future__ import annotations

from django.db import models

from berth.core.ids import IdFactory
from berth.core.scoping import TenantOwned


class DecisionKind(models.TextChoices):
    PLACE = "place", "a replica got its place"
    REPLACE = "replace", "a replica was given up, and another takes its place"
    REFUSE = "refuse", "a replica found no place"
    SCALE = "scale", "a replica too many was let go"
    DRAIN = "drain", "a replica left a node that is taken out"


class Decision(TenantOwned):
    """One decision with what it was made from. Append only, but for the count of a refusal that stays the same.

    Names are copied, since what they name may be gone when somebody asks. ``tenant_id`` is the deployment's owner.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("dcs"), editable=False)
    tenant_id = models.CharField(max_length=32, blank=True)
    kind = models.CharField(max_length=16, choices=DecisionKind.choices)
    deployment_id = models.CharField(max_length=32)
    deployment_name = models.CharField(max_length=63)
    replica_id = models.CharField(max_length=32, blank=True)
    node_id = models.CharField(max_length=32, blank=True)
    node_name = models.CharField(max_length=63, blank=True)
    summary = models.CharField(max_length=300)
    why = models.TextField()
    inputs = models.JSONField(default=dict)
    candidates = models.JSONField(default=list, help_text="[{device_id, device, node, fits, why_not, score, ...}]")
    chosen = models.JSONField(null=True, help_text="the candidate that was taken")
    at = models.DateTimeField()
    last_at = models.DateTimeField(help_text="when it was last found the same")
    count = models.PositiveIntegerField(default=1)

    class Meta(TenantOwned.Meta):
        indexes = [
            models.Index(fields=["tenant_id", "-id"]),
            models.Index(fields=["deployment_id", "-id"]),
            models.Index(fields=["node_id", "-id"]),
            models.Index(fields=["at"]),
            models.Index(fields=["replica_id"], name="decisions_of_a_replica"),
        ]
