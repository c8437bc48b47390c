"""REST: what the scheduler decided, and why."""

from __future__ import annotations

from typing import Any

import django_filters
from rest_framework import mixins

from berth.api.views import TenantFilter, TenantViewSet
from berth.decisions import selectors
from berth.decisions.models import Decision, DecisionKind
from berth.decisions.serializers import DecisionSerializer
from berth.metering.filters import MomentFilter


class DecisionFilter(TenantFilter):
    deployment = django_filters.CharFilter(field_name="deployment_id")
    replica = django_filters.CharFilter(field_name="replica_id")
    node = django_filters.CharFilter(field_name="node_id")
    kind = django_filters.MultipleChoiceFilter(choices=DecisionKind.choices)


# ``from`` is a word of Python's.
DecisionFilter.base_filters["from"] = MomentFilter(field_name="last_at", lookup_expr="gte")
DecisionFilter.base_filters["to"] = MomentFilter(field_name="at", lookup_expr="lt")


class DecisionView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Decision]):
    """Placements, replacements, refusals, scalings and drains, newest first. Everyone in the tenant reads."""

    queryset = Decision.objects.none()
    serializer_class = DecisionSerializer
    search_fields = ("summary", "why", "deployment_name", "node_name", "id", "replica_id")
    ordering_fields = ("at", "last_at", "count")
    filterset_class = DecisionFilter

    def get_queryset(self) -> Any:
        return selectors.decisions(self.scope)
