"""How attainment, error budgets and violations look on the wire."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from berth.metering.attainment import GROUPS, VIOLATION_GROUPS


class TailSerializer(serializers.Serializer[Any]):
    p50 = serializers.FloatField(allow_null=True)
    p95 = serializers.FloatField(allow_null=True)
    p99 = serializers.FloatField(allow_null=True)


class BudgetSerializer(serializers.Serializer[Any]):
    """``target``: the share that should be good; ``allowed``: how many of the span's may be bad, ``bad``: how many are.

    ``budget_left`` = 1 - bad / allowed: 1 untouched, 0 used up, below 0 overspent. A burn rate is (1 - attainment) /
    (1 - target) of the hour, or the six hours, that end with the span; null where a target of 1 allows none.
    """

    target = serializers.FloatField(allow_null=True)
    attained = serializers.FloatField(allow_null=True)
    allowed = serializers.FloatField()
    bad = serializers.IntegerField()
    budget_left = serializers.FloatField(allow_null=True)
    burn_rate_1h = serializers.FloatField(allow_null=True)
    burn_rate_6h = serializers.FloatField(allow_null=True)


class AttainedSerializer(serializers.Serializer[Any]):
    """``late``: bad requests by reason. Percentiles are of all the span's requests, from added histograms."""

    offered = serializers.IntegerField()
    good = serializers.IntegerField()
    attainment = serializers.FloatField(allow_null=True)
    late = serializers.DictField(child=serializers.IntegerField())
    over_quota = serializers.IntegerField()
    tokens = serializers.IntegerField()
    good_tokens = serializers.IntegerField()
    ttft_ms = TailSerializer()
    tpot_ms = TailSerializer()
    budget = BudgetSerializer()


class AttainedGroupSerializer(AttainedSerializer):
    """``tenant``, ``deployment``, ``class_name``: what the group fixes, else null."""

    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    tenant = serializers.CharField(allow_null=True)
    deployment = serializers.CharField(allow_null=True)
    class_name = serializers.CharField(allow_null=True)


class AttainmentPointSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    offered = serializers.IntegerField()
    good = serializers.IntegerField()
    attainment = serializers.FloatField(allow_null=True)
    burn_rate = serializers.FloatField(allow_null=True)


class AttainmentSerializer(serializers.Serializer[Any]):
    step = serializers.IntegerField(help_text="seconds")
    group = serializers.ChoiceField(choices=GROUPS)
    total = AttainedSerializer()
    groups = AttainedGroupSerializer(many=True)
    series = AttainmentPointSerializer(many=True)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return _span() | super().get_fields()


class ViolationGroupSerializer(serializers.Serializer[Any]):
    """``share``: of all bad requests; ``offered``: of the group, or of the span when grouped by reason."""

    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    bad = serializers.IntegerField()
    share = serializers.FloatField()
    offered = serializers.IntegerField()
    reasons = serializers.DictField(child=serializers.IntegerField())


class ViolationTotalSerializer(serializers.Serializer[Any]):
    offered = serializers.IntegerField()
    bad = serializers.IntegerField()


class ViolationsSerializer(serializers.Serializer[Any]):
    group = serializers.ChoiceField(choices=VIOLATION_GROUPS)
    rows = ViolationGroupSerializer(many=True)
    total = ViolationTotalSerializer()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return _span() | super().get_fields()


def _span() -> dict[str, serializers.Field[Any, Any, Any, Any]]:
    """``from`` is Python's own word."""
    return {"from": serializers.DateTimeField(), "to": serializers.DateTimeField()}
