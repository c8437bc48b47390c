"""What lists and sums of usage are narrowed by. Moments are UTC, whatever offset they are given in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import django_filters
import django_filters.fields
from django.core.exceptions import ValidationError
from rest_framework import serializers

from berth.api.views import TenantFilter
from berth.metering.requests import ASKED_VERDICTS, with_verdict
from gpuruntime.goodput import Outcome, Reason

FIRST_YEAR, LAST_YEAR = 2000, 9000


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


class Moment(serializers.DateTimeField):
    """The same in a query that is no list's."""

    def to_internal_value(self, value: Any) -> datetime:
        moment: datetime = super().to_internal_value(value).astimezone(UTC)
        if not FIRST_YEAR <= moment.year < LAST_YEAR:
            raise serializers.ValidationError(f"Expected a moment between the years {FIRST_YEAR} and {LAST_YEAR}")
        return moment


class UsageFilter(TenantFilter):
    deployment = django_filters.CharFilter(field_name="deployment_id")
    key = django_filters.CharFilter(field_name="key_id")
    member = django_filters.CharFilter(field_name="member_id", help_text="who made the key")
    replica = django_filters.CharFilter(field_name="replica_id")
    outcome = django_filters.ChoiceFilter(choices=[(one.value, one.value) for one in Outcome])


class RequestFilter(UsageFilter):
    verdict = django_filters.ChoiceFilter(
        choices=[(name, name) for name in ASKED_VERDICTS], method="_judged", help_text="bad: late or error"
    )
    reason = django_filters.ChoiceFilter(choices=[(one.value, one.value) for one in Reason])

    def _judged(self, queryset: Any, name: str, value: str) -> Any:
        return with_verdict(queryset, value)


# Names that are Python's own words.
for _filter in (UsageFilter, RequestFilter):
    _filter.base_filters["class"] = django_filters.CharFilter(field_name="class_name", help_text="its name")
    _filter.base_filters["from"] = MomentFilter(field_name="arrived_at", lookup_expr="gte")
    _filter.base_filters["to"] = MomentFilter(field_name="arrived_at", lookup_expr="lt")


class CellsQuery(serializers.Serializer[Any]):
    """Which tenant's, deployment's and so on; absent: all that one may see."""

    tenant = serializers.CharField(required=False, max_length=32)
    deployment = serializers.CharField(required=False, max_length=32)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        fields["class"] = serializers.CharField(required=False, max_length=40, help_text="its name")
        fields["from"] = Moment(required=False)
        fields["to"] = Moment(required=False)
        return fields

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        start, end = attrs.get("from"), attrs.get("to")
        if start is not None and end is not None and start > end:
            raise serializers.ValidationError({"to": f"It lies before from, {start.isoformat()}"})
        return attrs
