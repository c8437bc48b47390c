"""REST: budgets of keys, tenants and contracts, and how much of them is used."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.authentication import ManagementKey, Session
from berth.api.views import person
from berth.api.writes import CarefulWrites
from berth.metering.budgeted import KINDS, MOST, budgets_in_use
from berth.slas.prices import currency
from berth.tenants.selectors import scope_of


class BudgetsQuery(serializers.Serializer[Any]):
    tenant = serializers.CharField(required=False, max_length=32)
    kind = serializers.ChoiceField(choices=KINDS)


class SpendingBudgetSerializer(serializers.Serializer[Any]):
    """``id``: the key's, tenant's or contract's. ``amount`` and ``used``: decimal text, tokens or money."""

    kind = serializers.ChoiceField(choices=KINDS)
    id = serializers.CharField()
    tenant = serializers.CharField()
    name = serializers.CharField()
    unit = serializers.ChoiceField(choices=("tokens", "cost"))
    period = serializers.ChoiceField(choices=("day", "month"))
    amount = serializers.DecimalField(max_digits=28, decimal_places=10, normalize_output=True)
    used = serializers.DecimalField(max_digits=28, decimal_places=10, normalize_output=True)
    begins_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class SpendingBudgetsSerializer(serializers.Serializer[Any]):
    """``truncated``: there are more, left out here."""

    currency = serializers.CharField()
    budgets = SpendingBudgetSerializer(many=True)
    truncated = serializers.BooleanField()


class BudgetsView(CarefulWrites):
    authentication_classes = [ManagementKey, Session]

    @extend_schema(
        operation_id="budgets",
        parameters=[OpenApiParameter("tenant"), OpenApiParameter("kind", enum=KINDS, required=True)],
        responses=SpendingBudgetsSerializer,
        description=f"Of the {MOST} newest that have any, in the present day and month (UTC): what is booked.",
    )
    def get(self, request: Request) -> Response:
        query = BudgetsQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        found, truncated = budgets_in_use(scope_of(person(request), asked.get("tenant")), asked["kind"])
        answer = {"currency": currency(), "budgets": found, "truncated": truncated}
        return Response(SpendingBudgetsSerializer(answer).data)
