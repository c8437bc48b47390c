"""REST: the fleet as it is drawn."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.query import KnownQuery
from berth.api.views import IsOperator
from berth.fleet.map_serializers import FleetMapSerializer
from berth.fleet.picture import picture


class FleetMapView(KnownQuery):
    permission_classes = [IsAuthenticated, IsOperator]

    @extend_schema(
        operation_id="fleet_map",
        parameters=[OpenApiParameter("node", str, description="a node's id; absent: all")],
        responses=FleetMapSerializer,
    )
    def get(self, request: Request) -> Response:
        """Every device with its units in order, who sits there and why, what is free, stranded or blocked; no pages."""
        return Response(picture(request.query_params.get("node") or None))
