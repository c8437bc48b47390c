"""What holds for every resource of the REST API, as classes to inherit: name the resource, get its tests.

A case names ``path`` and ``make(tenant)``, which makes one row and returns its id. Rights are written as the least
role that may act: "viewer", "developer", "admin", "owner", "operator".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from berth.api.urls import router
from berth.audit.models import AuditEvent
from berth.options.models import OptionValue
from berth.tenants.models import Role, Tenant, User
from helpers.api_routes import RESOURCES
from helpers.factories import make_tenant, make_user

# How many queries each list takes beside those of the session: an N+1 shows in review.
QUERY_COUNTS = Path(__file__).parents[1] / "berth" / "api" / "query_counts.json"
SESSION_QUERIES = 2
OPTIONS_TABLE = OptionValue._meta.db_table
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


def orderings(path: str) -> list[str]:
    """What a list may be sorted by, as its view declares it."""
    view = next(view for prefix, view, _ in router.registry if prefix == path)
    return list(getattr(view, "ordering_fields", ()))


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


def pages(client: APIClient, path: str, step: str = "next") -> list[dict[str, Any]]:
    """What a list answers from ``path`` on, page by page to its end, or with "previous" to its beginning."""
    found: list[dict[str, Any]] = []
    page: str | None = path
    while page:
        answer = client.get(page)
        assert answer.status_code == 200, (page, answer.content)
        found.append(answer.json())
        page = found[-1][step]
    return found


def rows_of(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for body in bodies for row in body["results"]]


def bearer(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


@pytest.mark.django_db
class _Case:
    path: ClassVar[str]
    platform_wide: ClassVar[bool] = False

    @pytest.fixture
    def world(self) -> World:
        return World()

    def make(self, tenant: Tenant) -> str:
        """One more row, as the matrix of rights makes it unless a case says otherwise; its id."""
        return RESOURCES[self.path].make(tenant)

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
        found = pages(world.client("operator"), self.url() + "?page_size=2")
        assert all(len(body["results"]) <= 2 for body in found)
        seen = [row[self.id_field] for row in rows_of(found)]
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
        """As many as ``query_counts.json`` says for this list, at most 5 beside the session's two."""
        client, counts = world.client("operator"), []
        client.get(self.url())  # what a process learns once
        for _ in range(2):
            for _ in range(3):
                self.make(world.tenant)
            with CaptureQueriesContext(connection) as queries:
                assert client.get(self.url()).status_code == 200
            # Options are read anew every 5 s, in whichever request it falls.
            told = [query["sql"] for query in queries if OPTIONS_TABLE not in query["sql"]]
            counts.append(len(told) - SESSION_QUERIES)
        assert counts[0] == counts[1], f"{self.path}: a query for each row: {told}"
        known = json.loads(QUERY_COUNTS.read_text())
        assert known.get(self.path) == counts[0], f"{self.path}: {counts[0]} queries; say so in {QUERY_COUNTS.name}"
        assert counts[0] <= 5, told

    def test_what_it_sorts_by(self, world: World) -> None:
        made = [self.make(world.tenant) for _ in range(3)]
        client = world.client("operator")
        for name in orderings(self.path):
            for ordering in (name, f"-{name}"):
                found = pages(client, self.url() + f"?page_size=2&ordering={ordering}")
                rows = [row[self.id_field] for row in rows_of(found)]
                assert len(rows) == len(set(rows)), ordering
                assert set(made) <= set(rows), ordering
        problem(client.get(self.url() + "?ordering=no_such_field"), 400, "ordering")

    def test_search(self, world: World) -> None:
        made, client = self.make(world.tenant), world.client("operator")
        answer = client.get(self.url(), {"search": "no such words anywhere"})
        assert answer.status_code == 200, answer.content
        assert answer.json()["results"] == []
        assert client.get(self.url(made)).json()[self.id_field] == made

    def test_one_object_has_a_tag_that_stays(self, world: World) -> None:
        made, client = self.make(world.tenant), world.client("operator")
        tags = [client.get(self.url(made)).get("ETag") for _ in range(2)]
        assert tags[0], "no ETag"
        assert tags[0] == tags[1]
        assert client.get(self.url(self.make(world.tenant)))["ETag"] != tags[0]


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

    def test_a_change_on_an_old_version_is_refused(self, world: World) -> None:
        for _, method, path, body, _ in self.attempts(world):
            if method == "post":
                continue
            before = AuditEvent.objects.for_platform().count()
            headers = {"If-Match": '"an-older-version"'}
            send = getattr(world.client("operator"), method)
            assert problem(send(path, body, format="json", headers=headers), 412)["code"] == "stale"
            assert AuditEvent.objects.for_platform().count() == before, (method, path)

    def test_the_same_post_again_does_nothing_again(self, world: World) -> None:
        for number, (_, method, path, body, status) in enumerate(self.attempts(world)):
            if method != "post":
                continue
            headers, client = {"Idempotency-Key": f"attempt-{number}"}, world.client("operator")
            first = client.post(path, body, format="json", headers=headers)
            assert first.status_code == status, (path, first.content)
            events = AuditEvent.objects.for_platform().count()
            again = client.post(path, body, format="json", headers=headers)
            assert (again.status_code, again.content) == (status, first.content), path
            assert again["Idempotency-Replayed"] == "true"
            assert AuditEvent.objects.for_platform().count() == events

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
