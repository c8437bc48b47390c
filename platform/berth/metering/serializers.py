"""How usage and goodput look on the wire."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from berth.metering.models import UsageRecord
from berth.metering.summaries import GROUPS, SUMS

_COUNTS = tuple(name for name in SUMS if name != "cost")


class UsageSerializer(serializers.ModelSerializer[UsageRecord]):
    """``cost``: decimal text in the platform's currency, exact."""

    tenant = serializers.CharField(source="tenant_id")
    deployment = serializers.CharField(source="deployment_id")
    key = serializers.CharField(source="key_id")
    member = serializers.CharField(source="member_id", help_text="who made the key")
    replica = serializers.CharField(source="replica_id")
    contract = serializers.CharField(source="contract_id")

    class Meta:
        model = UsageRecord
        fields = [
            "request_id", "tenant", "deployment", "deployment_name", "key", "member", "replica", "contract",
            "contract_version", "class_name", "arrived_at", "stream", "outcome", "finish_reason", "status",
            "counted_by", "prompt_tokens", "cached_tokens", "new_prompt_tokens", "completion_tokens", "offered", "good",
            "compatible", "reason", "ttft_us", "ttft_limit_us", "tpot_us", "tpot_limit_us", "fluidity",
            "fluidity_floor", "e2e_us", "e2e_limit_us", "queue_ms", "prefill_ms", "decode_ms", "preemptions", "ideal_s",
            "executed_ideal_s", "burst", "cost",
        ]  # fmt: skip
        read_only_fields = fields


class UsageSumsSerializer(serializers.Serializer[Any]):
    """``cost``: decimal text in ``currency``, the exact sum of the records'."""

    requests = serializers.IntegerField()
    offered = serializers.IntegerField()
    good = serializers.IntegerField()
    prompt_tokens = serializers.IntegerField()
    cached_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    good_tokens = serializers.IntegerField()
    cost = serializers.DecimalField(max_digits=28, decimal_places=10)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """By hand: of a month of hours by class, thousands of rows, field by field takes longer than the database."""
        return {name: int(instance[name]) for name in _COUNTS} | {"cost": f"{instance['cost']:.10f}"}


class UsagePartSerializer(serializers.Serializer[Any]):
    group = serializers.ChoiceField(choices=GROUPS)
    key = serializers.CharField(allow_blank=True)
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]


class UsageGroupSerializer(UsageSumsSerializer):
    """``by``: one part a group; ``key`` and ``label`` are the first's. An empty key: unknown."""

    key = serializers.CharField(allow_blank=True)
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    by = UsagePartSerializer(many=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        named = {name: instance[name] for name in ("key", "label", "by")}
        return named | super().to_representation(instance)


class UsageSummarySerializer(serializers.Serializer[Any]):
    """``total``: of all, also of rows beyond the most that are shown (``truncated``)."""

    groups = serializers.ListField(child=serializers.ChoiceField(choices=GROUPS))
    rows = UsageGroupSerializer(many=True)
    total = UsageSumsSerializer()
    truncated = serializers.BooleanField()
    currency = serializers.CharField()


class PercentilesSerializer(serializers.Serializer[Any]):
    p50 = serializers.FloatField(allow_null=True)
    p95 = serializers.FloatField(allow_null=True)


class FactorsSerializer(serializers.Serializer[Any]):
    """η = U·E·R·A (docs/goodput.md); null where the denominator is zero."""

    eta = serializers.FloatField(allow_null=True)
    U = serializers.FloatField(allow_null=True)
    E = serializers.FloatField(allow_null=True)
    R = serializers.FloatField(allow_null=True)
    A = serializers.FloatField(allow_null=True)


class GoodputFiguresSerializer(serializers.Serializer[Any]):
    """``goodput``: good output tokens per provisioned device-second. ``late``: bad requests by reason."""

    offered = serializers.IntegerField()
    good = serializers.IntegerField()
    late = serializers.DictField(child=serializers.IntegerField())
    over_quota = serializers.IntegerField()
    left_early = serializers.IntegerField()
    invalid = serializers.IntegerField()
    tokens = serializers.IntegerField()
    good_tokens = serializers.IntegerField()
    goodput = serializers.FloatField(allow_null=True)
    attainment = serializers.FloatField(allow_null=True)
    ttft_ms = PercentilesSerializer()
    tpot_ms = PercentilesSerializer()
    fluidity_p5 = serializers.FloatField(allow_null=True)
    factors = FactorsSerializer()


class GoodputMinuteSerializer(GoodputFiguresSerializer):
    minute = serializers.DateTimeField()


class GoodputSerializer(serializers.Serializer[Any]):
    minutes = GoodputMinuteSerializer(many=True)
    total = GoodputFiguresSerializer()
    classes = serializers.DictField(child=GoodputFiguresSerializer())
    deployments = serializers.DictField(child=GoodputFiguresSerializer())
