"""The platform as an owner: deployments that belong to no tenant and are granted to tenants by contract.

The owner is a tenant of its own without members, so that every deployment has one. It is no customer: no list of
tenants shows it.
"""

from __future__ import annotations

from django.db import transaction

from berth.audit.services import record
from berth.tenants.models import PLATFORM_TENANT, Tenant

NAME = "Platform"


@transaction.atomic
def platform_tenant() -> Tenant:
    """The owner of what the operators provide. Made at first use."""
    found = Tenant.objects.filter(id=PLATFORM_TENANT).first()
    if found is not None:
        return found
    taken = Tenant.objects.filter(slug="platform").exists()
    slug = PLATFORM_TENANT.replace("_", "-") if taken else "platform"
    tenant, made = Tenant.objects.get_or_create(id=PLATFORM_TENANT, defaults={"name": NAME, "slug": slug})
    if made:
        record(actor="system", action="tenant.create", obj=tenant, after={"name": NAME}, tenant_id=tenant.id)
    return tenant
