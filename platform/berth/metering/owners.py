"""Whose usage is counted and limited: a key's, a tenant's, or a tenant's on a deployment (its contract's). Pure,
for the gateway, which knows no table."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from berth.live import names


class Owner(NamedTuple):
    tenant_id: str
    deployment_id: str = ""
    key_id: str = ""

    @property
    def kind(self) -> str:
        if self.key_id:
            return "key"
        return "contract" if self.deployment_id else "tenant"

    @property
    def scope(self) -> str:
        """Of its counters in Redis. A contract's are those of a tenant on a deployment, whatever its version."""
        if self.key_id:
            return names.key_limits(self.key_id)
        if self.deployment_id:
            return names.contract_limits(self.tenant_id, self.deployment_id)
        return names.tenant_limits(self.tenant_id)


class Spent(NamedTuple):
    """What an owner has used; ``tokens`` in and out."""

    tokens: int
    cost: Decimal


def owners_of(tenant_id: str, deployment_id: str, key_id: str) -> tuple[Owner, Owner, Owner]:
    """Those a request counts for: its key, its tenant, its contract."""
    return Owner(tenant_id, key_id=key_id), Owner(tenant_id), Owner(tenant_id, deployment_id)
