"""How the picture of the fleet looks on the wire: the shape of ``picture.picture``, which is sent as it is."""

from __future__ import annotations

from typing import Any, get_args

from rest_framework import serializers

from berth.deployments.models import ReplicaState
from berth.fleet.models import Health, SliceKind
from berth.fleet.segments import SegmentKind
from berth.fleet.serializers import NodeRefSerializer

CUTS = ("", *SliceKind.values)
SEGMENTS: tuple[str, ...] = get_args(SegmentKind)


class MapSeatSerializer(serializers.Serializer[Any]):
    """``why``: by ``decision``, the one that gave it this place; both empty where it is no longer kept.

    ``burst``: beyond what is guaranteed, so first to go.
    """

    replica = serializers.CharField()
    deployment = serializers.CharField()
    deployment_name = serializers.CharField()
    service_class = serializers.CharField()
    tenant = serializers.CharField()
    tenant_name = serializers.CharField()
    state = serializers.ChoiceField(choices=ReplicaState.choices)
    burst = serializers.BooleanField()
    why = serializers.CharField()
    decision = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    memory_used_bytes = serializers.IntegerField()
    since = serializers.DateTimeField()


class MapSegmentSerializer(serializers.Serializer[Any]):
    """``blocked``: an instance that Berth neither uses nor removes, for ``reason``; ``stranded``: free, but no instance
    can be made there any more. ``state``: of the slice, as its agent last said.
    """

    kind = serializers.ChoiceField(choices=SEGMENTS)
    start = serializers.IntegerField()
    size = serializers.IntegerField()
    profile = serializers.CharField()
    slice = serializers.CharField()
    state = serializers.CharField()
    reason = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    seats = MapSeatSerializer(many=True)


class MapGpuSerializer(serializers.Serializer[Any]):
    """``units``: those of the cut it is in, which its segments cover in order. ``cut`` empty: it may be any of
    ``can_be``; ``unable``: why it cannot be the others. ``memory_measured_bytes``: what ``memory_used_bytes`` is a part
    of: on a CPU the machine's memory.
    """

    id = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    index = serializers.IntegerField()
    name = serializers.CharField()
    node = NodeRefSerializer()
    device = serializers.CharField(help_text="cpu or gpu")
    board = serializers.CharField(help_text="its type in the table of geometries; empty: none is known")
    cut = serializers.ChoiceField(choices=CUTS)
    can_be = serializers.ListField(child=serializers.CharField())
    unable = serializers.DictField(child=serializers.CharField())
    simulated = serializers.BooleanField()
    present = serializers.BooleanField()
    takes_new = serializers.BooleanField()
    health = serializers.ChoiceField(choices=Health.choices)
    health_reason = serializers.CharField()
    health_since = serializers.DateTimeField(allow_null=True)
    units = serializers.IntegerField()
    units_taken = serializers.IntegerField()
    units_free = serializers.IntegerField()
    units_stranded = serializers.IntegerField()
    units_blocked = serializers.IntegerField()
    fragmentation = serializers.FloatField(allow_null=True, help_text="0: as good as its free units can be; 1: worst")
    segments = MapSegmentSerializer(many=True)
    memory_bytes = serializers.IntegerField()
    promised_bytes = serializers.IntegerField()
    memory_used_bytes = serializers.IntegerField()
    memory_measured_bytes = serializers.IntegerField()
    utilisation = serializers.FloatField(allow_null=True, help_text="0 to 1; null: not measured")
    temperature_c = serializers.FloatField(allow_null=True)
    power_w = serializers.FloatField(allow_null=True)


class MapTotalsSerializer(serializers.Serializer[Any]):
    """Of the devices that are there. ``fragmentation``: the mean of the GPUs in use; null where none is."""

    nodes = serializers.IntegerField()
    nodes_connected = serializers.IntegerField()
    devices = serializers.IntegerField()
    devices_in_use = serializers.IntegerField()
    devices_taking_new = serializers.IntegerField()
    simulated = serializers.IntegerField()
    replicas = serializers.IntegerField()
    fragmentation = serializers.FloatField(allow_null=True)
    units = serializers.IntegerField()
    units_taken = serializers.IntegerField()
    units_free = serializers.IntegerField()
    units_stranded = serializers.IntegerField()
    units_blocked = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    promised_bytes = serializers.IntegerField()
    memory_used_bytes = serializers.IntegerField()
    memory_measured_bytes = serializers.IntegerField()


class FleetMapSerializer(serializers.Serializer[Any]):
    totals = MapTotalsSerializer()
    gpus = MapGpuSerializer(many=True)
