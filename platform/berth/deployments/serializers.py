"""How deployments, replicas and the fit check look on the wire."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from berth.catalog.models import Model
from berth.deployments.models import Deployment, Dtype, Engine, KvDtype, Replica, ReplicaState
from berth.deployments.needs import needs_of_deployment
from berth.slas.serializers import ServiceClassSerializer
from berth.tenants.serializers import TenantRefSerializer

OWNERS = ("platform", "tenant")
ACCESS = ("owner", "contract")
SUMMARY_STATES = [(name, name) for name in ("running", "starting", "degraded", "failed", "stopping", "stopped")]


class ModelRefSerializer(serializers.ModelSerializer[Model]):
    class Meta:
        model = Model
        fields = [
            "id", "name", "state", "architecture", "source_format", "parameters", "context_length", "weights_bytes",
            "licence",
        ]  # fmt: skip
        read_only_fields = fields


class StateSummarySerializer(serializers.Serializer[Any]):
    """``stale``: whether replicas are alive is not known at the moment; states are as stored."""

    wanted = serializers.IntegerField()
    ready = serializers.IntegerField()
    state = serializers.ChoiceField(choices=SUMMARY_STATES)
    reason = serializers.CharField()
    stale = serializers.BooleanField()


class DeploymentSerializer(serializers.ModelSerializer[Deployment]):
    tenant = TenantRefSerializer(source="shown_tenant")
    owner = serializers.ChoiceField(source="owner_kind", choices=OWNERS, help_text="platform: granted by contract")
    access = serializers.ChoiceField(choices=ACCESS, help_text="contract: may be used, not changed")
    model = ModelRefSerializer()
    service_class = ServiceClassSerializer(source="shown_class", help_text="of a guest: what its contract promises")
    state = StateSummarySerializer(source="summary")
    memory_bytes = serializers.SerializerMethodField(help_text="what one replica reserves")

    class Meta:
        model = Deployment
        fields = [
            "id", "tenant", "owner", "access", "name", "model", "service_class", "state", "desired_state",
            "replica_count", "engine", "dtype", "max_model_len", "max_num_seqs", "kv_bytes", "kv_dtype",
            "default_max_tokens", "memory_bytes", "created_at", "updated_at",
        ]  # fmt: skip
        read_only_fields = fields

    def get_memory_bytes(self, deployment: Deployment) -> int:
        return needs_of_deployment(deployment).total_bytes


class DeploymentChangeSerializer(serializers.Serializer[Deployment]):
    """Fields of a runtime (model, engine, dtypes, lengths, memory) change only while nothing runs."""

    model = serializers.CharField(required=False, max_length=80, help_text="id or name")
    service_class = serializers.CharField(required=False, max_length=40, help_text="id or name")
    replica_count = serializers.IntegerField(required=False, min_value=0, max_value=1000)
    engine = serializers.ChoiceField(required=False, choices=Engine.choices)
    dtype = serializers.ChoiceField(required=False, choices=Dtype.choices)
    max_model_len = serializers.IntegerField(required=False, allow_null=True, min_value=16, max_value=1 << 30)
    max_num_seqs = serializers.IntegerField(required=False, min_value=1, max_value=1024)
    kv_bytes = serializers.IntegerField(required=False, min_value=1, max_value=1 << 50)
    kv_dtype = serializers.ChoiceField(required=False, choices=KvDtype.choices)
    default_max_tokens = serializers.IntegerField(required=False, min_value=1, max_value=1 << 30)


class DeploymentCreateSerializer(DeploymentChangeSerializer):
    tenant = serializers.CharField(
        required=False, allow_null=True, max_length=32, help_text="absent: the platform's own, granted by contracts"
    )
    name = serializers.SlugField(max_length=63)
    model = serializers.CharField(max_length=80, help_text="id or name")
    service_class = serializers.CharField(max_length=40, help_text="id or name")


class ScaleSerializer(serializers.Serializer[Any]):
    replicas = serializers.IntegerField(min_value=0, max_value=1000)


class ClassChangeSerializer(serializers.Serializer[Any]):
    service_class = serializers.CharField(max_length=40, help_text="id or name")


class CloneSerializer(serializers.Serializer[Any]):
    name = serializers.SlugField(max_length=63)


class ReplicaStatsSerializer(serializers.Serializer[Any]):
    """As the replica last said, at most ten seconds ago."""

    running = serializers.IntegerField(default=0)
    queued = serializers.IntegerField(default=0)
    kv_free_blocks = serializers.IntegerField(allow_null=True, default=None)
    kv_total_blocks = serializers.IntegerField(allow_null=True, default=None)
    predicted_ttft_ms = serializers.FloatField(allow_null=True, default=None)


class ReplicaSerializer(serializers.ModelSerializer[Replica]):
    """``state`` is lost when a ready replica fell silent; ``stale``: that could not be asked."""

    tenant = serializers.CharField(source="tenant_id")
    deployment = serializers.CharField(source="deployment_id")
    deployment_name = serializers.CharField(source="deployment.name")
    node = serializers.CharField(source="node.name", default=None, allow_null=True)
    node_id = serializers.CharField(allow_null=True)
    device = serializers.SerializerMethodField()
    device_id = serializers.SerializerMethodField()
    state = serializers.ChoiceField(source="shown_state", choices=ReplicaState.choices)
    reason = serializers.CharField(source="shown_reason")
    stale = serializers.BooleanField()
    stats = serializers.SerializerMethodField()

    class Meta:
        model = Replica
        fields = [
            "id", "tenant", "deployment", "deployment_name", "node", "node_id", "device", "device_id", "run", "state",
            "reason", "stale", "progress", "restarts", "pid", "port", "memory_bytes", "memory_used_bytes", "stats",
            "created_at", "ready_at", "ended_at",
        ]  # fmt: skip
        read_only_fields = fields

    def get_device(self, replica: Replica) -> str | None:
        seat = getattr(replica, "seat", None)
        return None if seat is None else str(seat.slice.gpu.name)

    def get_device_id(self, replica: Replica) -> str | None:
        seat = getattr(replica, "seat", None)
        return None if seat is None else str(seat.slice.gpu_id)

    @extend_schema_field(ReplicaStatsSerializer(allow_null=True))
    def get_stats(self, replica: Any) -> Any:
        return None if replica.stats is None else ReplicaStatsSerializer(replica.stats).data


class EventSerializer(serializers.Serializer[Any]):
    """One thing that happened. ``kind``: e.g. deployment.change, replica.end, decision.place. ``object``: its id."""

    id = serializers.CharField()
    at = serializers.DateTimeField()
    kind = serializers.CharField()
    actor = serializers.CharField()
    summary = serializers.CharField()
    reason = serializers.CharField()
    object = serializers.CharField()
    count = serializers.IntegerField()
    before = serializers.DictField(allow_null=True)
    after = serializers.DictField(allow_null=True)


class EventPageSerializer(serializers.Serializer[Any]):
    next = serializers.CharField(allow_null=True)
    results = EventSerializer(many=True)


class LogSerializer(serializers.Serializer[Any]):
    lines = serializers.ListField(child=serializers.CharField())
    stale = serializers.BooleanField(help_text="the lines could not be read at the moment")


class NeedsSerializer(serializers.Serializer[Any]):
    weights_bytes = serializers.IntegerField()
    kv_bytes = serializers.IntegerField()
    kv_bytes_per_token = serializers.IntegerField()
    kv_capacity_tokens = serializers.IntegerField()
    workspace_bytes = serializers.IntegerField()
    total_bytes = serializers.IntegerField()


class DeviceFitSerializer(serializers.Serializer[Any]):
    device_id = serializers.CharField()
    node = serializers.CharField()
    device = serializers.CharField()
    index = serializers.IntegerField()
    total_bytes = serializers.IntegerField()
    free_bytes = serializers.IntegerField()
    units = serializers.IntegerField()
    units_free = serializers.IntegerField()
    units_needed = serializers.IntegerField()
    replicas = serializers.IntegerField()
    fits = serializers.BooleanField()
    reason = serializers.CharField()


class SlotFitSerializer(serializers.Serializer[Any]):
    """One way to hold a replica on a GPU of this type. ``rate``: tokens/s within the SLA; no ``why_not``: it fits."""

    board = serializers.CharField()
    board_name = serializers.CharField()
    kind = serializers.CharField()
    profile = serializers.CharField()
    part = serializers.FloatField(help_text="of the GPU")
    memory_bytes = serializers.IntegerField()
    rate = serializers.FloatField()
    measured = serializers.BooleanField()
    why_not = serializers.CharField()


class SeatFitSerializer(serializers.Serializer[Any]):
    """Where one replica would sit. ``opens``: on a GPU that is empty now."""

    gpu_id = serializers.CharField()
    gpu = serializers.CharField()
    node = serializers.CharField()
    board = serializers.CharField()
    kind = serializers.CharField()
    profile = serializers.CharField()
    start = serializers.IntegerField()
    size = serializers.IntegerField()
    units = serializers.IntegerField()
    rate = serializers.FloatField()
    measured = serializers.BooleanField()
    opens = serializers.BooleanField()


class DisplacedSerializer(serializers.Serializer[Any]):
    """A burst replica that would give way; without names where they are another tenant's."""

    replica = serializers.CharField()
    deployment = serializers.CharField()
    deployment_name = serializers.CharField()
    kind = serializers.CharField()
    profile = serializers.CharField()


class OutlookSerializer(serializers.Serializer[Any]):
    """On GPUs that are cut. ``goodput``: tokens/s of all ``seats``; ``measured``: none of it is an estimate."""

    fits = serializers.BooleanField()
    reason = serializers.CharField()
    isolation = serializers.CharField()
    seats = SeatFitSerializer(many=True)
    goodput = serializers.FloatField()
    measured = serializers.BooleanField()
    opens = serializers.IntegerField(help_text="GPUs that are empty now and would be in use")
    displaced = DisplacedSerializer(many=True)
    slots = SlotFitSerializer(many=True)


class FitSerializer(serializers.Serializer[Any]):
    """``devices``: those that are not cut; ``gpus``: what holds of those that are, null where there is none."""

    needs = NeedsSerializer()
    max_model_len = serializers.IntegerField()
    replicas = serializers.IntegerField()
    replicas_that_fit = serializers.IntegerField()
    fits = serializers.BooleanField()
    reason = serializers.CharField()
    devices = DeviceFitSerializer(many=True)
    gpus = OutlookSerializer(allow_null=True)
