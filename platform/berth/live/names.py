"""Every name in Redis and every Channels group, once (docs/contracts.md)."""

from __future__ import annotations

CONFIG_CHANNEL = "berth:config"
OPEN_REQUESTS = "berth:open"
USAGE_STREAM = "berth:usage"
ENDED_STREAM = "berth:ended"
DELTAS_STREAM = "berth:deltas"
LEDGER_GROUP = "ledger"
SUSPECTS = "berth:suspects"

ALIVE_TTL_S = 10
GATEWAY_TTL_S = 5
LOG_LINES = 200
# The longest that the option logs_retention_days allows; the sweep ends them sooner (management.retention).
LOG_TTL_S = 90 * 24 * 3600
# Since when the scheduler can see, and which replicas it misses (scheduler.watch); gone with Redis, as it must be.
WATCH = "berth:watch"


def alive(replica_id: str) -> str:
    return f"berth:alive:{replica_id}"


def stats(replica_id: str) -> str:
    return f"berth:stats:{replica_id}"


def hello(replica_id: str) -> str:
    return f"berth:hello:{replica_id}"


def log(replica_id: str) -> str:
    return f"berth:log:{replica_id}"


def gateway(gateway_id: str) -> str:
    return f"berth:gateway:{gateway_id}"


def open_request(request_id: str) -> str:
    return f"berth:open:{request_id}"


def limits(scope: str) -> tuple[str, str, str]:
    """Admission's counters: requests a second, tokens a second, leases."""
    return f"berth:limit:{scope}:requests", f"berth:limit:{scope}:tokens", f"berth:limit:{scope}:leases"


def budget(scope: str) -> str:
    """What a scope's budgets have used: tokens and cost by day and by month."""
    return f"berth:budget:{scope}"


def settled(request_id: str) -> str:
    """The mark of a request whose budgets have been corrected."""
    return f"berth:settled:{request_id}"


def key_limits(key_id: str) -> str:
    """The scope of an API key's counters, for ``limits``."""
    return f"key:{key_id}"


def tenant_limits(tenant_id: str) -> str:
    return f"tenant:{tenant_id}"


def contract_limits(tenant_id: str, deployment_id: str) -> str:
    return f"{tenant_id}:{deployment_id}"


def history(scope: str) -> str:
    """The last windows of a tenant or of "platform", oldest first, as JSON."""
    return f"berth:history:{scope}"


def node_group(node_id: str) -> str:
    return f"node.{node_id}"


PLATFORM_GROUP = "console.platform"


def session_group(session_id: str) -> str:
    return f"session.{session_id}"


def console_group(tenant_id: str) -> str:
    return f"console.{tenant_id}"
