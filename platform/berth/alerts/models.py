"""What is wrong now or was, whom that concerns, and who was told.

Alert      one condition on one subject: pending (not for long enough) -> firing -> resolved
Route      where its owner's alerts are sent: a webhook or a mail address
Delivery   one message of an alert over a route, until it arrived or was given up
"""

from __future__ import annotations

from django.db import models

from berth.core.ids import IdFactory
from berth.core.scoping import TenantOwned


class Rule(models.TextChoices):
    """The conditions (``alerts.rules``); the value is the event's name in routes and messages."""

    SLA_BURN_FAST = "sla.burn_fast", "The error budget burns fast"
    SLA_BURN_SLOW = "sla.burn_slow", "The error budget burns steadily"
    BUDGET_NEAR = "sla.budget_near", "The error budget is nearly spent"
    LIMIT_NEAR = "contract.limit_near", "A contract's limit is nearly reached"
    QUOTA_NEAR = "tenant.quota_near", "A tenant's capacity is nearly used"
    CRASH_LOOP = "replica.crash_loop", "A deployment's replicas keep crashing"
    NODE_LOST = "node.lost", "A node is silent"
    GPU_UNHEALTHY = "gpu.unhealthy", "A GPU is not healthy"


class Severity(models.TextChoices):
    CRITICAL = "critical"
    WARNING = "warning"


class State(models.TextChoices):
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class Alert(TenantOwned):
    """``tenant`` None: the platform's own. ``subject``: what it is about; one open row a rule and subject.

    ``since``: when the condition was first seen; ``seen_at``: when it held last.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("alt"), editable=False)
    tenant = models.ForeignKey("tenants.Tenant", null=True, on_delete=models.CASCADE, related_name="+")
    rule = models.CharField(max_length=32, choices=Rule.choices)
    severity = models.CharField(max_length=16, choices=Severity.choices)
    state = models.CharField(max_length=16, choices=State.choices)
    subject = models.CharField(max_length=160)
    subject_kind = models.CharField(max_length=16)
    subject_id = models.CharField(max_length=32)
    subject_name = models.CharField(max_length=160)
    summary = models.CharField(max_length=400)
    values = models.JSONField(default=dict)
    since = models.DateTimeField()
    seen_at = models.DateTimeField()
    fired_at = models.DateTimeField(null=True)
    resolved_at = models.DateTimeField(null=True)

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "subject"], condition=~models.Q(state="resolved"), name="one_open_alert_a_subject"
            )
        ]
        indexes = [models.Index(fields=["tenant", "-id"]), models.Index(fields=["state"])]


class Kind(models.TextChoices):
    WEBHOOK = "webhook"
    MAIL = "mail"


class Route(TenantOwned):
    """``tenant`` None: the operators', for every tenant's alerts. ``events`` empty: all that its owner may see."""

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("art"), editable=False)
    tenant = models.ForeignKey("tenants.Tenant", null=True, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=80, blank=True)
    kind = models.CharField(max_length=16, choices=Kind.choices)
    target = models.CharField(max_length=500)
    events = models.JSONField(default=list)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)


class DeliveryState(models.TextChoices):
    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"


class Delivery(models.Model):
    """``event``: firing, resolved or test. ``body``: what is sent, the same at every attempt."""

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("dlv"), editable=False)
    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="deliveries")
    alert = models.ForeignKey(Alert, null=True, on_delete=models.CASCADE, related_name="+")
    event = models.CharField(max_length=16)
    body = models.JSONField()
    state = models.CharField(max_length=16, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=300, blank=True)
    due_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["route", "alert", "event"],
                condition=models.Q(alert__isnull=False),
                name="one_message_an_event_and_route",
            )
        ]
        indexes = [models.Index(fields=["state", "due_at"]), models.Index(fields=["route", "-id"])]
