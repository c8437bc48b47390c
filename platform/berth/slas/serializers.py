"""How service classes and contracts look on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from berth.core.budgets import BUDGETS, MAX_COST, MAX_TOKENS
from berth.deployments.models import Deployment
from berth.slas import prices
from berth.slas.models import PRICE_FIELDS, Contract, Isolation, ServiceClass, WhenLate
from berth.slas.tiers import TIERS
from berth.tenants.serializers import TenantRefSerializer

_MAX_INT = 2_147_483_647
STATES = ("scheduled", "current", "ended", "replaced")


class PricesSerializer(serializers.Serializer[Any]):
    """Of a million tokens, decimal text; ``cached``: prompt tokens found in the prefix cache."""

    input = serializers.DecimalField(max_digits=12, decimal_places=4)
    cached = serializers.DecimalField(max_digits=12, decimal_places=4)
    output = serializers.DecimalField(max_digits=12, decimal_places=4)


class PricesWriteSerializer(serializers.Serializer[Any]):
    input = serializers.DecimalField(required=False, max_digits=12, decimal_places=4, min_value=0)
    cached = serializers.DecimalField(required=False, max_digits=12, decimal_places=4, min_value=0)
    output = serializers.DecimalField(required=False, max_digits=12, decimal_places=4, min_value=0)


def prices_of(terms: Mapping[str, Any]) -> dict[str, str]:
    return {name.removeprefix("price_"): str(terms.get(name, "0.0000")) for name in PRICE_FIELDS}


class TermsSerializer(serializers.Serializer[Any]):
    """What one version of a contract promises, as its class was when the version was made."""

    base_ms = serializers.IntegerField(allow_null=True)
    free_prompt_tokens = serializers.IntegerField()
    prefill_tokens_per_s = serializers.IntegerField(allow_null=True)
    tpot_ms = serializers.IntegerField(allow_null=True)
    stretch_tpot_ms = serializers.IntegerField(allow_null=True)
    fluidity_floor = serializers.FloatField()
    attainment_target = serializers.FloatField()
    e2e_ms = serializers.IntegerField(allow_null=True)
    isolation = serializers.ChoiceField(choices=Isolation.choices)
    price_per_million = PricesSerializer()
    currency = serializers.CharField()


def terms_of(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Versions from before there was isolation asked for none beyond the least."""
    shown = {"isolation": Isolation.TIME_SLICE.value}
    shown |= {name: value for name, value in terms.items() if name not in PRICE_FIELDS}
    return shown | {"price_per_million": prices_of(terms), "currency": prices.currency()}


class ServiceClassSerializer(serializers.ModelSerializer[ServiceClass]):
    price_per_million = serializers.SerializerMethodField()
    currency = serializers.SerializerMethodField()

    class Meta:
        model = ServiceClass
        fields = [
            "id", "name", "description", "base_ms", "free_prompt_tokens", "prefill_tokens_per_s", "tpot_ms",
            "stretch_tpot_ms", "fluidity_floor", "attainment_target", "e2e_ms", "isolation", "price_per_million",
            "currency", "created_at",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(PricesSerializer)
    def get_price_per_million(self, row: ServiceClass) -> dict[str, str]:
        return prices_of(row.terms())

    @extend_schema_field(serializers.CharField())
    def get_currency(self, row: ServiceClass) -> str:
        return prices.currency()


class ServiceClassDetailSerializer(ServiceClassSerializer):
    """``contracts_open``: how many contracts name it, in force or scheduled."""

    contracts_open = serializers.IntegerField(read_only=True)

    class Meta(ServiceClassSerializer.Meta):
        fields = [*ServiceClassSerializer.Meta.fields, "contracts_open"]
        read_only_fields = fields


class ServiceClassWriteSerializer(serializers.ModelSerializer[ServiceClass]):
    name = serializers.SlugField(max_length=40)
    base_ms = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    prefill_tokens_per_s = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    tpot_ms = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    stretch_tpot_ms = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    fluidity_floor = serializers.FloatField(required=False, min_value=0, max_value=1)
    attainment_target = serializers.FloatField(required=False, min_value=0, max_value=1)
    e2e_ms = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=1 << 53)
    isolation = serializers.ChoiceField(required=False, choices=Isolation.choices)
    price_per_million = PricesWriteSerializer(required=False)

    class Meta:
        model = ServiceClass
        fields = [
            "name", "description", "base_ms", "free_prompt_tokens", "prefill_tokens_per_s", "tpot_ms",
            "stretch_tpot_ms", "fluidity_floor", "attainment_target", "e2e_ms", "isolation", "price_per_million",
        ]  # fmt: skip

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """As the services take it: one value a price."""
        given = attrs.pop("price_per_million", {})
        return attrs | {f"price_{name}": value for name, value in given.items()}


class ServiceClassChangeSerializer(ServiceClassWriteSerializer):
    class Meta(ServiceClassWriteSerializer.Meta):
        fields = [name for name in ServiceClassWriteSerializer.Meta.fields if name != "name"]

    name = None  # type: ignore[assignment]


class ContractDeploymentSerializer(serializers.ModelSerializer[Deployment]):
    class Meta:
        model = Deployment
        fields = ["id", "name"]
        read_only_fields = fields


class TierSerializer(serializers.Serializer[Any]):
    """A class that the contract allows beside its own, asked for as ``service_tier``."""

    tier = serializers.ChoiceField(choices=TIERS)
    class_id = serializers.CharField()
    class_name = serializers.CharField()
    terms = TermsSerializer()


def tiers_shown(tiers: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"tier": name, "class_id": kept["class_id"], "class_name": kept["class"], "terms": terms_of(kept["terms"])}
        for name, kept in tiers.items()
    ]


class ContractSerializer(serializers.ModelSerializer[Contract]):
    """One version. ``state``: scheduled, current, ended, or replaced before it came into force."""

    tenant = TenantRefSerializer()
    deployment = ContractDeploymentSerializer()
    service_class = ServiceClassSerializer()
    terms = serializers.SerializerMethodField()
    tiers = serializers.SerializerMethodField()
    state = serializers.SerializerMethodField()

    class Meta:
        model = Contract
        fields = [
            "id", "tenant", "deployment", "service_class", "version", "state", "terms", "tiers",
            "guaranteed_requests_per_min", "guaranteed_tokens_per_min", "burst_requests_per_min",
            "burst_tokens_per_min", "max_concurrency", *BUDGETS, "weight", "when_late", "valid_from", "valid_until",
            "created_at",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(TermsSerializer)
    def get_terms(self, row: Contract) -> dict[str, Any]:
        return terms_of(row.terms or row.service_class.terms())

    @extend_schema_field(TierSerializer(many=True))
    def get_tiers(self, row: Contract) -> list[dict[str, Any]]:
        return tiers_shown(row.tiers)

    @extend_schema_field(serializers.ChoiceField(choices=STATES))
    def get_state(self, row: Contract) -> str:
        return row.state(timezone.now())


def token_budget() -> serializers.IntegerField:
    return serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=MAX_TOKENS)


def cost_budget() -> serializers.DecimalField:
    """In the platform's currency."""
    least = Decimal("0.0001")
    return serializers.DecimalField(
        required=False, allow_null=True, max_digits=13, decimal_places=4, min_value=least, max_value=MAX_COST
    )


class ContractChangeSerializer(serializers.Serializer[Contract]):
    """A burst is how much may pass in a minute beyond the guaranteed rate while a replica has room."""

    service_class = serializers.CharField(required=False, max_length=40, help_text="id or name")
    guaranteed_requests_per_min = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=_MAX_INT
    )
    guaranteed_tokens_per_min = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=_MAX_INT
    )
    burst_requests_per_min = serializers.IntegerField(required=False, min_value=0, max_value=_MAX_INT)
    burst_tokens_per_min = serializers.IntegerField(required=False, min_value=0, max_value=_MAX_INT)
    max_concurrency = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    tokens_per_day = token_budget()
    cost_per_day = cost_budget()
    tokens_per_month = token_budget()
    cost_per_month = cost_budget()
    weight = serializers.IntegerField(required=False, min_value=1, max_value=1000)
    when_late = serializers.ChoiceField(
        required=False,
        choices=WhenLate.choices,
        help_text="what becomes of a request whose first token is predicted to come after its deadline",
    )
    tiers = serializers.DictField(
        required=False, child=serializers.CharField(max_length=40), help_text="class (id or name) by service_tier"
    )
    valid_from = serializers.DateTimeField(required=False, allow_null=True, help_text="a time to come; absent: now")


class ContractCreateSerializer(ContractChangeSerializer):
    tenant = serializers.CharField(max_length=32)
    deployment = serializers.CharField(max_length=32)
    service_class = serializers.CharField(max_length=40, help_text="id or name")


class ContractEndSerializer(serializers.Serializer[Contract]):
    at = serializers.DateTimeField(required=False, allow_null=True, help_text="a time to come; absent: now")
