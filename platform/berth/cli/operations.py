"""Every call of the API that the command line makes, and every field of an answer that it shows.

Names only: the types are the schema's (``berth/api/schema.yaml``), and a test holds each name here against it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """``path`` below ``/api/v1``, with ``{id}`` where the schema has it; ``query`` and ``body``: the names sent.

    ``shows``: dotted paths into one result (of a list: into one of its rows).
    """

    method: str
    path: str
    query: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    listed: bool = False


SESSION = Operation("GET", "session")
SIGN_IN = Operation("POST", "session", body=("email", "password", "code"), shows=("user.email", "is_operator"))
ME = Operation(
    "GET",
    "me",
    shows=("user.email", "is_operator", "memberships.tenant.id", "memberships.tenant.slug", "memberships.role"),
)
TENANTS = Operation("GET", "tenants", query=("page_size",), shows=("id", "slug", "name"), listed=True)

DEPLOYMENTS = Operation(
    "GET",
    "deployments",
    query=("tenant", "name", "search", "page_size"),
    shows=(
        "id", "name", "tenant.slug", "model.name", "service_class.name", "state.state", "state.ready", "state.wanted",
        "state.reason",
    ),
    listed=True,
)  # fmt: skip
DEPLOYMENT = Operation(
    "GET",
    "deployments/{id}",
    shows=(
        "id", "name", "tenant.slug", "model.name", "service_class.name", "state.state", "state.ready", "state.wanted",
        "state.reason", "replica_count", "engine", "dtype", "kv_dtype", "max_model_len", "max_num_seqs",
        "default_max_tokens", "memory_bytes", "created_at", "updated_at",
    ),
)  # fmt: skip
CREATE_DEPLOYMENT = Operation(
    "POST",
    "deployments",
    body=("tenant", "name", "model", "service_class", "replica_count", "engine", "dtype", "max_model_len"),
    shows=("id", "name"),
)
SCALE = Operation("POST", "deployments/{id}/scale", body=("replicas",), shows=("name", "replica_count"))
START = Operation("POST", "deployments/{id}/start", shows=("name", "desired_state"))
STOP = Operation("POST", "deployments/{id}/stop", shows=("name", "desired_state"))
REPLICAS = Operation(
    "GET", "replicas", query=("deployment", "page_size"), shows=("id", "state", "reason", "node"), listed=True
)
LOGS = Operation("GET", "replicas/{id}/logs", shows=("lines", "stale"))

KEYS = Operation(
    "GET",
    "keys",
    query=("tenant", "revoked", "page_size"),
    shows=("id", "name", "hint", "scopes", "created_at", "expires_at", "last_used_at", "revoked_at"),
    listed=True,
)
CREATE_KEY = Operation(
    "POST",
    "keys",
    body=(
        "tenant", "name", "expires_at", "scopes", "deployments", "requests_per_minute", "tokens_per_minute",
        "max_concurrency", "tokens_per_day", "tokens_per_month", "cost_per_day", "cost_per_month",
    ),
    shows=("token", "key.id", "key.name"),
)  # fmt: skip  # fmt: skip
REVOKE_KEY = Operation("POST", "keys/{id}/revoke", shows=("id", "name", "revoked_at"))
ROTATE_KEY = Operation(
    "POST", "keys/{id}/rotate", body=("grace_seconds",), shows=("token", "key.id", "key.previous_until")
)
PLAYGROUND = Operation("POST", "keys/playground", body=("tenant",), shows=("token", "expires_at"))

USAGE = Operation(
    "GET",
    "usage/summary",
    query=("tenant", "deployment", "from", "to", "group"),
    shows=("currency", "rows.label", "total.requests", *(f"rows.{name}" for name in (
        "requests", "offered", "good", "prompt_tokens", "cached_tokens", "completion_tokens", "good_tokens", "cost",
    ))),
)  # fmt: skip
CHARGEBACK = Operation(
    "GET",
    "usage/chargeback",
    query=("tenant", "deployment", "month", "from", "to", "by"),
    shows=("sealed", "currency", "total.requests", "total.cost", *(f"lines.{name}" for name in (
        "kind", "hour", "tenant_name", "deployment_name", "class", "key_name", "member_name", "requests", "good",
        "offered", "prompt_tokens", "cached_tokens", "completion_tokens", "good_tokens", "cost",
    ))),
)  # fmt: skip
CHARGEBACK_CSV = Operation("GET", "usage/chargeback.csv", query=("tenant", "deployment", "month", "from", "to", "by"))
RECONCILIATION = Operation(
    "GET",
    "usage/reconciliation",
    query=("deployment", "from", "to"),
    shows=("equal", "open_requests", *(f"rows.{name}" for name in (
        "hour", "deployment_name", "deployment", "settled", "equal", "doors.requests", "doors.completion_tokens",
        "records.requests", "loose.requests", "waiting.requests", "difference.requests",
        "difference.prompt_tokens", "difference.cached_tokens", "difference.completion_tokens",
    ))),
)  # fmt: skip
