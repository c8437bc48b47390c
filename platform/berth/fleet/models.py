"""The hardware and who sits where (docs/architecture.md, section 3).

Gpu      units 0..n-1: the finest that any of its cuts has (a CPU: shares of memory)
Slice    owns SliceUnit(gpu, index) rows: unique, so two slices never own one unit. A GPU of a known board is one kind
         of cut at a time
Seat     one replica's place on a slice; provisioned time runs from its creation to its deletion
"""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils import timezone

from berth.core.ids import IdFactory

# An agent reports every second; one that was silent for longer is not connected.
HEARD_WITHIN = timedelta(seconds=15)


class Provider(models.TextChoices):
    NVML = "nvml"
    CPU = "cpu"
    SIMULATED = "simulated"


class SliceKind(models.TextChoices):
    """The isolation ladder (docs/fleet.md), and ``shares``: units of a device that no table of geometries knows."""

    SHARES = "shares"
    TIME_SLICE = "time-slice"
    MPS = "mps"
    MIG = "mig"
    WHOLE = "whole"


class Health(models.TextChoices):
    HEALTHY = "healthy"
    SUSPECT = "suspect"
    DRAINING = "draining"
    FENCED = "fenced"
    PROBATION = "probation"


class Node(models.Model):
    """A host with an agent. ``generation`` rises with every change of what should run there.

    A node with ``drain_requested_at`` is cordoned as well: its replicas leave once others are ready elsewhere.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("nod"), editable=False)
    name = models.SlugField(max_length=63, unique=True)
    token_digest = models.CharField(max_length=64)
    provider = models.CharField(max_length=16, choices=Provider.choices, blank=True)
    address = models.CharField(max_length=255, default="127.0.0.1")
    agent_version = models.CharField(max_length=40, blank=True)
    boot_id = models.CharField(max_length=64, blank=True)
    cpu_count = models.PositiveIntegerField(default=0)
    memory_bytes = models.BigIntegerField(default=0)
    fault_domain = models.CharField(
        max_length=63,
        blank=True,
        default="",
        db_default="",
        help_text="what fails together; empty: the node",
    )
    cordoned = models.BooleanField(default=False)
    drain_requested_at = models.DateTimeField(null=True)
    drain_requested_by = models.CharField(max_length=254, blank=True, default="", db_default="")
    drain_total = models.PositiveIntegerField(default=0, db_default=0, help_text="replicas when the drain began")
    generation = models.BigIntegerField(default=0)
    observed_generation = models.BigIntegerField(default=0)
    connected_at = models.DateTimeField(null=True)
    session = models.CharField(
        max_length=32, blank=True, default="", db_default="", help_text="the connection on which its agent greeted last"
    )
    last_seen_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    @property
    def online(self) -> bool:
        return self.last_seen_at is not None and self.last_seen_at > timezone.now() - HEARD_WITHIN


class Gpu(models.Model):
    """One device. On a CPU node the device is the node.

    ``board``: its type in scheduler/geometry; empty where none is known. ``kinds``: what it can be; ``unable``: why it
    cannot be the others. ``blocked``: instances on it that Berth may not use or remove, as its agent reports them.
    ``signals``: what its health was last judged by. ``utilisation``: 0 to 1; null where nobody measures it.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("gpu"), editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveIntegerField()
    uuid = models.CharField(max_length=80)
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=16)
    memory_bytes = models.BigIntegerField()
    units = models.PositiveIntegerField()
    generation = models.BigIntegerField(default=0)
    present = models.BooleanField(default=True)
    memory_used_bytes = models.BigIntegerField(default=0)
    utilisation = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    board = models.CharField(max_length=40, blank=True, default="", db_default="")
    kinds = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    unable = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    blocked = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    health = models.CharField(max_length=16, choices=Health.choices, default=Health.HEALTHY, db_default=Health.HEALTHY)
    health_reason = models.CharField(max_length=300, blank=True, default="", db_default="")
    health_since = models.DateTimeField(null=True)
    signals = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "uuid"], name="one_row_a_device")]

    @property
    def label(self) -> str:
        """As people call it on its node: cpu-0, gpu-3."""
        return f"{'cpu' if self.kind == 'cpu' else 'gpu'}-{self.index}"


class GpuMinute(models.Model):
    """One minute of one device: means of the minute's samples, and the most memory that was used and promised."""

    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="minutes")
    at = models.DateTimeField()
    samples = models.PositiveIntegerField(default=0)
    memory_used_bytes = models.BigIntegerField()
    promised_bytes = models.BigIntegerField()
    utilisation = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["gpu", "at"], name="one_row_a_minute")]
        indexes = [models.Index(fields=["at"])]


class Slice(models.Model):
    """``start`` and ``size`` in units of its kind's cut; its rows of ``SliceUnit`` in the device's. What is below
    ``state`` is as the agent last reported it; a slice of ``shares`` needs no making and has no state.
    """

    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("slc"), editable=False)
    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="slices")
    kind = models.CharField(
        max_length=16, choices=SliceKind.choices, default=SliceKind.SHARES, db_default=SliceKind.SHARES
    )
    profile = models.CharField(max_length=32, default="share")
    start = models.PositiveIntegerField(default=0, db_default=0)
    size = models.PositiveIntegerField(default=0, db_default=0)
    memory_bytes = models.BigIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    state = models.CharField(max_length=16, blank=True, default="", db_default="")
    reason = models.CharField(max_length=300, blank=True, default="", db_default="")
    uuid = models.CharField(max_length=120, blank=True, default="", db_default="")


class SliceUnit(models.Model):
    gpu = models.ForeignKey(Gpu, on_delete=models.CASCADE, related_name="+")
    index = models.PositiveIntegerField()
    slice = models.ForeignKey(Slice, on_delete=models.CASCADE, related_name="units")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["gpu", "index"], name="one_owner_a_unit")]


class Seat(models.Model):
    id = models.CharField(max_length=32, primary_key=True, default=IdFactory("sea"), editable=False)
    slice = models.ForeignKey(Slice, on_delete=models.CASCADE, related_name="seats")
    replica = models.OneToOneField("deployments.Replica", on_delete=models.CASCADE, related_name="seat")
    memory_bytes = models.BigIntegerField()
    sm_percent = models.PositiveIntegerField(default=100)
    burst = models.BooleanField(default=False, db_default=False, help_text="beyond what is guaranteed: first to go")
    created_at = models.DateTimeField(auto_now_add=True)
