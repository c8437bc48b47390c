"""How chargeback and reconciliation look on the wire."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from berth.metering.chargeback import BYS, KINDS
from berth.metering.serializers import UsageSumsSerializer


class ChargebackLineSerializer(UsageSumsSerializer):
    """``kind``: of a sealed hour, of one that is open yet, or a correction, which names its ``hour`` and when it was
    written. ``price_*``: of a million tokens, null where several versions of the contract differ. Of ``key`` and
    ``member`` only the one that was asked for. ``attainment``: good / offered."""

    kind = serializers.ChoiceField(choices=KINDS)
    hour = serializers.DateTimeField(allow_null=True)
    written_at = serializers.DateTimeField(allow_null=True)
    tenant = serializers.CharField()
    tenant_name = serializers.CharField()
    deployment = serializers.CharField(allow_blank=True)
    deployment_name = serializers.CharField(allow_blank=True)
    key = serializers.CharField(allow_blank=True, required=False)
    key_name = serializers.CharField(allow_blank=True, required=False)
    member = serializers.CharField(allow_blank=True, required=False)
    member_name = serializers.CharField(allow_blank=True, required=False)
    attainment = serializers.FloatField(allow_null=True)
    price_input = serializers.DecimalField(max_digits=12, decimal_places=4, allow_null=True)
    price_cached = serializers.DecimalField(max_digits=12, decimal_places=4, allow_null=True)
    price_output = serializers.DecimalField(max_digits=12, decimal_places=4, allow_null=True)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return super().get_fields() | {"class": serializers.CharField(allow_blank=True)}

    def to_representation(self, instance: Any) -> dict[str, Any]:
        times = {name: instance[name].isoformat() if instance[name] else None for name in ("hour", "written_at")}
        prices = {
            name: None if instance[name] is None else f"{instance[name]:.4f}" for name in instance if _is_price(name)
        }
        return {**instance, **super().to_representation(instance), **times, **prices}


def _is_price(name: str) -> bool:
    return name.startswith("price_")


class ChargebackSerializer(serializers.Serializer[Any]):
    """``sealed``: every hour asked for is sealed, so that only corrections can be added."""

    by = serializers.ChoiceField(choices=BYS)
    sealed = serializers.BooleanField()
    currency = serializers.CharField()
    lines = ChargebackLineSerializer(many=True)
    total = UsageSumsSerializer()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        span = {"from": serializers.DateTimeField(), "to": serializers.DateTimeField()}
        return span | super().get_fields()


class CountsSerializer(serializers.Serializer[Any]):
    requests = serializers.IntegerField()
    prompt_tokens = serializers.IntegerField()
    cached_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()


class GatewayOnlySerializer(CountsSerializer):
    """Records without a door's account. ``why``: it never reached a door, its door's account never came, or the door is
    of a version that numbers none."""

    why = serializers.ChoiceField(choices=("no_door", "no_account", "unnumbered"))
    outcome = serializers.CharField()


class ReconciledSidesSerializer(serializers.Serializer[Any]):
    """``difference`` = doors - loose - waiting - records."""

    doors = CountsSerializer()
    records = CountsSerializer()
    loose = CountsSerializer(help_text="accounts that are in no record")
    waiting = CountsSerializer(help_text="accounts that wait to be booked")
    difference = CountsSerializer()


class ReconciledHourSerializer(ReconciledSidesSerializer):
    """``settled``: sealed, and nothing waits: a difference is a fault. ``outcomes``: the doors' requests by outcome;
    ``why_loose``: ``elsewhere``, another door's account is in the record, or ``invalid``, nobody is charged."""

    hour = serializers.DateTimeField()
    deployment = serializers.CharField(allow_blank=True)
    deployment_name = serializers.CharField(allow_blank=True)
    settled = serializers.BooleanField()
    equal = serializers.BooleanField()
    outcomes = serializers.DictField(child=serializers.IntegerField())
    why_loose = serializers.DictField(child=serializers.IntegerField())
    gateway_only = GatewayOnlySerializer(many=True)


class ReconciliationSerializer(serializers.Serializer[Any]):
    """``equal``: no settled hour differs. ``open_requests``: of the whole platform, now."""

    rows = ReconciledHourSerializer(many=True)
    total = ReconciledSidesSerializer()
    equal = serializers.BooleanField()
    open_requests = serializers.IntegerField()
    sealed_until = serializers.DateTimeField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        span = {"from": serializers.DateTimeField(), "to": serializers.DateTimeField()}
        return span | super().get_fields()
