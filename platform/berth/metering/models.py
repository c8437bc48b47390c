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
    counted. ``tries``: doors that were asked; ``resumes``: how often one went on
    with what another had begun. ``cost``: by the contract's prices, exact.
    ``counted_as``: which account of the door's (``join.name_of``), ``counted_at``: when the door closed it.
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
    resumes = models.PositiveSmallIntegerField(null=True)
    stalls = models.PositiveIntegerField(null=True)
    max_gap_us = models.BigIntegerField(null=True)
    node_id = models.CharField(max_length=32, blank=True, default="", db_default="")
    slice_id = models.CharField(max_length=32, blank=True, default="", db_default="")
    place = models.CharField(max_length=160, blank=True, default="", db_default="")
    cost = models.DecimalField(max_digits=22, decimal_places=10, default=Decimal(0), db_default=Decimal(0))
    counted_as = models.CharField(max_length=56, blank=True, default="", db_default="")
    counted_at = models.DateTimeField(null=True)

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
            models.Index(fields=["counted_at"], name="usage_counted", condition=~models.Q(counted_as="")),
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


class DoorEpoch(models.Model):
    """How far the accounts of one process of a door are added up: all up to the number ``counted``."""

    replica_id = models.CharField(max_length=32)
    epoch = models.CharField(max_length=32)
    counted = models.BigIntegerField()
    counted_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["replica_id", "epoch"], name="one_row_an_epoch")]


class DoorCount(models.Model):
    """What one process of a door counted of the requests it ended in one hour (UTC, by its clock), by outcome.

    Added up from its accounts alone, each once by its number, before anything else is made of them: the side of the
    reconciliation that no record has touched.
    """

    hour = models.DateTimeField()
    replica_id = models.CharField(max_length=32)
    epoch = models.CharField(max_length=32)
    deployment_id = models.CharField(max_length=32, blank=True)
    outcome = models.CharField(max_length=16)
    requests = models.BigIntegerField(default=0)
    prompt_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "replica_id", "epoch", "deployment_id", "outcome"], name="one_row_a_doors_hour"
            )
        ]


class LooseAccount(models.Model):
    """A door's account that is in no record, and why: another door's was taken, or nobody is charged for it."""

    replica_id = models.CharField(max_length=32)
    epoch = models.CharField(max_length=32)
    number = models.BigIntegerField()
    ended_at = models.DateTimeField(db_index=True)
    request_id = models.CharField(max_length=40)
    deployment_id = models.CharField(max_length=32, blank=True)
    outcome = models.CharField(max_length=16)
    why = models.CharField(max_length=16)
    prompt_tokens = models.BigIntegerField(default=0)
    cached_tokens = models.BigIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["replica_id", "epoch", "number"], name="one_row_a_loose_account")
        ]
