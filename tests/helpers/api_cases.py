"""What holds for every resource of the REST API, as classes to inherit: name the resource, get its tests.

A case names ``path`` and ``make(tenant)``, which makes one row and returns its id. Rights are written as the least
role that may act: "viewer", "developer", "admin", "owner", "operator".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from berth.audit.models import AuditEvent
from berth.tenants.models import Role, Tenant, User
from helpers.factories import make_tenant, make_user

ROLES = ("viewer", "developer", "admin", "owner", "operator")


@dataclass
class World:
    """A tenant with one person of each role, an operator, and another tenant with its owner."""

    tenant: Tenant = field(default_factory=make_tenant)
    other: Tenant = field(default_factory=make_tenant)
    people: dict[str, User] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role in Role.values:
            self.people[role] = make_user(tenant=self.tenant, role=role)
        self.people["operator"] = make_user(operator=True)
        self.people["outsider"] = make_user(tenant=self.other, role=Role.OWNER)

    def client(self, who: str) -> APIClient:
        client = APIClient()
        if who != "nobody":
            client.force_login(self.people[who], backend="django.contrib.auth.backends.ModelBackend")
        return client


def url(*parts: str) -> str:
    return "/api/v1/" + "/".join(parts)


def problem(answer: Any, status: int, field: str | None = None) -> dict[str, Any]:
    """The body of an error, which must be whole."""
    assert answer.status_code == status, answer.content
    assert answer["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert body["request_id"] == answer["x-request-id"]
    assert body["detail"]
    if field is not None:
        assert body["field"] == field, body
        assert body["errors"][0]["field"] == field
    return body


@pytest.mark.django_db
class _Case:
    path: ClassVar[str]
    platform_wide: ClassVar[bool] = False

    @pytest.fixture
    def world(self) -> World:
        return World()

    def make(self, tenant: Tenant) -> str:
        raise AssertionError("a case says how its rows are made")

    def url(self, *parts: str) -> str:
        return url(self.path, *parts)


class ReadCase(_Case):
    """Get and list, by role, by tenant, and how many queries it takes."""

    reads: ClassVar[str] = "viewer"
    id_field: ClassVar[str] = "id"

    def test_get(self, world: World) -> None:
        made = self.make(world.tenant)
        for who in ROLES[ROLES.index(self.reads) :]:
            answer = world.client(who).get(self.url(made))
            assert answer.status_code == 200, (who, answer.content)
            assert answer.json()[self.id_field] == made

    def test_list_is_newest_first_and_only_ones_own(self, world: World) -> None:
        mine = [self.make(world.tenant) for _ in range(2)]
        theirs = self.make(world.other)
        if self.reads != "operator":
            seen = [row[self.id_field] for row in world.client("owner").get(self.url()).json()["results"]]
            expected = [theirs, *mine[::-1]] if self.platform_wide else mine[::-1]
            assert [row for row in seen if row in {*mine, theirs}] == expected
        every = [row[self.id_field] for row in world.client("operator").get(self.url()).json()["results"]]
        assert [row for row in every if row in {*mine, theirs}] == [theirs, *mine[::-1]]

    def test_pages_follow_one_another(self, world: World) -> None:
        made = [self.make(world.tenant) for _ in range(3)]
        client, seen = world.client("operator"), []
        page: Any = self.url() + "?page_size=2"
        while page:
            body = client.get(page).json()
            assert len(body["results"]) <= 2
            seen += [row[self.id_field] for row in body["results"]]
            page = body["next"]
        assert len(seen) == len(set(seen))
        assert [row for row in seen if row in made] == made[::-1]

    def test_nobody_reads_without_a_session(self, world: World) -> None:
        made = self.make(world.tenant)
        for path in (self.url(), self.url(made)):
            answer = world.client("nobody").get(path)
            problem(answer, 401)
            assert answer["www-authenticate"] == "Session"

    def test_another_tenants_is_not_found(self, world: World) -> None:
        if self.platform_wide:
            return
        problem(world.client("outsider").get(self.url(self.make(world.tenant))), 404)
        problem(world.client("outsider").get(self.url() + f"?tenant={world.tenant.id}"), 404, "tenant")
        problem(world.client("owner").get(self.url() + "?tenant=ten_nothing"), 404, "tenant")

    def test_an_id_that_is_none_is_not_found(self, world: World) -> None:
        for strange in ("x", "dep_01m8mvv9ak2t7qc3sh00vz827f", "%00", "..", "a" * 300):
            problem(world.client("operator").get(self.url(strange)), 404)

    def test_more_rows_take_no_more_queries(self, world: World) -> None:
        client, counts = world.client("operator"), []
        for _ in range(2):
            for _ in range(3):
                self.make(world.tenant)
            with CaptureQueriesContext(
                connection,
            ) as queries:
                assert client.get(self.url()).status_code == 200
            counts.append(len(queries))
        assert counts[0] == counts[1]
        assert counts[0] <= 12


class WriteCase(_Case):
    """``attempts(world)``: (least role, method, path, body, expected status), each on rows of its own."""

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        raise AssertionError("a case names what can be done")

    def test_each_role_may_do_what_it_may(self, world: World) -> None:
        for who in ROLES:
            for least, method, path, body, status in self.attempts(world):
                allowed = ROLES.index(who) >= ROLES.index(least)
                events = AuditEvent.objects.for_platform().count()
                answer = getattr(world.client(who), method)(path, body, format="json")
                if allowed:
                    assert answer.status_code == status, (who, method, path, answer.content)
                else:
                    problem(answer, 403)
                    assert AuditEvent.objects.for_platform().count() == events

    def test_every_change_leaves_its_event(self, world: World) -> None:
        for _, method, path, body, _ in self.attempts(world):
            before = AuditEvent.objects.for_platform().count()
            getattr(world.client("operator"), method)(path, body, format="json")
            event = AuditEvent.objects.for_platform().latest("created_at")
            assert AuditEvent.objects.for_platform().count() > before, (method, path)
            assert event.actor == world.people["operator"].email
            assert event.request_id.startswith("req_")

    def test_nobody_writes_without_a_session(self, world: World) -> None:
        for _, method, path, body, _ in self.attempts(world):
            problem(getattr(world.client("nobody"), method)(path, body, format="json"), 401)

    def test_a_body_that_is_no_json_or_no_object(self, world: World) -> None:
        for _, method, path, body, _ in self.attempts(world):
            if body is None:
                continue
            send = getattr(world.client("operator"), method)
            assert problem(send(path, "{not json", content_type="application/json"), 400)["code"] == "bad_json"
            problem(send(path, [1, 2], format="json"), 400)
            problem(send(path, b"x=1", content_type="text/plain"), 415)


class BadInputCase(_Case):
    """``bad_bodies(world)``: (method, path, body, field); the answer is 400 and names the field."""

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        raise AssertionError("a case names what is refused")

    def test_what_is_wrong_is_named(self, world: World) -> None:
        for method, path, body, name in self.bad_bodies(world):
            answer = getattr(world.client("operator"), method)(path, body, format="json")
            problem(answer, 400, name)
