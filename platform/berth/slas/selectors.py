"""Reads of service classes and contracts."""

from __future__ import annotations

from django.db.models import QuerySet

from berth.core.scoping import ScopedQuerySet
from berth.slas.models import Contract, ServiceClass


def classes() -> QuerySet[ServiceClass]:
    return ServiceClass.objects.all()


def contracts_of_tenant(tenant_id: str) -> ScopedQuerySet:
    """Every version; the open ones have no ``valid_until``."""
    return Contract.objects.for_tenant(tenant_id).select_related("service_class", "deployment", "tenant")


def contracts_of_platform() -> ScopedQuerySet:
    return Contract.objects.for_platform().select_related("service_class", "deployment", "tenant")


def open_contract(tenant_id: str, deployment_id: str) -> Contract | None:
    found: Contract | None = (
        contracts_of_tenant(tenant_id).filter(deployment_id=deployment_id, valid_until=None).first()
    )
    return found
