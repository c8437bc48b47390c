"""REST: the chargeback of whole hours, and the reconciliation of the records with the doors' counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import redis
from django.conf import settings
from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.authentication import ManagementKey, Session
from berth.api.views import IsOperator, person
from berth.api.writes import CarefulWrites
from berth.core.errors import BerthError, Invalid
from berth.core.periods import month_of
from berth.metering.accounting_serializers import ChargebackSerializer, ReconciliationSerializer
from berth.metering.api import CsvRenderer
from berth.metering.chargeback import BYS, chargeback, chargeback_csv
from berth.metering.filters import CellsQuery, Moment
from berth.metering.reconcile import reconcile
from berth.metering.spans import HOUR, ceil, floor
from berth.slas.prices import currency
from berth.tenants.selectors import scope_of

LONGEST = timedelta(days=400)
LONGEST_RECONCILED = timedelta(days=31)
_CELLS = {"deployment": "deployment_id", "key": "key_id", "member": "member_id", "class": "class_name"}


class StoreAway(BerthError):
    code = "store_unavailable"
    status = 503


class ChargebackQuery(CellsQuery):
    key = serializers.CharField(required=False, max_length=32)
    member = serializers.CharField(required=False, max_length=32)
    month = serializers.RegexField(r"^2\d{3}-(0[1-9]|1[0-2])$", required=False)
    by = serializers.ChoiceField(choices=BYS, required=False, default="key")


_MONTH = OpenApiParameter("month", description="as 2026-11, of UTC; absent: this month, unless from and to are given")
_WHICH = [
    OpenApiParameter("tenant"),
    OpenApiParameter("deployment"),
    OpenApiParameter("class", description="its name"),
    OpenApiParameter("key"),
    OpenApiParameter("member", description="who made the key"),
    OpenApiParameter("from", OpenApiTypes.DATETIME, description="a whole hour of UTC; arrived at or after"),
    OpenApiParameter("to", OpenApiTypes.DATETIME, description="a whole hour of UTC; arrived before"),
    OpenApiParameter("by", enum=BYS, default="key", description="what the lines are of, beside deployment and class"),
    _MONTH,
]


class _Chargeback(CarefulWrites):
    authentication_classes = [ManagementKey, Session]

    def found(self, request: Request) -> dict[str, Any]:
        query = ChargebackQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        start, end = _span(asked)
        cells = {column: asked[name] for name, column in _CELLS.items() if name in asked}
        return chargeback(scope_of(person(request), asked.get("tenant")), start, end, asked["by"], cells)


class ChargebackView(_Chargeback):
    @extend_schema(operation_id="usage_chargeback", parameters=_WHICH, responses=ChargebackSerializer)
    def get(self, request: Request) -> Response:
        """What to charge for whole hours: sealed ones, open ones, and corrections as lines of their own."""
        return Response(ChargebackSerializer({**self.found(request), "currency": currency()}).data)


class ChargebackCsvView(_Chargeback):
    renderer_classes = [JSONRenderer, CsvRenderer]

    @extend_schema(
        operation_id="usage_chargeback_csv", parameters=_WHICH, responses={(200, "text/csv"): OpenApiTypes.STR}
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """The same as CSV, a line each."""
        found = self.found(request)
        name = f"chargeback-{found['from']:%Y-%m-%dT%H}-{found['to']:%Y-%m-%dT%H}.csv"
        return StreamingHttpResponse(
            list(chargeback_csv(found, currency())),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
        )


def _span(asked: dict[str, Any]) -> tuple[datetime, datetime]:
    """[from, to), or the month's. Raises ``Invalid``."""
    start, end, month = asked.get("from"), asked.get("to"), asked.get("month")
    if month is not None and (start or end):
        raise Invalid("Say either month, or from and to", field="month")
    if start is None and end is None:
        at = datetime.fromisoformat(f"{month}-01T00:00:00+00:00") if month else timezone.now()
        begins, ends = (month_of(at.timestamp(), later) for later in (0, 1))
        return datetime.fromtimestamp(begins, UTC), datetime.fromtimestamp(ends, UTC)
    if start is None or end is None:
        raise Invalid("Say both from and to, or a month", field="to" if end is None else "from")
    for name, moment in (("from", start), ("to", end)):
        if floor(moment, HOUR) != moment:
            raise Invalid(f"{moment.isoformat()}: expected a whole hour of UTC", field=name)
    if end - start > LONGEST:
        raise Invalid(f"Expected at most {LONGEST.days} days", field="to")
    return start, end


class ReconciliationQuery(serializers.Serializer[Any]):
    deployment = serializers.CharField(required=False, max_length=32, default="")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return super().get_fields() | {"from": Moment(required=False), "to": Moment(required=False)}


class ReconciliationView(CarefulWrites):
    authentication_classes = [ManagementKey, Session]
    permission_classes = [IsAuthenticated, IsOperator]

    @extend_schema(
        operation_id="usage_reconciliation",
        parameters=[
            OpenApiParameter("deployment"),
            OpenApiParameter("from", OpenApiTypes.DATETIME, description="its hour; absent: a day before `to`"),
            OpenApiParameter("to", OpenApiTypes.DATETIME, description="the end of its hour; absent: now"),
        ],
        responses=ReconciliationSerializer,
    )
    def get(self, request: Request) -> Response:
        """Records against the doors' own counts, by deployment and hour of the door's clock. Operators only."""
        query = ReconciliationQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        end = ceil(asked.get("to") or timezone.now(), HOUR)
        start = floor(asked.get("from") or end - timedelta(days=1), HOUR)
        if not start < end <= start + LONGEST_RECONCILED:
            raise Invalid(f"Expected up to {LONGEST_RECONCILED.days} days before to", field="from")
        try:
            with redis.Redis.from_url(settings.REDIS_URL, decode_responses=True, socket_timeout=5) as client:
                found = reconcile(client, start, end, asked["deployment"])
        except redis.RedisError as error:
            raise StoreAway("Redis does not answer, so what waits there is not known; try again in a moment") from error
        return Response(ReconciliationSerializer(found).data)
