"""How nodes, devices, slices and seats look on the wire."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from berth.fleet import health
from berth.fleet.models import Gpu, Node, Seat, Slice
from scheduler.health import machine

DRAIN_STATES = ("replacing", "blocked", "ending", "done")
MOVE_STATES = ("serving", "waiting", "ending")
SEVERITIES = ("watch", "drain", "fence")


class NodeRefSerializer(serializers.ModelSerializer[Node]):
    class Meta:
        model = Node
        fields = ["id", "name"]
        read_only_fields = fields


class SeatSerializer(serializers.ModelSerializer[Seat]):
    replica = serializers.CharField(source="replica_id")
    deployment = serializers.CharField(source="replica.deployment_id")
    deployment_name = serializers.CharField(source="replica.deployment.name")
    tenant = serializers.CharField(source="replica.tenant_id")
    state = serializers.CharField(source="replica.state")
    memory_used_bytes = serializers.IntegerField(source="replica.memory_used_bytes")
    units = serializers.SerializerMethodField()
    profile = serializers.CharField(source="slice.profile")

    class Meta:
        model = Seat
        fields = [
            "id", "replica", "deployment", "deployment_name", "tenant", "state", "memory_bytes", "memory_used_bytes",
            "sm_percent", "units", "profile", "burst", "created_at",
        ]  # fmt: skip
        read_only_fields = fields

    def get_units(self, seat: Seat) -> list[int]:
        return sorted(unit.index for unit in seat.slice.units.all())


class FaultSerializer(serializers.Serializer[Any]):
    """One thing that is wrong with a device. `count`: how often it happened; 0 for what holds or does not."""

    key = serializers.CharField(
        help_text="operator, lost, recovery, remap_failed, remap_pending, ecc, thermal, slow or xid:CODE"
    )
    severity = serializers.ChoiceField(choices=SEVERITIES)
    sentence = serializers.CharField()
    todo = serializers.CharField()
    count = serializers.IntegerField()
    since = serializers.DateTimeField()
    last_at = serializers.DateTimeField()


class FenceSerializer(serializers.Serializer[Gpu]):
    reason = serializers.CharField(max_length=200)


class GpuSerializer(serializers.ModelSerializer[Gpu]):
    """``promised_bytes``: what the seats on it were promised. ``memory_used_bytes`` and what follows: as measured."""

    node = NodeRefSerializer()
    units_free = serializers.IntegerField()
    promised_bytes = serializers.SerializerMethodField()
    kinds = serializers.ListField(child=serializers.CharField(), help_text="what a GPU of a known board can be")
    unable = serializers.DictField(child=serializers.CharField(), help_text="why it cannot be the others, by kind")
    takes_new = serializers.SerializerMethodField(help_text="whether its health lets a new replica on it")
    faults = serializers.SerializerMethodField()
    seats = serializers.SerializerMethodField()

    class Meta:
        model = Gpu
        fields = [
            "id", "node", "index", "uuid", "name", "kind", "memory_bytes", "memory_used_bytes", "promised_bytes",
            "utilisation", "temperature_c", "power_w", "present", "board", "kinds", "unable", "units", "units_free",
            "health", "health_reason", "health_since", "takes_new", "faults", "seats",
        ]  # fmt: skip
        read_only_fields = fields

    def get_promised_bytes(self, gpu: Gpu) -> int:
        return sum(seat.memory_bytes for slice_ in gpu.slices.all() for seat in slice_.seats.all())

    def get_takes_new(self, gpu: Gpu) -> bool:
        return machine.takes_new(gpu.health)

    @extend_schema_field(FaultSerializer(many=True))
    def get_faults(self, gpu: Gpu) -> Any:
        return FaultSerializer(health.faults_of(gpu), many=True).data

    @extend_schema_field(SeatSerializer(many=True))
    def get_seats(self, gpu: Gpu) -> Any:
        seats = [seat for slice_ in gpu.slices.all() for seat in slice_.seats.all()]
        return SeatSerializer(seats, many=True).data


class SliceSerializer(serializers.ModelSerializer[Slice]):
    gpu = serializers.CharField(source="gpu_id")
    device = serializers.CharField(source="gpu.name")
    device_index = serializers.IntegerField(source="gpu.index")
    node = NodeRefSerializer(source="gpu.node")
    units = serializers.SerializerMethodField()
    promised_bytes = serializers.SerializerMethodField()
    seats = SeatSerializer(many=True)

    class Meta:
        model = Slice
        fields = [
            "id", "gpu", "device", "device_index", "node", "kind", "profile", "start", "size", "state", "reason",
            "memory_bytes", "promised_bytes", "units", "seats", "created_at",
        ]  # fmt: skip
        read_only_fields = fields

    def get_units(self, row: Slice) -> list[int]:
        return sorted(unit.index for unit in row.units.all())

    def get_promised_bytes(self, row: Slice) -> int:
        return sum(seat.memory_bytes for seat in row.seats.all())


class HistoryPointSerializer(serializers.Serializer[Any]):
    """Means of a minute, or of several where many were asked for; memory is the most of that time."""

    at = serializers.DateTimeField()
    memory_used_bytes = serializers.IntegerField()
    promised_bytes = serializers.IntegerField()
    utilisation = serializers.FloatField(allow_null=True)
    temperature_c = serializers.FloatField(allow_null=True)
    power_w = serializers.FloatField(allow_null=True)


class MoveSerializer(serializers.Serializer[Any]):
    """A replica that leaves. ``serving``: until ``successor`` is ready; ``waiting``: no room for a successor."""

    replica = serializers.CharField()
    deployment = serializers.CharField()
    deployment_name = serializers.CharField()
    tenant = serializers.CharField()
    state = serializers.ChoiceField(choices=MOVE_STATES)
    successor = serializers.CharField(allow_null=True)
    successor_node = serializers.CharField(allow_null=True)
    reason = serializers.CharField()
    running = serializers.IntegerField(
        allow_null=True, help_text="requests it has still to finish; null: not known now"
    )


class DrainSerializer(serializers.Serializer[Any]):
    """``blocked``: some replica has no room elsewhere and goes on serving here. ``left``: replicas still here."""

    state = serializers.ChoiceField(choices=DRAIN_STATES)
    reason = serializers.CharField()
    requested_at = serializers.DateTimeField()
    requested_by = serializers.CharField()
    total = serializers.IntegerField()
    left = serializers.IntegerField()
    moves = MoveSerializer(many=True)


class NodeSerializer(serializers.ModelSerializer[Node]):
    online = serializers.BooleanField(read_only=True)
    drain = DrainSerializer(allow_null=True)
    devices = GpuSerializer(many=True, source="gpus")

    class Meta:
        model = Node
        fields = [
            "id", "name", "provider", "address", "agent_version", "cpu_count", "memory_bytes", "fault_domain",
            "cordoned", "drain", "online", "generation", "observed_generation", "connected_at", "last_seen_at",
            "created_at", "devices",
        ]  # fmt: skip
        read_only_fields = fields


class NodeCreateSerializer(serializers.Serializer[Node]):
    name = serializers.SlugField(max_length=63)


class NodeChangeSerializer(serializers.Serializer[Node]):
    cordoned = serializers.BooleanField(required=False)
    fault_domain = serializers.CharField(
        required=False, allow_blank=True, max_length=63, help_text="what fails together, as a rack; empty: the node"
    )


class CreatedNodeSerializer(serializers.Serializer[Node]):
    """The only time the token is told."""

    node = NodeSerializer()
    token = serializers.CharField()
