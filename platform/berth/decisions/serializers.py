"""How decisions look on the wire."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from berth.decisions.models import Decision


class CandidateSerializer(serializers.Serializer[Any]):
    """A device as it was then. ``score``: the higher was taken; null where it did not fit. ``slot`` and ``start``: what
    it would have taken of a GPU that is cut; empty and null of others, and in decisions from before GPUs were.
    """

    device_id = serializers.CharField()
    device = serializers.CharField()
    node_id = serializers.CharField()
    node = serializers.CharField()
    fits = serializers.BooleanField()
    why_not = serializers.CharField()
    score = serializers.FloatField(allow_null=True)
    score_why = serializers.CharField()
    free_bytes = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    units_free = serializers.IntegerField()
    units_needed = serializers.IntegerField()
    slot = serializers.CharField(required=False)
    start = serializers.IntegerField(required=False, allow_null=True)


class DecisionSerializer(serializers.ModelSerializer[Decision]):
    """``count`` and ``last_at``: a refusal that stayed the same is one row. ``inputs`` depend on the kind."""

    tenant = serializers.CharField(source="tenant_id")
    deployment = serializers.CharField(source="deployment_id")
    replica = serializers.CharField(source="replica_id")
    node = serializers.CharField(source="node_id")
    inputs = serializers.DictField()
    candidates = serializers.SerializerMethodField()
    chosen = serializers.SerializerMethodField()

    class Meta:
        model = Decision
        fields = [
            "id", "tenant", "kind", "deployment", "deployment_name", "replica", "node", "node_name", "summary", "why",
            "inputs", "candidates", "chosen", "at", "last_at", "count",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(CandidateSerializer(many=True))
    def get_candidates(self, row: Decision) -> Any:
        return row.candidates

    @extend_schema_field(CandidateSerializer(allow_null=True))
    def get_chosen(self, row: Decision) -> Any:
        return row.chosen
