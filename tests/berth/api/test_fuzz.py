"""Whatever fits the schema, and much that does not: never a fault of ours, always a problem or what was promised."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from helpers.api_cases import World
from helpers.api_routes import RESOURCES, resource_of
from helpers.factories import make_deployment

SCHEMA = schemathesis.openapi.from_path(Path(__file__).parents[3] / "platform" / "berth" / "api" / "schema.yaml")
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]
# Signing in hashes a password each time, and signing out ends the session of all that follows.
TRIED = [op for op in OPERATIONS if op.path not in ("/api/v1/session", "/api/v1/me/password")]
EXAMPLES = 4


@pytest.mark.django_db
@pytest.mark.parametrize("operation", TRIED, ids=lambda op: f"{op.method} {op.path}")
def test_no_input_breaks_an_operation(operation: Any) -> None:
    world = World()
    make_deployment(tenant=world.tenant)
    real = _real_path(operation.path, world)
    client = world.client("operator")
    client.raise_request_exception = False

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), junk=st.booleans(), strange=st.integers(0, 3))
    def send(case: Any, junk: bool, strange: int) -> None:
        path = case.formatted_path if strange == 0 else real  # three in four on an object that exists
        query = urlencode(case.query or {}, doseq=True)
        with transaction.atomic():
            answer = client.generic(
                case.method,
                f"{path}?{query}" if query else path,
                data=_body(case, junk),
                content_type="application/json",
            )
            transaction.set_rollback(True)
        assert answer.status_code < 500, (case.method, path, query, case.body, answer.content)
        if answer.status_code >= 400:
            assert answer["content-type"] == "application/problem+json"

    send()


def _real_path(template: str, world: World) -> str:
    """With the id of an object that is there, where the matrix of rights knows how one is made."""
    plain = re.sub(r"\{\w+\}", "{id}", template.removeprefix("/api/v1/"))
    resource = resource_of(plain)
    made = RESOURCES[resource].make(world.tenant) if resource and "{id}" in plain else "strange"
    return f"/api/v1/{plain.replace('{id}', made)}"


def _body(case: Any, junk: bool) -> str:
    body = case.body
    if not isinstance(body, dict | list | str | int | float | bool | type(None)):
        return ""
    if junk and isinstance(body, dict) and body:
        body = {name: [value, None, {}] for name, value in body.items()}
    return json.dumps(body)
