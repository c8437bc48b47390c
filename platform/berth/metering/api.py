"""REST: usage records, their sums and their export; and goodput by the minute."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import timedelta
from typing import Any

from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.query import KnownQuery
from berth.api.views import TenantViewSet, person
from berth.core.errors import Invalid
from berth.metering import selectors, summaries
from berth.metering.export import records_csv, summary_csv
from berth.metering.filters import CellsQuery, UsageFilter
from berth.metering.models import UsageRecord
from berth.metering.serializers import GoodputSerializer, UsageSerializer, UsageSummarySerializer
from berth.slas.prices import currency
from berth.tenants.selectors import scope_of

MAX_MINUTES = 7 * 24 * 60
MAX_GROUPS = 2
_CELLS = {"deployment": "deployment_id", "key": "key_id", "member": "member_id", "class": "class_name"}


class SummaryQuery(CellsQuery):
    """``group``: one or two of the groups, repeated or split by a comma."""

    key = serializers.CharField(required=False, max_length=32)
    member = serializers.CharField(required=False, max_length=32)


class CsvRenderer(JSONRenderer):
    """So that ``Accept: text/csv`` is understood. What is streamed renders itself; an error is JSON all the same."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"


_GROUP = OpenApiParameter(
    "group", many=True, enum=summaries.GROUPS, default="day", description="one or two, in the order of the rows"
)
_WHICH = [
    OpenApiParameter("tenant"),
    OpenApiParameter("deployment"),
    OpenApiParameter("class", description="its name"),
    OpenApiParameter("key"),
    OpenApiParameter("member", description="who made the key"),
    OpenApiParameter("from", OpenApiTypes.DATETIME, description="arrived at or after"),
    OpenApiParameter("to", OpenApiTypes.DATETIME, description="arrived before"),
]


class UsageView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[UsageRecord]):
    """One record a request, newest first; written once, never changed."""

    queryset = UsageRecord.objects.none()
    serializer_class = UsageSerializer
    search_fields = ("^request_id", "deployment_name")
    ordering_fields = ("arrived_at", "completion_tokens", "prompt_tokens", "ttft_us", "tpot_us", "e2e_us", "fluidity")
    filterset_class = UsageFilter
    default_ordering = "-arrived_at"
    lookup_field = "request_id"
    lookup_value_regex = r"[A-Za-z0-9_-]{1,40}"

    def get_queryset(self) -> Any:
        return selectors.usage(self.scope)

    @extend_schema(
        operation_id="usage_summary", filters=False, parameters=[*_WHICH, _GROUP], responses=UsageSummarySerializer
    )
    @action(detail=False, methods=["get"], pagination_class=None, filter_backends=[])
    def summary(self, request: Request) -> Response:
        """Sums by one or two groups, days and hours in UTC by arrival: exactly those of the records."""
        found = summaries.summarize(self._span(), self._groups() or ["day"])
        return Response(UsageSummarySerializer({**found, "currency": currency()}).data)

    @extend_schema(
        operation_id="usage_export",
        filters=False,
        parameters=[*_WHICH, _GROUP],
        responses={(200, "text/csv"): OpenApiTypes.STR},
    )
    @action(
        detail=False,
        methods=["get"],
        url_path="export.csv",
        pagination_class=None,
        filter_backends=[],
        renderer_classes=[JSONRenderer, CsvRenderer],
    )
    def export(self, request: Request) -> StreamingHttpResponse:
        """A line a request, oldest first; with ``group`` a line a group, as in the summary."""
        span, groups = self._span(), self._groups()
        body: AsyncIterator[bytes] | Iterable[bytes]
        if groups:
            found = summaries.summarize(span, groups)
            if found["truncated"]:
                most = summaries.MAX_ROWS
                raise Invalid(f"There are more than {most} rows: narrow from and to, or group by less", field="group")
            body = list(summary_csv(found, currency()))
        else:
            body = records_csv(span.records(timezone.now()), currency())
        what = "-".join(["usage-by", *groups]) if groups else "requests"
        name = f"{what}-{timezone.now():%Y-%m-%d}.csv"
        return StreamingHttpResponse(
            body,
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
        )

    def _span(self) -> summaries.Span:
        query = SummaryQuery(data=self.request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        cells = {column: asked[name] for name, column in _CELLS.items() if name in asked}
        return summaries.Span(self.scope, asked.get("from"), asked.get("to"), cells)

    def _groups(self) -> list[str]:
        given = ",".join(self.request.query_params.getlist("group"))
        groups = [part.strip() for part in given.split(",") if part.strip()]
        for group in groups:
            if group not in summaries.GROUPS:
                raise Invalid(f"{group!r}: expected one of {', '.join(summaries.GROUPS)}", field="group")
        if len(groups) > MAX_GROUPS or len(set(groups)) < len(groups):
            raise Invalid(f"At most {MAX_GROUPS} groups, each once", field="group")
        return groups


class GoodputQuery(serializers.Serializer[Any]):
    tenant = serializers.CharField(required=False, max_length=32)
    deployment = serializers.CharField(required=False, max_length=32, default="")
    minutes = serializers.IntegerField(required=False, default=60, min_value=1, max_value=MAX_MINUTES)


class GoodputView(KnownQuery):
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
