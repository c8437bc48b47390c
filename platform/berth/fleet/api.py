"""REST: nodes and devices, for operators."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import BerthViewSet, IsOperator
from berth.fleet import selectors, services
from berth.fleet.models import Gpu, Node, Seat

# An agent reports every 5 s.
OFFLINE_AFTER = timedelta(seconds=15)


class SeatSerializer(serializers.ModelSerializer[Seat]):
    replica = serializers.CharField(source="replica_id")
    deployment = serializers.CharField(source="replica.deployment_id")
    deployment_name = serializers.CharField(source="replica.deployment.name")
    tenant = serializers.CharField(source="replica.tenant_id")
    units = serializers.SerializerMethodField()

    class Meta:
        model = Seat
        fields = ["id", "replica", "deployment", "deployment_name", "tenant", "memory_bytes", "units", "created_at"]
        read_only_fields = fields

    def get_units(self, seat: Seat) -> list[int]:
        return sorted(unit.index for unit in seat.slice.units.all())


class GpuSerializer(serializers.ModelSerializer[Gpu]):
    units_free = serializers.IntegerField()
    seats = serializers.SerializerMethodField()

    class Meta:
        model = Gpu
        fields = [
            "id", "index", "uuid", "name", "kind", "memory_bytes", "memory_used_bytes", "utilisation", "temperature_c",
            "power_w", "present", "units", "units_free", "seats",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(SeatSerializer(many=True))
    def get_seats(self, gpu: Gpu) -> Any:
        seats = [seat for slice_ in gpu.slices.all() for seat in slice_.seats.all()]
        return SeatSerializer(seats, many=True).data


class NodeSerializer(serializers.ModelSerializer[Node]):
    online = serializers.SerializerMethodField()
    devices = GpuSerializer(many=True, source="gpus")

    class Meta:
        model = Node
        fields = [
            "id", "name", "provider", "address", "agent_version", "cpu_count", "memory_bytes", "cordoned", "online",
            "generation", "observed_generation", "connected_at", "last_seen_at", "created_at", "devices",
        ]  # fmt: skip
        read_only_fields = fields

    def get_online(self, node: Node) -> bool:
        return node.last_seen_at is not None and node.last_seen_at > timezone.now() - OFFLINE_AFTER


class NodeCreateSerializer(serializers.Serializer[Node]):
    name = serializers.SlugField(max_length=63)


class NodeChangeSerializer(serializers.Serializer[Node]):
    cordoned = serializers.BooleanField(required=False)


class CreatedNodeSerializer(serializers.Serializer[Node]):
    """The only time the token is told."""

    node = NodeSerializer()
    token = serializers.CharField()


class NodeView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[Node]):
    queryset = Node.objects.none()
    serializer_class = NodeSerializer
    search_fields = ("name", "id", "address")
    ordering_fields = ("name", "provider", "last_seen_at", "created_at")
    permission_classes = [IsAuthenticated, IsOperator]

    def get_queryset(self) -> Any:
        return selectors.nodes()

    @extend_schema(request=NodeCreateSerializer, responses={201: CreatedNodeSerializer})
    def create(self, request: Request) -> Response:
        node, token = services.create_node(**self.valid(NodeCreateSerializer), actor=self.actor)
        return Response({"node": NodeSerializer(self.get_queryset().get(id=node.id)).data, "token": token}, status=201)

    @extend_schema(request=NodeChangeSerializer, responses=NodeSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        node = self.get_object()
        values = self.valid(NodeChangeSerializer, partial=True)
        if "cordoned" in values:
            services.cordon_node(node=node, cordoned=values["cordoned"], actor=self.actor)
        return Response(NodeSerializer(self.get_queryset().get(id=id)).data)
