"""Whatever fits the schema, and much that does not: never a fault of ours, always a problem or what was promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from helpers.api_cases import World
from helpers.factories import make_deployment

SCHEMA = schemathesis.openapi.from_path(Path(__file__).parents[3] / "platform" / "berth" / "api" / "schema.yaml")
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]
# Signing in hashes a password each time, and signing out ends the session of all that follows.
TRIED = [op for op in OPERATIONS if op.path != "/api/v1/session"]


@pytest.mark.django_db
@pytest.mark.parametrize("operation", TRIED, ids=lambda op: f"{op.method} {op.path}")
def test_no_input_breaks_an_operation(operation: Any) -> None:
    world = World()
    make_deployment(tenant=world.tenant)
    client = world.client("operator")
    client.raise_request_exception = False

    @settings(
        max_examples=8,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), junk=st.booleans())
    def send(case: Any, junk: bool) -> None:
        path = case.formatted_path
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


def _body(case: Any, junk: bool) -> str:
    import json

    body = case.body
    if not isinstance(body, dict | list | str | int | float | bool | type(None)):
        return ""
    if junk and isinstance(body, dict) and body:
        body = {name: [value, None, {}] for name, value in body.items()}
    return json.dumps(body)
