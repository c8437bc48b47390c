"""REST: usage records and their sums, and goodput by the minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import django_filters
import django_filters.fields
from django.core.exceptions import ValidationError
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from berth.api.views import TenantFilter, TenantViewSet, person
from berth.metering import selectors
from berth.metering.models import UsageRecord
from berth.metering.serializers import GoodputSerializer, UsageSerializer, UsageSummarySerializer
from berth.tenants.selectors import scope_of

MAX_MINUTES = 7 * 24 * 60


class MomentField(django_filters.fields.IsoDateTimeField):
    """In UTC: PostgreSQL takes offsets only to 15:59, ISO 8601 to 23:59."""

    def clean(self, value: Any) -> datetime | None:
        moment: datetime | None = super().clean(value)
        try:
            return None if moment is None else moment.astimezone(UTC)
        except OverflowError as error:
            raise ValidationError("The moment lies outside the calendar") from error


class MomentFilter(django_filters.IsoDateTimeFilter):
    field_class = MomentField


class UsageFilter(TenantFilter):
    deployment = django_filters.CharFilter(field_name="deployment_id")
    key = django_filters.CharFilter(field_name="key_id")
    outcome = django_filters.CharFilter()


# Names that are Python's own words.
UsageFilter.base_filters["from"] = MomentFilter(field_name="arrived_at", lookup_expr="gte")
UsageFilter.base_filters["to"] = MomentFilter(field_name="arrived_at", lookup_expr="lt")


class GroupSerializer(serializers.Serializer[Any]):
    group = serializers.ChoiceField(choices=selectors.GROUPS, default="day")


class UsageView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[UsageRecord]):
    """One record a request, newest first; written once, never changed."""

    queryset = UsageRecord.objects.none()
    serializer_class = UsageSerializer
    search_fields = ("^request_id", "deployment_name")
    ordering_fields = ("arrived_at", "completion_tokens", "prompt_tokens", "ttft_us", "tpot_us", "e2e_us", "fluidity")
    filterset_class = UsageFilter
    default_ordering = "-request_id"
    lookup_field = "request_id"
    lookup_value_regex = r"[A-Za-z0-9_-]{1,40}"

    def get_queryset(self) -> Any:
        return selectors.usage(self.scope)

    @extend_schema(
        operation_id="usage_summary",
        parameters=[OpenApiParameter("group", enum=selectors.GROUPS, default="day")],
        responses=UsageSummarySerializer,
    )
    @action(detail=False, methods=["get"], pagination_class=None)
    def summary(self, request: Request) -> Response:
        asked = GroupSerializer(data=request.query_params)
        asked.is_valid(raise_exception=True)
        group = asked.validated_data["group"]
        records = self.filter_queryset(self.get_queryset())
        rows = selectors.summarize_usage(records, group, self.scope)
        return Response({"group": group, "rows": rows, "total": selectors.total_of(records)})


class GoodputQuery(serializers.Serializer[Any]):
    tenant = serializers.CharField(required=False, max_length=32)
    deployment = serializers.CharField(required=False, max_length=32, default="")
    minutes = serializers.IntegerField(required=False, default=60, min_value=1, max_value=MAX_MINUTES)


class GoodputView(APIView):
    @extend_schema(
        operation_id="goodput_retrieve",
        parameters=[
            OpenApiParameter("tenant"),
            OpenApiParameter("deployment"),
            OpenApiParameter("minutes", OpenApiTypes.INT, default=60),
        ],
        responses=GoodputSerializer,
    )
    def get(self, request: Request) -> Response:
        """A request counts in the minute it ended."""
        query = GoodputQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        scope = scope_of(person(request), asked.get("tenant"))
        since = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=asked["minutes"])
        found = selectors.goodput(scope, since=since, deployment_id=asked["deployment"])
        return Response(GoodputSerializer(found).data)
