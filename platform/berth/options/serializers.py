"""How options look on the wire."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from berth.options.registry import GROUPS, KINDS


@extend_schema_field(OpenApiTypes.ANY)
class ValueField(serializers.Field[Any, Any, Any, Any]):
    """Any scalar; the option itself says which."""

    def to_internal_value(self, data: Any) -> Any:
        return data

    def to_representation(self, value: Any) -> Any:
        return value


class SettingSerializer(serializers.Serializer[Any]):
    """``low`` and ``high`` bound a number, or the length of a text. ``changed_at`` is empty while the default holds."""

    key = serializers.CharField()
    value = ValueField()
    default = ValueField()
    kind = serializers.ChoiceField(choices=KINDS)
    unit = serializers.CharField()
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    choices = serializers.ListField(child=serializers.CharField())
    description = serializers.CharField()
    group = serializers.ChoiceField(choices=GROUPS)
    changed_at = serializers.DateTimeField(allow_null=True)
    changed_by = serializers.CharField(allow_null=True)


class SettingChangeSerializer(serializers.Serializer[Any]):
    value = ValueField(allow_null=True, help_text="null takes the default again")


class PublicSettingsSerializer(serializers.Serializer[Any]):
    console_name = serializers.CharField()
    currency = serializers.CharField()
