"""REST of alerts and routes: roles, tenants, bad input, secrets."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from berth.alerts import messages, services
from berth.alerts.conditions import Condition
from berth.alerts.models import Alert, Route, Rule, Severity
from berth.audit.models import AuditEvent
from berth.tenants.models import Tenant
from helpers.api_cases import BadInputCase, ReadCase, World, WriteCase, problem, url
from helpers.factories import unique

HOOK = "https://hooks.example.com/T0/secret-path"


def make_route(tenant: Tenant | None, **values: Any) -> Route:
    return services.create_route(tenant=tenant, kind="webhook", target=HOOK, actor="test", **values)


def make_alert(tenant: Tenant | None, rule: str = Rule.CRASH_LOOP) -> Alert:
    condition = Condition(
        rule=rule,
        severity=Severity.CRITICAL,
        subject=unique("subject"),
        subject_kind="deployment",
        subject_id="dep_1",
        subject_name="chat",
        summary="It crashed.",
        tenant_id=None if tenant is None else tenant.id,
    )
    open_ones = [
        Condition(
            rule=row.rule, severity=row.severity, subject=row.subject, subject_kind=row.subject_kind,
            subject_id=row.subject_id, subject_name=row.subject_name, summary=row.summary, tenant_id=row.tenant_id,
        )
        for row in Alert.objects.for_platform().exclude(state="resolved")
    ]  # fmt: skip
    [row] = services.take_conditions(conditions=[*open_ones, condition], now=timezone.now())
    return row


class TestAlerts(ReadCase):
    path = "alerts"

    def make(self, tenant: Tenant) -> str:
        return make_alert(tenant).id

    def test_the_platforms_own_are_the_operators(self, world: World) -> None:
        row = make_alert(None, Rule.NODE_LOST)
        problem(world.client("owner").get(self.url(row.id)), 404)
        shown = world.client("operator").get(self.url(row.id)).json()
        assert shown["tenant"] is None
        assert (shown["state"], shown["rule"], shown["title"]) == ("firing", "node.lost", "A node is silent")
        assert shown["subject"] == {"kind": "deployment", "id": "dep_1", "name": "chat"}

    def test_filters(self, world: World) -> None:
        row = make_alert(world.tenant)
        client = world.client("viewer")
        for query, count in (("state=firing", 1), ("state=resolved", 0), ("rule=node.lost", 0), ("subject=dep_1", 1)):
            assert len(client.get(self.url() + f"?{query}").json()["results"]) == count, query
        problem(client.get(self.url() + "?state=pending"), 400, "state")
        assert row.id


class TestRoutes(ReadCase, WriteCase, BadInputCase):
    path = "alerts/routes"
    reads = "admin"

    def make(self, tenant: Tenant) -> str:
        return make_route(tenant).id

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        body = {"tenant": world.tenant.id, "kind": "webhook", "target": HOOK}
        return [
            ("admin", "post", self.url(), body, 201),
            ("operator", "post", self.url(), {**body, "tenant": None}, 201),
        ]

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        whole = {"tenant": world.tenant.id, "kind": "webhook", "target": HOOK}
        return [
            ("post", self.url(), {**whole, "kind": "pigeon"}, "kind"),
            ("post", self.url(), {**whole, "target": "http://10.0.0.1/"}, "target"),
            ("post", self.url(), {**whole, "events": ["x"]}, "events.0"),
            ("post", self.url(), {"kind": "webhook", "target": HOOK}, "tenant"),
        ]

    def test_who_may_change_delete_and_try_one(self, world: World) -> None:
        for who in ("viewer", "developer"):
            made = self.make(world.tenant)
            client = world.client(who)
            for answer in (
                client.patch(self.url(made), {"enabled": False}, format="json"),
                client.delete(self.url(made)),
                client.post(self.url(made, "test")),
            ):
                assert answer.status_code in (403, 404)
        made, admin = self.make(world.tenant), world.client("admin")
        changed = admin.patch(self.url(made), {"enabled": False, "events": ["sla.burn_fast"]}, format="json")
        assert (changed.json()["enabled"], changed.json()["events"]) == (False, ["sla.burn_fast"])
        assert admin.post(self.url(made, "test")).status_code == 202
        problem(admin.post(self.url(made, "test")), 429)
        assert admin.get(self.url(made)).json()["last_delivery"]["event"] == "test"
        assert admin.delete(self.url(made)).status_code == 204
        problem(admin.get(self.url(made)), 404)

    def test_the_secret_is_shown_once_and_the_path_of_a_hook_stays_out_of_the_audit_log(self, world: World) -> None:
        body = {"tenant": world.tenant.id, "kind": "webhook", "target": HOOK}
        made = world.client("admin").post(self.url(), body, format="json").json()
        assert made["secret"] == messages.signing_secret(made["route"]["id"])
        assert "secret" not in world.client("admin").get(self.url(made["route"]["id"])).json()
        event = AuditEvent.objects.for_platform().latest("created_at")
        assert "secret-path" not in str(event.after)
        assert "hooks.example.com" in str(event.after)

    def test_a_platform_route_is_not_a_tenants(self, world: World) -> None:
        made = make_route(None).id
        problem(world.client("owner").get(self.url(made)), 404)
        body = {"tenant": None, "kind": "mail", "target": "a@b.co"}
        problem(world.client("owner").post(self.url(), body, format="json"), 403)


@pytest.mark.django_db
def test_paths_do_not_shadow_one_another() -> None:
    world = World()
    assert world.client("operator").get(url("alerts", "routes")).json()["results"] == []
