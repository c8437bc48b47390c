"""REST: how well what was promised is kept, how much of the error budget is left, and what broke the promise."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.authentication import ManagementKey, Session
from berth.api.views import person
from berth.api.writes import CarefulWrites
from berth.metering import attainment
from berth.metering.attainment import GROUPS, VIOLATION_GROUPS, Question
from berth.metering.filters import CellsQuery
from berth.metering.sla_serializers import AttainmentSerializer, ViolationsSerializer
from berth.metering.spans import DAY, HOUR, MINUTE, ceil, floor
from berth.tenants.selectors import scope_of

STEPS = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY)
MAX_POINTS = 1500
USUAL_POINTS = 300
LONGEST = timedelta(days=400)
SHOWN = timedelta(days=1)

_WHICH = [
    OpenApiParameter("tenant"),
    OpenApiParameter("deployment"),
    OpenApiParameter("class", description="its name"),
    OpenApiParameter("from", OpenApiTypes.DATETIME, description="absent: a day before `to`"),
    OpenApiParameter("to", OpenApiTypes.DATETIME, description="absent: now"),
]


class AttainmentQuery(CellsQuery):
    step = serializers.ChoiceField(required=False, choices=STEPS)
    group = serializers.ChoiceField(required=False, default="class", choices=GROUPS)


class ViolationsQuery(CellsQuery):
    group = serializers.ChoiceField(required=False, default="reason", choices=VIOLATION_GROUPS)


class _Asked(CarefulWrites):
    authentication_classes = [ManagementKey, Session]

    def ask(self, request: Request, query_class: type[CellsQuery]) -> tuple[Question, dict[str, Any]]:
        query = query_class(data=request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        end = ceil(asked.get("to") or timezone.now(), MINUTE)
        start = floor(asked.get("from") or end - SHOWN, MINUTE)
        if not start < end <= start + LONGEST:
            raise serializers.ValidationError({"from": f"Expected up to {LONGEST.days} days before {end.isoformat()}"})
        scope = scope_of(person(request), asked.get("tenant"))
        return Question(scope, start, end, asked.get("deployment", ""), asked.get("class", "")), asked


class AttainmentView(_Asked):
    @extend_schema(
        operation_id="slas_attainment",
        parameters=[
            *_WHICH,
            OpenApiParameter("step", OpenApiTypes.INT, enum=STEPS, description="seconds; absent: by the span"),
            OpenApiParameter("group", enum=GROUPS, default="class"),
        ],
        responses=AttainmentSerializer,
    )
    def get(self, request: Request) -> Response:
        """A request counts in the minute it ended. Times are widened to whole minutes."""
        question, asked = self.ask(request, AttainmentQuery)
        step = _step(question, asked.get("step"))
        found = attainment.attainment(question, step=step, group=asked["group"])
        return Response(AttainmentSerializer(found).data)


class ViolationsView(_Asked):
    @extend_schema(
        operation_id="slas_violations",
        parameters=[*_WHICH, OpenApiParameter("group", enum=VIOLATION_GROUPS, default="reason")],
        responses=ViolationsSerializer,
    )
    def get(self, request: Request) -> Response:
        """Bad requests by what made them bad; ``requests?verdict=late&reason=`` lists them."""
        question, asked = self.ask(request, ViolationsQuery)
        return Response(ViolationsSerializer(attainment.violations(question, group=asked["group"])).data)


def _step(question: Question, asked: int | None) -> int:
    seconds = (question.end - question.start).total_seconds()
    if asked is None:
        return next((step for step in STEPS if seconds <= step * USUAL_POINTS), DAY)
    if seconds > asked * MAX_POINTS:
        raise serializers.ValidationError({"step": f"More than {MAX_POINTS} points: take a longer step"})
    return asked
