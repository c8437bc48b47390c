"""What was used and how well it was served. Ids are kept as text: history outlives what it names."""

from __future__ import annotations

from decimal import Decimal

from django.db import models

from berth.core.scoping import TenantOwned


class UsageRecord(TenantOwned):
    """One request that reached a door or was offered and refused. Written once, by the ledger.

    ``counted_by``: "door" where the runtime's own count arrived, "gateway" where only what passed through is known.
    The limits it was judged by stay with it, whatever becomes of its class; None: there was no such limit.
    ``member_id``: who made the key. ``place``: node, device and slice of its replica, for a person. ``burst``: it went
    beyond the contract's guaranteed rate. ``running_at_arrival`` and ``queued_at_arrival``: at its door, itself not
    counted. ``tries``: doors that were asked. ``cost``: by the contract's prices, exact.
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
    member_id = models.CharField(max_length=32, blank=True, default="", db_default="")
    tpot_limit_us = models.BigIntegerField(null=True)
    fluidity_floor = models.FloatField(null=True)
    e2e_limit_us = models.BigIntegerField(null=True)
    burst = models.BooleanField(default=False, db_default=False)
    ready_at_arrival = models.BooleanField(null=True)
    running_at_arrival = models.PositiveIntegerField(null=True)
    queued_at_arrival = models.PositiveIntegerField(null=True)
    tries = models.PositiveSmallIntegerField(null=True)
    stalls = models.PositiveIntegerField(null=True)
    max_gap_us = models.BigIntegerField(null=True)
    node_id = models.CharField(max_length=32, blank=True, default="", db_default="")
    slice_id = models.CharField(max_length=32, blank=True, default="", db_default="")
    place = models.CharField(max_length=160, blank=True, default="", db_default="")
    cost = models.DecimalField(max_digits=22, decimal_places=10, default=Decimal(0), db_default=Decimal(0))

    class Meta(TenantOwned.Meta):
        # One for each filter of ``requests``, in the order of its pages; the two partial ones serve what went wrong,
        # the last two "slowest first", of all and of a tenant, whose own may all be fast.
        indexes = [
            models.Index(fields=["tenant_id", "-arrived_at"]),
            models.Index(fields=["-arrived_at"]),
            models.Index(fields=["deployment_id", "-arrived_at"], name="usage_deployment"),
            models.Index(fields=["key_id", "-arrived_at"], name="usage_key"),
            models.Index(fields=["member_id", "-arrived_at"], name="usage_member"),
            models.Index(fields=["replica_id", "-arrived_at"], name="usage_replica"),
            models.Index(fields=["class_name", "-arrived_at"], name="usage_class"),
            models.Index(fields=["reason", "-arrived_at"], name="usage_bad", condition=~models.Q(reason="")),
            models.Index(fields=["tenant_id", "-arrived_at"], name="usage_bad_tenant", condition=~models.Q(reason="")),
            models.Index(
                models.F("ttft_us").desc(nulls_last=True), models.F("request_id").desc(), name="usage_slowest"
            ),
            models.Index(
                models.F("tenant_id"),
                models.F("ttft_us").desc(nulls_last=True),
                models.F("request_id").desc(),
                name="usage_slowest_tenant",
            ),
        ]


class UsageSums(TenantOwned):
    """What some records of one hour (UTC, by arrival) in one cell add up to."""

    hour = models.DateTimeField()
    tenant_id = models.CharField(max_length=32)
    deployment_id = models.CharField(max_length=32, blank=True)
    class_name = models.CharField(max_length=40, blank=True)
    key_id = models.CharField(max_length=32, blank=True)
    member_id = models.CharField(max_length=32, blank=True)
    deployment_name = models.CharField(max_length=63, blank=True)
    requests = models.BigIntegerField(default=0)
    offered = models.BigIntegerField(default=0)
    good = models.BigIntegerField(default=0)
    prompt_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)
    good_tokens = models.BigIntegerField(default=0)
    cost = models.DecimalField(max_digits=28, decimal_places=10, default=Decimal(0))

    class Meta(TenantOwned.Meta):
        abstract = True


class UsageHour(UsageSums):
    """The sums of one hour's records, written in the transaction that writes these; they outlive them.

    Until the hour is sealed they equal its records. From then on no row of it changes, and what comes later is a
    ``UsageCorrection``: both together equal the records.
    """

    class Meta(UsageSums.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "tenant_id", "deployment_id", "class_name", "key_id"], name="one_row_an_hours_cell"
            )
        ]
        indexes = [models.Index(fields=["tenant_id", "hour"], name="usage_hour_tenant")]


class UsageCorrection(UsageSums):
    """By how much a sealed hour's cell was wrong, found at ``written_at``: differences, with their sign."""

    written_at = models.DateTimeField()

    class Meta(UsageSums.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "tenant_id", "deployment_id", "class_name", "key_id", "written_at"],
                name="one_correction_a_cell",
            )
        ]
        indexes = [models.Index(fields=["tenant_id", "hour"], name="usage_correction_tenant")]


class UsageSeal(models.Model):
    """Every hour before ``until`` was sealed at ``sealed_at`` at the latest. The greatest holds; it never goes back."""

    until = models.DateTimeField(primary_key=True)
    sealed_at = models.DateTimeField()


class GoodputMinute(TenantOwned):
    """One minute of one cell, as ``goodput.Window.to_json()``. Rewritten whole by the aggregator: idempotent.

    A request counts in the minute it ended. ``replica_id`` is empty in the cells of requests; ``class_name`` in
    those of replicas (busy, executed and provisioned time). ``offered`` and ``good`` repeat the window's, for sums.
    """

    minute = models.DateTimeField()
    tenant_id = models.CharField(max_length=32)
    deployment_id = models.CharField(max_length=32, blank=True)
    class_name = models.CharField(max_length=40, blank=True)
    replica_id = models.CharField(max_length=32, blank=True)
    window = models.JSONField()
    offered = models.BigIntegerField(default=0, db_default=0)
    good = models.BigIntegerField(default=0, db_default=0)

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["minute", "tenant_id", "deployment_id", "class_name", "replica_id"], name="one_row_a_cell"
            )
        ]
        indexes = [models.Index(fields=["tenant_id", "-minute"])]


class GoodputSpan(TenantOwned):
    """An hour's or a day's windows of one cell, added up from its minutes (``metering.rollups``); UTC.

    Cells of replicas are added to those of their deployment with an empty class.
    """

    seconds = models.PositiveIntegerField()
    at = models.DateTimeField()
    tenant_id = models.CharField(max_length=32)
    deployment_id = models.CharField(max_length=32, blank=True)
    class_name = models.CharField(max_length=40, blank=True)
    window = models.JSONField()
    offered = models.BigIntegerField(default=0)
    good = models.BigIntegerField(default=0)

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["seconds", "at", "tenant_id", "deployment_id", "class_name"], name="one_row_a_spans_cell"
            )
        ]
        indexes = [models.Index(fields=["tenant_id", "seconds", "at"], name="goodput_span_tenant")]
