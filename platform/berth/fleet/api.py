"""REST: nodes, devices and slices, for operators."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import BerthViewSet, IsOperator
from berth.core.errors import Invalid
from berth.fleet import drains, history, selectors, services
from berth.fleet.domains import set_fault_domain
from berth.fleet.health import clear_gpu, fence_gpu
from berth.fleet.models import Gpu, Health, Node, Slice
from berth.fleet.serializers import (
    CreatedNodeSerializer,
    FenceSerializer,
    GpuSerializer,
    HistoryPointSerializer,
    NodeChangeSerializer,
    NodeCreateSerializer,
    NodeSerializer,
    SliceSerializer,
)

MINUTES = OpenApiParameter("minutes", int, description=f"how far back, 1 to {history.MOST_MINUTES}; 60 when absent")


class NodeFilter(django_filters.FilterSet):
    name = django_filters.CharFilter()
    cordoned = django_filters.BooleanFilter()
    draining = django_filters.BooleanFilter(field_name="drain_requested_at", lookup_expr="isnull", exclude=True)
    devices = django_filters.BooleanFilter(
        method="_with_devices", help_text="false: leaves `devices` empty; the map of the fleet has them in less"
    )

    def _with_devices(self, rows: QuerySet[Node], name: str, value: bool) -> QuerySet[Node]:
        return rows if value else selectors.without_devices(rows)


class NodeView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[Node]):
    queryset = Node.objects.none()
    serializer_class = NodeSerializer
    search_fields = ("name", "id", "address")
    ordering_fields = ("name", "provider", "last_seen_at", "created_at")
    filterset_class = NodeFilter
    permission_classes = [IsAuthenticated, IsOperator]

    def get_queryset(self) -> Any:
        return selectors.nodes()

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        drains.annotate_drains(page or [])
        return page

    def retrieve(self, request: Request, id: str) -> Response:
        node = self.get_object()
        drains.annotate_drains([node])
        return Response(NodeSerializer(node).data)

    @extend_schema(request=NodeCreateSerializer, responses={201: CreatedNodeSerializer})
    def create(self, request: Request) -> Response:
        node, token = services.create_node(**self.valid(NodeCreateSerializer), actor=self.actor)
        return Response({"node": self._shown(node), "token": token}, status=201)

    @extend_schema(request=NodeChangeSerializer, responses=NodeSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        node = self.get_object()
        values = self.valid(NodeChangeSerializer, partial=True)
        if "cordoned" in values:
            services.cordon_node(node=node, cordoned=values["cordoned"], actor=self.actor)
        if "fault_domain" in values:
            set_fault_domain(node=node, fault_domain=values["fault_domain"], actor=self.actor)
        return Response(self._shown(node))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        """Only a node on which nothing runs. Its agent's token opens nothing more."""
        services.delete_node(node=self.get_object(), actor=self.actor)
        return Response(status=204)

    @extend_schema(operation_id="nodes_cordon", request=None, responses=NodeSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def cordon(self, request: Request, id: str) -> Response:
        """It gets no new replica; what runs there goes on."""
        return Response(self._shown(services.cordon_node(node=self.get_object(), cordoned=True, actor=self.actor)))

    @extend_schema(operation_id="nodes_uncordon", request=None, responses=NodeSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def uncordon(self, request: Request, id: str) -> Response:
        """It takes replicas again. Ends a drain: what has not left yet stays."""
        return Response(self._shown(services.cordon_node(node=self.get_object(), cordoned=False, actor=self.actor)))

    @extend_schema(operation_id="nodes_drain", request=None, responses=NodeSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def drain(self, request: Request, id: str) -> Response:
        """Cordons it; each replica ends once another is ready elsewhere, and finishes what it runs. See ``drain``."""
        return Response(self._shown(services.drain_node(node=self.get_object(), actor=self.actor)))

    def _shown(self, node: Node) -> Any:
        row = self.get_queryset().get(id=node.id)
        drains.annotate_drains([row])
        return NodeSerializer(row).data


class GpuFilter(django_filters.FilterSet):
    node = django_filters.CharFilter(field_name="node_id")
    kind = django_filters.CharFilter()
    present = django_filters.BooleanFilter()
    health = django_filters.ChoiceFilter(choices=Health.choices)


class GpuView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[Gpu]):
    """Devices of all nodes, with who sits where."""

    queryset = Gpu.objects.none()
    serializer_class = GpuSerializer
    search_fields = ("name", "uuid", "id", "node__name")
    ordering_fields = {
        "node": "node__name", "name": "name", "index": "index", "memory_bytes": "memory_bytes",
        "memory_used_bytes": "memory_used_bytes", "utilisation": "utilisation", "temperature_c": "temperature_c",
        "power_w": "power_w",
    }  # fmt: skip
    filterset_class = GpuFilter
    permission_classes = [IsAuthenticated, IsOperator]

    def get_queryset(self) -> Any:
        return selectors.devices().select_related("node")

    @extend_schema(operation_id="gpus_history", parameters=[MINUTES], responses=HistoryPointSerializer(many=True))
    @action(detail=True, methods=["get"], pagination_class=None, filterset_class=None, filter_backends=[])
    def history(self, request: Request, id: str) -> Response:
        """Memory used against promised, utilisation, temperature and power, oldest first. A silent time is a gap."""
        points = history.points(self.get_object(), _minutes(request))
        return Response(HistoryPointSerializer(points, many=True).data)

    @extend_schema(operation_id="gpus_fence", request=FenceSerializer, responses=GpuSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def fence(self, request: Request, id: str) -> Response:
        """Takes it out of use until it is cleared: what runs on it ends at once and is placed elsewhere."""
        gpu = self.get_object()
        return self._shown(fence_gpu(gpu=gpu, **self.valid(FenceSerializer), actor=self.actor))

    @extend_schema(operation_id="gpus_clear", request=None, responses=GpuSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def clear(self, request: Request, id: str) -> Response:
        """What was wrong is over: probation begins. 409 `still_faulty` while its driver says otherwise."""
        return self._shown(clear_gpu(gpu=self.get_object(), actor=self.actor))

    def _shown(self, gpu: Gpu) -> Response:
        return Response(GpuSerializer(self.get_queryset().get(id=gpu.id)).data)


class SliceFilter(django_filters.FilterSet):
    node = django_filters.CharFilter(field_name="gpu__node_id")
    gpu = django_filters.CharFilter(field_name="gpu_id")


class SliceView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[Slice]):
    """The parts that devices are cut into, with who sits on each."""

    queryset = Slice.objects.none()
    serializer_class = SliceSerializer
    search_fields = ("id", "profile", "gpu__name", "gpu__node__name")
    ordering_fields = {"node": "gpu__node__name", "memory_bytes": "memory_bytes", "created_at": "created_at"}
    filterset_class = SliceFilter
    permission_classes = [IsAuthenticated, IsOperator]

    def get_queryset(self) -> Any:
        return selectors.slices()


def _minutes(request: Request) -> int:
    text = request.query_params.get("minutes", "60")
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= history.MOST_MINUTES:
        raise Invalid(f"{text[:20]!r}: expected 1 to {history.MOST_MINUTES}", field="minutes")
    return int(text)
