"""REST: service classes and contracts. Everyone reads what concerns them; the operator promises."""

from __future__ import annotations

from typing import Any

import django_filters
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from berth.api.views import BerthViewSet, TenantFilter, TenantViewSet, pick
from berth.core.scoping import PLATFORM
from berth.deployments.models import Deployment
from berth.slas import selectors, services
from berth.slas.models import Contract, ServiceClass
from berth.slas.serializers import (
    STATES,
    ContractChangeSerializer,
    ContractCreateSerializer,
    ContractEndSerializer,
    ContractSerializer,
    ServiceClassChangeSerializer,
    ServiceClassDetailSerializer,
    ServiceClassWriteSerializer,
)
from berth.tenants.models import Tenant


class ServiceClassView(mixins.ListModelMixin, mixins.RetrieveModelMixin, BerthViewSet[ServiceClass]):
    queryset = ServiceClass.objects.none()
    serializer_class = ServiceClassDetailSerializer
    search_fields = ("name", "description")
    ordering_fields = ("name", "base_ms", "tpot_ms", "created_at")
    operator_actions = frozenset({"create", "partial_update", "destroy"})

    def get_queryset(self) -> Any:
        return selectors.classes()

    @extend_schema(request=ServiceClassWriteSerializer, responses={201: ServiceClassDetailSerializer})
    def create(self, request: Request) -> Response:
        made = services.create_class(**self.valid(ServiceClassWriteSerializer), actor=self.actor)
        return self._answer(made, 201)

    @extend_schema(request=ServiceClassChangeSerializer, responses=ServiceClassDetailSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        """Holds for requests from now on; contracts of the class go on under a new version with the new terms."""
        service_class = self.get_object()
        values = self.valid(ServiceClassChangeSerializer, partial=True)
        return self._answer(services.change_class(service_class=service_class, actor=self.actor, **values), 200)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        """409 while a deployment, or any contract's version, names it."""
        services.delete_class(service_class=self.get_object(), actor=self.actor)
        return Response(status=204)

    def _answer(self, row: ServiceClass, status: int) -> Response:
        shown = selectors.classes().get(id=row.id)
        return Response(ServiceClassDetailSerializer(shown).data, status=status)


class ContractFilter(TenantFilter):
    deployment = django_filters.CharFilter(field_name="deployment_id")
    service_class = django_filters.CharFilter(method="_of_class", help_text="id or name")
    open = django_filters.BooleanFilter(field_name="valid_until", lookup_expr="isnull")
    state = django_filters.ChoiceFilter(choices=[(name, name) for name in STATES], method="_in_state")

    def _of_class(self, queryset: Any, name: str, value: str) -> Any:
        return queryset.filter(Q(service_class_id=value) | Q(service_class__name=value))

    def _in_state(self, queryset: Any, name: str, value: str) -> Any:
        return selectors.with_state(queryset, timezone.now(), value)


class ContractView(mixins.ListModelMixin, mixins.RetrieveModelMixin, TenantViewSet[Contract]):
    queryset = Contract.objects.none()
    serializer_class = ContractSerializer
    search_fields = ("id", "tenant__name", "deployment__name", "service_class__name")
    ordering_fields = {
        "tenant": "tenant__name", "deployment": "deployment__name", "service_class": "service_class__name",
        "version": "version", "weight": "weight", "valid_from": "valid_from", "valid_until": "valid_until",
    }  # fmt: skip
    filterset_class = ContractFilter
    operator_actions = frozenset({"create", "partial_update", "destroy", "end"})

    def get_queryset(self) -> Any:
        return selectors.contracts(self.scope)

    @extend_schema(request=ContractCreateSerializer, responses={201: ContractSerializer})
    def create(self, request: Request) -> Response:
        values = self.valid(ContractCreateSerializer)
        tenant = pick(Tenant.objects.all(), values.pop("tenant"), "tenant", by_name=False)
        deployments = PLATFORM.of(Deployment.objects)
        deployment = pick(deployments, values.pop("deployment"), "deployment", by_name=False)
        service_class = pick(ServiceClass.objects.all(), values.pop("service_class"), "service_class")
        values |= _tiers(values)
        contract = services.grant_contract(
            tenant=tenant, deployment=deployment, service_class=service_class, actor=self.actor, **values
        )
        return Response(ContractSerializer(contract).data, status=201)

    @extend_schema(request=ContractChangeSerializer, responses=ContractSerializer)
    def partial_update(self, request: Request, id: str) -> Response:
        """Answers the new version, which has an id of its own and holds from ``valid_from``, or from now."""
        contract = self.get_object()
        values = self.valid(ContractChangeSerializer, partial=True)
        if "service_class" in values:
            values["service_class"] = pick(ServiceClass.objects.all(), values["service_class"], "service_class")
        values |= _tiers(values)
        changed = services.change_contract(contract=contract, actor=self.actor, **values)
        return Response(ContractSerializer(changed).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, id: str) -> Response:
        """Ends the contract now; its row stays. A scheduled version is withdrawn, and the one before it goes on."""
        services.end_contract(contract=self.get_object(), actor=self.actor)
        return Response(status=204)

    @extend_schema(request=ContractEndSerializer, responses=ContractSerializer)
    @action(detail=True, methods=["post"])
    def end(self, request: Request, id: str) -> Response:
        """As DELETE, at a time to come if ``at`` names one; answers the version that ends."""
        contract = self.get_object()
        ended = services.end_contract(
            contract=contract, actor=self.actor, at=self.valid(ContractEndSerializer).get("at")
        )
        return Response(ContractSerializer(ended).data)

    @extend_schema(responses=ContractSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filterset_class=None)
    def versions(self, request: Request, id: str) -> Response:
        """Every version of this tenant's contract on this deployment, newest first: its history."""
        rows = selectors.versions(self.scope, self.get_object())
        return Response(ContractSerializer(rows, many=True).data)


def _tiers(values: dict[str, Any]) -> dict[str, Any]:
    """``tiers`` with the classes themselves, where it was given."""
    if "tiers" not in values:
        return {}
    every = ServiceClass.objects.all()
    return {"tiers": {tier: pick(every, named, f"tiers.{tier}") for tier, named in values["tiers"].items()}}
