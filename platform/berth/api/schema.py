"""What the generated OpenAPI document needs besides the views: the error of every operation, the cookie, CSRF."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension

PROBLEM = {
    "type": "object",
    "description": "RFC 9457 problem details: the answer of every request that failed.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "field": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("field", "code", "detail")},
                "required": ["field", "code", "detail"],
            },
        },
        "request_id": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "code", "request_id"],
}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "berth.api.authentication.Session"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}


class ManagementKeyScheme(OpenApiAuthenticationExtension):
    target_class = "berth.api.authentication.ManagementKey"
    name = "key"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        text = "A key with the scope management or management:read; in its own tenant, at most as a developer"
        return {"type": "http", "scheme": "bearer", "description": text}


IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "schema": {"type": "string"},
    "description": "the object's ETag: 412 when it was changed since it was read",
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string"},
    "description": "the same key and body again within 24 h: the first answer again; with another body: 409",
}


def add_write_headers(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """One of drf-spectacular's POSTPROCESSING_HOOKS: what ``api.writes`` does for every resource."""
    for operations in result["paths"].values():
        for method, operation in operations.items():
            if not any("key" in scheme for scheme in operation.get("security", [])):
                continue  # not a resource
            if method in ("patch", "put", "delete"):
                operation.setdefault("parameters", []).append(IF_MATCH)
            if method == "post":
                operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
    return result


def add_problems(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """One of drf-spectacular's POSTPROCESSING_HOOKS: every operation may answer a problem."""
    result["components"]["schemas"]["Problem"] = PROBLEM
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for operations in result["paths"].values():
        for operation in operations.values():
            operation["responses"]["default"] = {"description": "Why it failed", "content": content}
    return result
