"""What no resource owns: routes that are none, faults of ours, the schema, the console's page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client
from psycopg_pool import PoolTimeout

from helpers.api_cases import World, problem, url

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.django_db
def test_routes_and_methods_that_are_none(client: Client) -> None:
    problem(client.get("/api/v1/nothing"), 404)
    problem(client.get("/api/v2/keys"), 404)
    answer = World().client("operator").delete(url("tenants"))
    problem(answer, 405)
    assert "POST" in answer["allow"]


def test_a_host_that_is_not_ours_is_a_problem_too(client: Client) -> None:
    problem(client.get("/api/v1/session", headers={"host": "evil.example"}), 400)


@pytest.mark.django_db
@pytest.mark.parametrize("error", [OperationalError("gone"), PoolTimeout("gone: no connection")])
def test_a_database_that_is_gone_is_503(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(*args: Any) -> Any:
        raise error

    operator = World().client("operator")
    monkeypatch.setattr("berth.slas.selectors.classes", broken)
    answer = operator.get(url("classes"))
    assert "gone" not in problem(answer, 503)["detail"]
    assert answer["retry-after"]


@pytest.mark.django_db
def test_a_fault_of_ours_shows_no_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("inner secret")

    operator = World().client("operator")
    operator.raise_request_exception = False
    monkeypatch.setattr("berth.slas.selectors.classes", broken)
    body = problem(operator.get(url("classes")), 500)
    assert "inner secret" not in str(body)


@pytest.mark.django_db
def test_filters_name_what_they_do_not_understand() -> None:
    operator = World().client("operator")
    problem(operator.get(url("usage") + "?from=yesterday"), 400, "from")
    assert operator.get(url("usage") + "?from=3621-01-18T08:44:39%2B19:45").status_code == 200
    problem(operator.get(url("usage") + "?to=0001-01-01T00:00:00%2B19:45"), 400, "to")
    problem(operator.get(url("usage", "summary") + "?group=week"), 400, "group")
    problem(operator.get(url("goodput") + "?minutes=0"), 400, "minutes")
    for cursor in ("%C3%A9", "cD0lMDA="):  # no base 64; p=NUL
        problem(operator.get(url("keys") + f"?cursor={cursor}"), 404)
    problem(operator.get(url("keys") + "?tenant=%00"), 404, "tenant")
    problem(operator.get(url("replicas") + "?deployment=%00"), 400, "deployment")


@pytest.mark.django_db
def test_a_body_has_bounds() -> None:
    operator = World().client("operator")
    for body, status in (("[" * 100_000, 400), ('{"name": "' + "x" * (1 << 20) + '"}', 413), ("9" * 5000, 400)):
        problem(operator.post(url("tenants"), body, content_type="application/json"), status)


def test_the_committed_schema_is_the_code(tmp_path: Path) -> None:
    made = tmp_path / "schema.yaml"
    call_command("spectacular", file=str(made), validate=True, fail_on_warn=True)
    committed = REPOSITORY / "platform" / "berth" / "api" / "schema.yaml"
    assert made.read_text() == committed.read_text(), "run: manage.py spectacular --file platform/berth/api/schema.yaml"


def test_the_console_page(client: Client, settings: Any, tmp_path: Path) -> None:
    settings.CONSOLE_DIST = tmp_path
    missing = client.get("/deployments")
    assert missing.status_code == 503
    assert b"make run" in missing.content

    (tmp_path / "index.html").write_text("<title>Berth console</title>")
    for path in ("/", "/deployments", "/deployments/dep_1?tab=logs"):
        page = client.get(path)
        assert page.content == b"<title>Berth console</title>"
        assert page["cache-control"] == "no-cache"
        assert "csrftoken" in page.cookies
        policy = page["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy.split("style-src")[0]
        assert "script-src" not in policy
    assert client.post("/deployments").status_code == 405
    problem(client.get("/static/none.js"), 404)


def test_the_control_plane_loads_no_torch() -> None:
    code = "import sys, berth.asgi; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
