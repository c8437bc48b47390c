"""What was used and how well it was served. Ids are kept as text: history outlives what it names."""

from __future__ import annotations

from django.db import models

from berth.core.scoping import TenantOwned


class UsageRecord(TenantOwned):
    """One request that reached a door or was offered and refused. Written once, by the ledger.

    ``counted_by``: "door" where the runtime's own count arrived, "gateway" where only what passed through is known.
    """

    request_id = models.CharField(max_length=40, primary_key=True)
    tenant_id = models.CharField(max_length=32)
    deployment_id = models.CharField(max_length=32, blank=True)
    deployment_name = models.CharField(max_length=63, blank=True)
    key_id = models.CharField(max_length=32, blank=True)
    replica_id = models.CharField(max_length=32, blank=True)
    contract_id = models.CharField(max_length=32, blank=True)
    contract_version = models.PositiveIntegerField(default=0)
    class_name = models.CharField(max_length=40, blank=True)
    arrived_at = models.DateTimeField()
    stream = models.BooleanField(default=True)
    outcome = models.CharField(max_length=16)
    finish_reason = models.CharField(max_length=16, blank=True)
    status = models.PositiveIntegerField(default=200)
    counted_by = models.CharField(max_length=8)
    prompt_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)
    new_prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    offered = models.BooleanField(default=False)
    good = models.BooleanField(default=False)
    compatible = models.BooleanField(default=False)
    reason = models.CharField(max_length=16, blank=True)
    ttft_us = models.BigIntegerField(null=True)
    ttft_limit_us = models.BigIntegerField(null=True)
    tpot_us = models.FloatField(null=True)
    fluidity = models.FloatField(default=1.0)
    e2e_us = models.BigIntegerField(default=0)
    queue_ms = models.FloatField(null=True)
    prefill_ms = models.FloatField(null=True)
    decode_ms = models.FloatField(null=True)
    preemptions = models.PositiveIntegerField(null=True)
    ideal_s = models.FloatField(null=True)
    executed_ideal_s = models.FloatField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta(TenantOwned.Meta):
        indexes = [
            models.Index(fields=["tenant_id", "-arrived_at"]),
            models.Index(fields=["-arrived_at"]),
        ]


class GoodputMinute(TenantOwned):
    """One minute of one cell, as ``goodput.Window.to_json()``. Rewritten whole by the aggregator: idempotent.

    A request counts in the minute it ended. ``replica_id`` is empty in the cells of requests; ``class_name`` in
    those of replicas (busy, executed and provisioned time).
    """

    minute = models.DateTimeField()
    tenant_id = models.CharField(max_length=32)
    deployment_id = models.CharField(max_length=32, blank=True)
    class_name = models.CharField(max_length=40, blank=True)
    replica_id = models.CharField(max_length=32, blank=True)
    window = models.JSONField()

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["minute", "tenant_id", "deployment_id", "class_name", "replica_id"], name="one_row_a_cell"
            )
        ]
        indexes = [models.Index(fields=["tenant_id", "-minute"])]
