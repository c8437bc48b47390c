"""The shapes of alerts and routes in REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from berth.alerts.models import Alert, DeliveryState, Kind, Route, Rule
from berth.tenants.serializers import TenantRefSerializer


class SubjectSerializer(serializers.Serializer[Any]):
    """What an alert is about: a deployment, a tenant or a node."""

    kind = serializers.CharField(source="subject_kind")
    id = serializers.CharField(source="subject_id")
    name = serializers.CharField(source="subject_name")


class AlertSerializer(serializers.ModelSerializer[Alert]):
    tenant = TenantRefSerializer(allow_null=True)
    rule = serializers.ChoiceField(choices=Rule.choices)
    title = serializers.CharField(source="get_rule_display")
    state = serializers.ChoiceField(choices=["firing", "resolved"])
    subject = SubjectSerializer(source="*")
    values = serializers.DictField()

    class Meta:
        model = Alert
        fields = [
            "id", "tenant", "rule", "title", "severity", "state", "summary", "subject", "values", "since", "fired_at",
            "seen_at", "resolved_at",
        ]  # fmt: skip
        read_only_fields = fields


class LastDeliverySerializer(serializers.Serializer[Any]):
    event = serializers.ChoiceField(choices=["firing", "resolved", "test"], source="last_event")
    state = serializers.ChoiceField(choices=DeliveryState.choices, source="last_state")
    error = serializers.CharField(source="last_error", allow_blank=True)
    at = serializers.DateTimeField(source="last_at")


class RouteSerializer(serializers.ModelSerializer[Route]):
    tenant = TenantRefSerializer(allow_null=True)
    events = serializers.ListField(child=serializers.ChoiceField(choices=Rule.choices))
    last_delivery = serializers.SerializerMethodField()

    class Meta:
        model = Route
        fields = [
            "id", "tenant", "name", "kind", "target", "events", "enabled", "created_at", "updated_at", "last_delivery",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(LastDeliverySerializer(allow_null=True))
    def get_last_delivery(self, route: Route) -> dict[str, Any] | None:
        if getattr(route, "last_state", None) is None:
            return None
        shown: dict[str, Any] = LastDeliverySerializer(route).data
        return shown


class RouteCreateSerializer(serializers.Serializer[Any]):
    """``tenant`` null: a route of the platform's operators. ``events`` empty: all."""

    tenant = serializers.CharField(allow_null=True, max_length=32)
    kind = serializers.ChoiceField(choices=Kind.choices)
    target = serializers.CharField(max_length=500)
    name = serializers.CharField(max_length=80, required=False, allow_blank=True)
    events = serializers.ListField(child=serializers.ChoiceField(choices=Rule.choices), required=False, max_length=20)
    enabled = serializers.BooleanField(required=False)


class RouteChangeSerializer(serializers.Serializer[Any]):
    target = serializers.CharField(max_length=500, required=False)
    name = serializers.CharField(max_length=80, required=False, allow_blank=True)
    events = serializers.ListField(child=serializers.ChoiceField(choices=Rule.choices), required=False, max_length=20)
    enabled = serializers.BooleanField(required=False)


class CreatedRouteSerializer(serializers.Serializer[Any]):
    """``secret`` is what a webhook's signature is made with (Standard Webhooks), null for mail. Shown this once."""

    route = RouteSerializer()
    secret = serializers.CharField(allow_null=True)


class RouteTestSerializer(serializers.Serializer[Any]):
    """The message's id; how it went stands in the route's ``last_delivery`` a moment later."""

    delivery = serializers.CharField()
