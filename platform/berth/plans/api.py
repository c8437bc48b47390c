"""REST: how the fleet was packed anew, or why it was left alone."""

from __future__ import annotations

from typing import Any

import django_filters
from rest_framework import mixins
from rest_framework.permissions import IsAuthenticated

from berth.api.views import BerthViewSet, IsOperator
from berth.metering.filters import MomentFilter
from berth.plans import selectors
from berth.plans.models import Plan, PlanState
from berth.plans.serializers import KINDS, PlanLineSerializer, PlanSerializer


class PlanFilter(django_filters.FilterSet):
    kind = django_filters.MultipleChoiceFilter(choices=[(kind, kind) for kind in KINDS])
    state = django_filters.MultipleChoiceFilter(choices=PlanState.choices)


# ``from`` is a word of Python's.
PlanFilter.base_filters["from"] = MomentFilter(field_name="last_at", lookup_expr="gte")
PlanFilter.base_filters["to"] = MomentFilter(field_name="at", lookup_expr="lt")


class PlanView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[Plan]):
    """Every re-plan with its objective against the bound, what it moved and why; newest first.

    A list leaves out what only one plan's page shows: inputs, candidates, changes, waves and pending.
    """

    queryset = Plan.objects.none()
    serializer_class = PlanSerializer
    search_fields = ("why", "ended_why", "id")
    ordering_fields = ("at", "last_at", "gap", "moves", "seconds", "count")
    filterset_class = PlanFilter
    permission_classes = [IsAuthenticated, IsOperator]

    def get_queryset(self) -> Any:
        return selectors.lines() if self.action == "list" else selectors.plans()

    def get_serializer_class(self) -> Any:
        return PlanLineSerializer if self.action == "list" else PlanSerializer
