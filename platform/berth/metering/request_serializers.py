"""How a request looks on the wire: a line in a list, and explained."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from berth.metering.explain import VERDICTS, sentence, verdict_of
from berth.metering.models import UsageRecord
from berth.metering.serializers import UsageSerializer
from berth.slas.serializers import TermsSerializer

PHASES = ("gateway", "waiting", "queued", "prefill", "decode")


class RequestLineSerializer(serializers.ModelSerializer[UsageRecord]):
    """Times in milliseconds; a limit that is null did not apply. ``sentence``: what became of it, and why."""

    tenant = serializers.CharField(source="tenant_id")
    tenant_name = serializers.SerializerMethodField()
    deployment = serializers.CharField(source="deployment_id")
    key = serializers.CharField(source="key_id")
    key_name = serializers.SerializerMethodField()
    member = serializers.CharField(source="member_id")
    member_name = serializers.SerializerMethodField()
    replica = serializers.CharField(source="replica_id")
    contract = serializers.CharField(source="contract_id")
    verdict = serializers.SerializerMethodField()
    sentence = serializers.SerializerMethodField()
    ttft_ms = serializers.SerializerMethodField()
    ttft_limit_ms = serializers.SerializerMethodField()
    tpot_ms = serializers.SerializerMethodField()
    tpot_limit_ms = serializers.SerializerMethodField()
    e2e_ms = serializers.SerializerMethodField()

    class Meta:
        model = UsageRecord
        fields = [
            "request_id", "arrived_at", "tenant", "tenant_name", "deployment", "deployment_name", "class_name", "key",
            "key_name", "member", "member_name", "replica", "place", "contract", "contract_version", "outcome",
            "status", "verdict", "reason", "sentence", "prompt_tokens", "cached_tokens", "completion_tokens",
            "ttft_ms", "ttft_limit_ms", "tpot_ms", "tpot_limit_ms", "fluidity", "e2e_ms", "queue_ms", "prefill_ms",
            "decode_ms", "cost",
        ]  # fmt: skip
        read_only_fields = fields

    def _name(self, kind: str, id_: str) -> str:
        return str(self.context.get("names", {}).get((kind, id_), ""))

    def get_tenant_name(self, row: UsageRecord) -> str:
        return self._name("tenant", row.tenant_id)

    def get_key_name(self, row: UsageRecord) -> str:
        return self._name("key", row.key_id)

    def get_member_name(self, row: UsageRecord) -> str:
        return self._name("member", row.member_id)

    @extend_schema_field(serializers.ChoiceField(choices=VERDICTS))
    def get_verdict(self, row: UsageRecord) -> str:
        return verdict_of(row)

    def get_sentence(self, row: UsageRecord) -> str:
        return sentence(row)

    def get_ttft_ms(self, row: UsageRecord) -> float | None:
        return _ms(row.ttft_us)

    def get_ttft_limit_ms(self, row: UsageRecord) -> float | None:
        return _ms(row.ttft_limit_us)

    def get_tpot_ms(self, row: UsageRecord) -> float | None:
        return _ms(row.tpot_us)

    def get_tpot_limit_ms(self, row: UsageRecord) -> float | None:
        return _ms(row.tpot_limit_us)

    def get_e2e_ms(self, row: UsageRecord) -> float | None:
        return _ms(row.e2e_us)


def _ms(value_us: float | None) -> float | None:
    return None if value_us is None else round(value_us / 1000, 3)


class ClauseSerializer(serializers.Serializer[Any]):
    """One part of the sentence: ``code`` and ``facts`` to say it in another language."""

    code = serializers.CharField()
    text = serializers.CharField()
    facts = serializers.DictField()


class PhaseSerializer(serializers.Serializer[Any]):
    """Milliseconds since the request had arrived."""

    phase = serializers.ChoiceField(choices=PHASES)
    start_ms = serializers.FloatField()
    end_ms = serializers.FloatField()


class WhereSerializer(serializers.Serializer[Any]):
    """``place``: node, device and slice in words, as they were; the replica's state is of now, null once forgotten."""

    replica = serializers.CharField(allow_blank=True)
    state = serializers.CharField(allow_null=True)
    reason = serializers.CharField(allow_null=True, allow_blank=True)
    node = serializers.CharField(allow_blank=True)
    slice = serializers.CharField(allow_blank=True)
    place = serializers.CharField(allow_blank=True)


class MeanwhileSerializer(serializers.Serializer[Any]):
    """What else was going on at its replica. At arrival, as the door counted; and until its end, from the records."""

    running_at_arrival = serializers.IntegerField(allow_null=True)
    queued_at_arrival = serializers.IntegerField(allow_null=True)
    requests = serializers.IntegerField(allow_null=True)
    of_tenant = serializers.IntegerField(allow_null=True)
    new_prompt_tokens = serializers.IntegerField(allow_null=True)


class RequestSerializer(serializers.Serializer[Any]):
    request_id = serializers.CharField()
    verdict = serializers.ChoiceField(choices=VERDICTS)
    sentence = serializers.CharField()
    clauses = ClauseSerializer(many=True)
    timeline = PhaseSerializer(many=True)
    summary = RequestLineSerializer()
    promised = TermsSerializer(allow_null=True)
    where = WhereSerializer()
    meanwhile = MeanwhileSerializer()
    record = UsageSerializer()
