"""What should run (Deployment) and what does (Replica)."""

from __future__ import annotations

from django.db import models

from berth.core.ids import IdFactory
from berth.core.scoping import TenantOwned


class DesiredState(models.TextChoices):
    RUNNING = "running"
    STOPPED = "stopped"


class Engine(models.TextChoices):
    NATIVE = "native"
    VLLM = "vllm"


class Dtype(models.TextChoices):
    BF16 = "bf16", "bf16"
    INT8 = "int8", "int8"
    FP32 = "fp32", "fp32"


class KvDtype(models.TextChoices):
    """Of K and V. ``auto``: as ``Dtype``, and bf16 beside int8 weights."""

    AUTO = "auto", "auto"
    INT8 = "int8", "int8"


class Deployment(TenantOwned):
    """A model served under a name. ``tenant`` owns it; others use it by contract. ``name`` doubles as ``model``."""

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("dep"), editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="deployments")
    name = models.SlugField(max_length=63)
    model = models.ForeignKey("catalog.Model", on_delete=models.PROTECT, related_name="deployments")
    service_class = models.ForeignKey("slas.ServiceClass", on_delete=models.PROTECT, related_name="+")
    desired_state = models.CharField(max_length=16, choices=DesiredState.choices, default=DesiredState.RUNNING)
    replica_count = models.PositiveIntegerField(default=1)
    engine = models.CharField(max_length=16, choices=Engine.choices, default=Engine.NATIVE)
    dtype = models.CharField(max_length=8, choices=Dtype.choices, default=Dtype.BF16)
    kv_dtype = models.CharField(max_length=8, choices=KvDtype.choices, default=KvDtype.AUTO)
    max_model_len = models.PositiveIntegerField(null=True, blank=True)
    max_num_seqs = models.PositiveIntegerField(default=32)
    kv_bytes = models.BigIntegerField(default=256 << 20)
    default_max_tokens = models.PositiveIntegerField(default=512)
    planned_replicas = models.PositiveIntegerField(
        default=0, db_default=0, help_text="what its contracts need, by the last plan; the larger of both runs"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta(TenantOwned.Meta):
        constraints = [models.UniqueConstraint(fields=["tenant", "name"], name="one_deployment_a_name")]


class ReplicaState(models.TextChoices):
    """protocol.ReplicaState; ``lost`` is computed when read (selectors), stored only once reconcile acted on it."""

    PLACING = "placing"
    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    LOST = "lost"
    FAILED = "failed"
    STOPPED = "stopped"


ENDED_STATES = (ReplicaState.LOST, ReplicaState.FAILED, ReplicaState.STOPPED)


class Replica(TenantOwned):
    """One runtime process, wanted or running. Kept after its end for the console; its seat is not.

    ``run`` is desired (False: drain, then stop); the fields below ``epoch`` are as last observed.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("rep"), editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+")
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="replicas")
    node = models.ForeignKey("fleet.Node", null=True, on_delete=models.SET_NULL, related_name="replicas")
    run = models.BooleanField(default=True)
    state = models.CharField(max_length=16, choices=ReplicaState.choices, default=ReplicaState.PLACING)
    reason = models.TextField(blank=True)
    memory_bytes = models.BigIntegerField(default=0, help_text="reserved")
    replaces = models.CharField(
        max_length=32, blank=True, default="", db_default="", help_text="the replica that goes once this one is ready"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    epoch = models.CharField(max_length=40, blank=True)
    pid = models.PositiveIntegerField(default=0)
    port = models.PositiveIntegerField(default=0)
    restarts = models.PositiveIntegerField(default=0)
    progress = models.FloatField(null=True)
    memory_used_bytes = models.BigIntegerField(default=0)
    ready_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta(TenantOwned.Meta):
        indexes = [models.Index(fields=["deployment", "ended_at"]), models.Index(fields=["node", "ended_at"])]
