"""REST: service classes and contracts. Everyone reads what concerns them; the operator promises."""

from __future__ import annotations

from typing import Any

import django_filters
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import BerthViewSet, TenantFilter, TenantViewSet, pick
from berth.core.scoping import PLATFORM
from berth.deployments.models import Deployment
from berth.slas import selectors, services
from berth.slas.models import Contract, ServiceClass
from berth.tenants.models import Tenant
from berth.tenants.serializers import TenantRefSerializer

_MAX_INT = 2_147_483_647


class ServiceClassSerializer(serializers.ModelSerializer[ServiceClass]):
    class Meta:
        model = ServiceClass
        fields = [
            "id", "name", "description", "base_ms", "free_prompt_tokens", "prefill_tokens_per_s", "tpot_ms",
            "stretch_tpot_ms", "fluidity_floor", "attainment_target", "e2e_ms", "created_at",
        ]  # fmt: skip
        read_only_fields = fields


class ServiceClassWriteSerializer(serializers.ModelSerializer[ServiceClass]):
    base_ms = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    prefill_tokens_per_s = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    tpot_ms = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    stretch_tpot_ms = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    fluidity_floor = serializers.FloatField(required=False, min_value=0, max_value=1)
    attainment_target = serializers.FloatField(required=False, min_value=0, max_value=1)
    e2e_ms = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=1 << 53)

    class Meta:
        model = ServiceClass
        fields = [
            "name", "description", "base_ms", "free_prompt_tokens", "prefill_tokens_per_s", "tpot_ms",
            "stretch_tpot_ms", "fluidity_floor", "attainment_target", "e2e_ms",
        ]  # fmt: skip

    name = serializers.SlugField(max_length=40)


class ServiceClassChangeSerializer(ServiceClassWriteSerializer):
    class Meta(ServiceClassWriteSerializer.Meta):
        fields = [name for name in ServiceClassWriteSerializer.Meta.fields if name != "name"]

    name = None  # type: ignore[assignment]


class ServiceClassView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[ServiceClass]):
    queryset = ServiceClass.objects.none()
    serializer_class = ServiceClassSerializer
    operator_actions = frozenset({"create", "partial_update"})

    def get_queryset(self) -> Any:
        return selectors.classes()

    @extend_schema(request=ServiceClassWriteSerializer, responses={201: ServiceClassSerializer})
    def create(self, request: Request) -> Response:
        made = services.create_class(**self.valid(ServiceClassWriteSerializer), actor=self.actor)
        return Response(ServiceClassSerializer(made).data, status=201)

    @extend_schema(request=ServiceClassChangeSerializer, responses=ServiceClassSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        service_class = self.get_object()
        values = self.valid(ServiceClassChangeSerializer, partial=True)
        changed = services.change_class(service_class=service_class, actor=self.actor, **values)
        return Response(ServiceClassSerializer(changed).data)


class ContractDeploymentSerializer(serializers.ModelSerializer[Deployment]):
    class Meta:
        model = Deployment
        fields = ["id", "name"]
        read_only_fields = fields


class ContractSerializer(serializers.ModelSerializer[Contract]):
    tenant = TenantRefSerializer()
    deployment = ContractDeploymentSerializer()
    service_class = ServiceClassSerializer()

    class Meta:
        model = Contract
        fields = [
            "id", "tenant", "deployment", "service_class", "version", "requests_per_min", "tokens_per_min",
            "max_concurrency", "weight", "valid_from", "valid_until",
        ]  # fmt: skip
        read_only_fields = fields


class ContractChangeSerializer(serializers.Serializer[Contract]):
    service_class = serializers.CharField(required=False, max_length=40, help_text="id or name")
    requests_per_min = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    tokens_per_min = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    max_concurrency = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=_MAX_INT)
    weight = serializers.IntegerField(required=False, min_value=1, max_value=1000)


class ContractCreateSerializer(ContractChangeSerializer):
    tenant = serializers.CharField(max_length=32)
    deployment = serializers.CharField(max_length=32)
    service_class = serializers.CharField(max_length=40, help_text="id or name")


class ContractFilter(TenantFilter):
    deployment = django_filters.CharFilter(field_name="deployment_id")
    open = django_filters.BooleanFilter(field_name="valid_until", lookup_expr="isnull")


class ContractView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Contract]):
    queryset = Contract.objects.none()
    serializer_class = ContractSerializer
    filterset_class = ContractFilter
    operator_actions = frozenset({"create", "partial_update", "destroy"})

    def get_queryset(self) -> Any:
        return selectors.contracts(self.scope)

    @extend_schema(request=ContractCreateSerializer, responses={201: ContractSerializer})
    def create(self, request: Request) -> Response:
        values = self.valid(ContractCreateSerializer)
        tenant = pick(Tenant.objects.all(), values.pop("tenant"), "tenant", by_name=False)
        deployments = PLATFORM.of(Deployment.objects)
        deployment = pick(deployments, values.pop("deployment"), "deployment", by_name=False)
        service_class = pick(selectors.classes(), values.pop("service_class"), "service_class")
        contract = services.grant_contract(
            tenant=tenant, deployment=deployment, service_class=service_class, actor=self.actor, **values
        )
        return Response(ContractSerializer(contract).data, status=201)

    @extend_schema(request=ContractChangeSerializer, responses=ContractSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        """Answers the new version, which has an id of its own."""
        contract = self.get_object()
        values = self.valid(ContractChangeSerializer, partial=True)
        if "service_class" in values:
            values["service_class"] = pick(selectors.classes(), values["service_class"], "service_class")
        changed = services.change_contract(contract=contract, actor=self.actor, **values)
        return Response(ContractSerializer(changed).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        """Ends the contract now; its row stays."""
        services.end_contract(contract=self.get_object(), actor=self.actor)
        return Response(status=204)
