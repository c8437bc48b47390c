"""Settings: what they are, who changes them, and that reading one costs nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from berth.audit.models import AuditEvent
from berth.core.errors import Invalid
from berth.options import selectors
from berth.options.models import OptionValue
from berth.options.registry import GROUPS, REGISTRY, Option
from berth.options.selectors import MEMORY, get
from berth.options.services import set_option
from helpers.api_cases import World, problem, url

pytestmark = pytest.mark.django_db


def change(world: World, key: str, value: Any, who: str = "operator", **headers: str) -> Any:
    return world.client(who).patch(url("settings", key), {"value": value}, format="json", headers=headers)


def test_every_option_is_whole() -> None:
    for key, option in REGISTRY.items():
        assert option.checked(option.default) == option.default, key
        assert option.group in GROUPS
        assert option.description
        assert not option.description.endswith(".")
        if option.kind in ("integer", "number"):
            assert option.low is not None, key
            assert option.high is not None, key


def test_reading_costs_no_query_and_sees_a_change_at_once() -> None:
    assert get("usage_retention_days") == REGISTRY["usage_retention_days"].default
    with CaptureQueriesContext(connection) as queries:
        for key in REGISTRY:
            get(key)
    assert len(queries) == 0
    set_option(key="usage_retention_days", value=30, actor="test")
    assert get("usage_retention_days") == 30
    set_option(key="usage_retention_days", value=None, actor="test")
    assert get("usage_retention_days") == REGISTRY["usage_retention_days"].default
    with pytest.raises(KeyError, match="usage_retention_days"):
        get("usage_retention")


def test_another_process_sees_it_when_its_memory_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    get("console_name")
    OptionValue.objects.create(key="console_name", value="Elsewhere", changed_by="test")
    assert get("console_name") == "Berth"
    now = selectors.time.monotonic()
    monkeypatch.setattr(selectors.time, "monotonic", lambda: now + selectors.FRESH_S + 1)
    assert get("console_name") == "Elsewhere"


def test_the_last_known_holds_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    set_option(key="currency", value="EUR", actor="test")
    assert get("currency") == "EUR"

    def gone(*args: Any) -> Any:
        raise OperationalError("gone")

    monkeypatch.setattr(MEMORY, "_until", 0.0)
    monkeypatch.setattr(OptionValue.objects, "values_list", gone)
    assert get("currency") == "EUR"


def test_what_was_stored_by_another_version_and_is_no_value_now_is_passed_over() -> None:
    for key, value in (("currency", "XXX"), ("usage_retention_days", "many"), ("gone_option", 1)):
        OptionValue.objects.create(key=key, value=value, changed_by="test")
    MEMORY.forget()
    assert get("currency") == "USD"
    assert get("usage_retention_days") == REGISTRY["usage_retention_days"].default


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (Option("x", "integer", 1, "fleet", "", "", 1, 5), 6),
        (Option("x", "integer", 1, "fleet", "", "", 1, 5), 0),
        (Option("x", "integer", 1, "fleet", "", "", 1, 5), True),
        (Option("x", "integer", 1, "fleet", "", "", 1, 5), 1.5),
        (Option("x", "integer", 1, "fleet", "", "", 1, 5), "3"),
        (Option("x", "number", 1.0, "fleet", "", "", 0, 5), float("nan")),
        (Option("x", "number", 1.0, "fleet", "", "", 0, 5), float("inf")),
        (Option("x", "text", "a", "fleet", "", "", 1, 3), "abcd"),
        (Option("x", "text", "a", "fleet", "", "", 1, 3), "   "),
        (Option("x", "text", "a", "fleet", "", "", 1, 3), "a\0"),
        (Option("x", "text", "a", "fleet", "", "", 1, 3), ["a"]),
        (Option("x", "boolean", True, "fleet", ""), 1),
        (Option("x", "choice", "a", "fleet", "", choices=("a", "b")), "c"),
    ],
)
def test_values_have_ranges(option: Option, value: Any) -> None:
    with pytest.raises(Invalid):
        option.checked(value)


class TestRest:
    def test_the_list_says_what_each_is(self) -> None:
        world = World()
        rows = {row["key"]: row for row in world.client("operator").get(url("settings")).json()}
        assert set(rows) == set(REGISTRY)
        row = rows["usage_retention_days"]
        assert (row["value"], row["default"], row["unit"], row["low"], row["high"]) == (400, 400, "days", 1, 3650)
        assert (row["changed_at"], row["changed_by"]) == (None, None)

    def test_a_change_is_audited_and_kept(self) -> None:
        world = World()
        answer = change(world, "usage_retention_days", 60)
        assert answer.status_code == 200
        assert answer.json()["value"] == 60
        assert answer.json()["changed_by"] == world.people["operator"].email
        event = AuditEvent.objects.for_platform().latest("created_at")
        assert (event.action, event.object_id) == ("option.change", "usage_retention_days")
        assert (event.before, event.after) == ({"usage_retention_days": 400}, {"usage_retention_days": 60})
        assert change(world, "usage_retention_days", None).json()["value"] == 400
        assert not OptionValue.objects.exists()
        events = AuditEvent.objects.for_platform().count()
        change(world, "usage_retention_days", 400)
        assert AuditEvent.objects.for_platform().count() == events

    def test_only_an_operator_sees_and_changes_them(self) -> None:
        world = World()
        for who in ("viewer", "developer", "admin", "owner"):
            problem(world.client(who).get(url("settings")), 403)
            problem(world.client(who).get(url("settings", "currency")), 403)
            problem(change(world, "currency", "EUR", who), 403)
        problem(world.client("nobody").get(url("settings")), 401)
        assert not OptionValue.objects.exists()

    def test_what_is_wrong_is_named(self) -> None:
        world = World()
        assert "3650" in problem(change(world, "usage_retention_days", 9999), 400, "value")["detail"]
        for value in ("x", [], {}, -1, 10**40):
            problem(change(world, "usage_retention_days", value), 400)
        client, big = world.client("operator"), '{"value": 1e400}'
        problem(client.patch(url("settings", "burn_rate_fast"), big, content_type="application/json"), 400, "value")
        problem(world.client("operator").patch(url("settings", "currency"), {}, format="json"), 400, "value")
        problem(change(world, "nothing", 1), 404)

    def test_a_change_on_what_another_changed_is_refused(self) -> None:
        world = World()
        tag = world.client("operator").get(url("settings", "currency"))["ETag"]
        first = change(world, "currency", "EUR", **{"If-Match": tag})
        assert first.status_code == 200
        problem(change(world, "currency", "GBP", **{"If-Match": tag}), 412)
        assert change(world, "currency", "GBP", **{"If-Match": first["ETag"]}).status_code == 200

    def test_everyone_reads_the_name_and_the_currency(self) -> None:
        world = World()
        change(world, "console_name", "  Harbour ")
        shown = {"console_name": "Harbour", "currency": "USD"}
        for who in ("nobody", "viewer", "operator"):
            assert world.client(who).get(url("settings", "public")).json() == shown
