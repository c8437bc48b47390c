"""What a tenant's deployments reserve of its capacity quota."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from berth.deployments.models import Deployment, DesiredState
from berth.deployments.needs import needs_of_deployment


def reserved_by(deployment: Deployment) -> int:
    """Bytes of all its replicas; 0 while it is stopped."""
    if deployment.desired_state != DesiredState.RUNNING or not deployment.replica_count:
        return 0
    return deployment.replica_count * needs_of_deployment(deployment).total_bytes


def reserved_bytes(tenant_ids: Sequence[str]) -> Counter[str]:
    """Tenant id to the bytes that its running deployments reserve, in one query."""
    running = Deployment.objects.for_tenants(tenant_ids).filter(desired_state=DesiredState.RUNNING, replica_count__gt=0)
    found: Counter[str] = Counter()
    for row in running.select_related("model"):
        found[row.tenant_id] += reserved_by(row)
    return found
