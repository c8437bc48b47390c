"""One generated matrix: every route x method x role on what is another tenant's: not found, and nothing happens."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.core import serializers
from django.db import connection, transaction

from berth.api.urls import router
from berth.core.scoping import TenantOwned
from berth.tenants.models import Membership, Role, Tenant
from helpers.api_cases import World, bearer, problem, url
from helpers.api_routes import QUERIES, RESOURCES, SINGLE, Case, cases
from helpers.factories import make_user

CASES = list(cases())
OBJECTS = [case for case in CASES if case.is_detail and case.template not in SINGLE]
COLLECTIONS = [case for case in CASES if case.template in RESOURCES]
OTHERS = [case for case in CASES if case.template in SINGLE]
VIEWS: dict[str, Any] = {prefix: view for prefix, view, _ in router.registry}
ROLES = ["nobody", *Role.values, "operator"]

pytestmark = pytest.mark.django_db


class Scene:
    """Tenant A with the person who tries, and tenant B with one object of each kind."""

    def __init__(self, role: str) -> None:
        self.world = World()
        self.role, self.theirs, self.ours = role, self.world.tenant, self.world.other
        if role in Role.values:
            self.world.people[role] = make_user(tenant=self.ours, role=role)
        self.client = self.world.client(role)
        self.client.raise_request_exception = False
        self.ids = {name: resource.make(self.theirs) for name, resource in RESOURCES.items()}

    def send(self, case: Case, body: Any = None, query: str = "") -> Any:
        path = url(case.template.replace("{id}", self.ids.get(case.resource, "strange"))) + query
        send = getattr(self.client, case.method)
        return send(path) if case.method == "get" else send(path, body or {}, format="json")

    def refused(self, case: Case, status: int, body: Any = None, query: str = "") -> None:
        """The answer is a problem with ``status`` that names nothing of B, and no table has a row more or less."""
        before = row_counts()
        answer = self.send(case, body, query)
        assert answer.status_code == status, (self.role, str(case), answer.status_code, answer.content[:300])
        problem(answer, status)
        assert self.theirs.name not in answer.content.decode(), str(case)
        assert row_counts() == before, (self.role, str(case))

    def allowed(self, case: Case, body: Any = None, query: str = "") -> Any:
        """Neither refused nor broken; what it did is undone."""
        with transaction.atomic():
            answer = self.send(case, body, query)
            transaction.set_rollback(True)
        wrong = answer.status_code >= 500 or answer.status_code in (401, 403, 404, 405)
        assert not wrong, (self.role, str(case), answer.status_code, text_of(answer)[:300] if wrong else "")
        return answer


def text_of(answer: Any) -> str:
    """Nothing of a stream: it reads in threads, which see no row of a test's transaction."""
    return "" if answer.streaming else answer.content.decode()


def row_counts() -> dict[str, int]:
    tables = sorted(m._meta.db_table for m in apps.get_models() if m._meta.managed and not m._meta.proxy)
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in tables))
        return dict(cursor.fetchall())


def everything_of(tenant: Tenant) -> str:
    models = [m for m in apps.get_models() if issubclass(m, TenantOwned)]
    rows = [row for m in models for row in m._default_manager.for_tenant(tenant.id).order_by("pk")]  # type: ignore[attr-defined]
    return str(serializers.serialize("json", [*rows, Tenant.objects.get(id=tenant.id)]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_matrix_knows_the_route(case: Case) -> None:
    detail = f"{case.template}: name it in tests/helpers/api_routes.py, as a resource or as a single route"
    assert case.template in SINGLE or (case.resource and (case.is_detail or case.template == case.resource)), detail


@pytest.mark.parametrize("role", ROLES)
def test_what_is_another_tenants_is_not_found(role: str) -> None:
    scene = Scene(role)
    before = everything_of(scene.theirs), everything_of(scene.ours)
    for case in OBJECTS:
        resource = RESOURCES[case.resource]
        if role == "nobody":
            scene.refused(case, 401)
        elif role == "operator":
            scene.allowed(case)
        elif resource.of == "tenant":
            scene.refused(case, 404)
        elif resource.of == "operator":
            scene.refused(case, 403)
        elif case.method == "get":
            scene.allowed(case)
        else:
            scene.refused(case, 403)
    assert (everything_of(scene.theirs), everything_of(scene.ours)) == before


@pytest.mark.parametrize("role", ROLES)
def test_lists_show_ones_own_and_nothing_is_made_for_another(role: str) -> None:
    scene = Scene(role)
    before = everything_of(scene.theirs)
    for case in COLLECTIONS:
        resource = RESOURCES[case.resource]
        body = resource.create(scene.theirs) if resource.create and case.method == "post" else None
        if role == "nobody":
            scene.refused(case, 401, body)
        elif role == "operator":
            scene.allowed(case, body)
        elif resource.of == "operator" or (case.method == "post" and body is None):
            scene.refused(case, 403, body)
        elif case.method == "post":
            scene.refused(case, 404, body)
        elif resource.of == "tenant":
            assert scene.theirs.id not in text_of(scene.allowed(case))
            if case.template != "tenants":
                scene.refused(case, 404, query=f"?tenant={scene.theirs.id}")
    assert everything_of(scene.theirs) == before


@pytest.mark.parametrize("role", ROLES)
def test_routes_without_an_object(role: str) -> None:
    scene = Scene(role)
    for case in OTHERS:
        kind, query = SINGLE[case.template], QUERIES.get(case.template, "")
        if kind == "open":
            continue
        if role == "nobody":
            scene.refused(case, 401, query=f"?{query}")
        elif kind == "session":
            if case.is_detail:
                scene.refused(case, 404)
        elif kind == "operator":
            _ = scene.allowed(case) if role == "operator" else scene.refused(case, 403)
        elif kind == "body":
            body = {"tenant": scene.theirs.id}
            _ = scene.allowed(case, body) if role == "operator" else scene.refused(case, 404, body)
        elif role == "operator":
            scene.allowed(case, query=f"?{query}&tenant={scene.theirs.id}")
        else:
            assert scene.theirs.id not in text_of(scene.allowed(case, query=f"?{query}"))
            scene.refused(case, 404, query=f"?{query}&tenant={scene.theirs.id}")


def test_a_parameter_that_a_route_does_not_have_is_named_with_those_it_has() -> None:
    """Of every GET. What a list has is computed here from its view's filters, not from the schema."""
    scene, stranger = Scene("operator"), Scene("nobody")
    for case in CASES:
        if case.method != "get" or case.template == "schema":
            continue
        path = url(case.template.replace("{id}", scene.ids.get(case.resource, "strange")))
        answer = scene.client.get(f"{path}?{QUERIES.get(case.template, '')}&tenent={scene.ours.id}")
        detail = problem(answer, 400, "tenent")["detail"]
        view = VIEWS.get(case.template)
        if view is not None and case.action == "list" and view.pagination_class is not None:
            filters = getattr(getattr(view, "filterset_class", None), "base_filters", ())
            known = {*filters, "cursor", "page_size", "ordering", *(["search"] if view.search_fields else [])}
            assert set(detail.partition("there are: ")[2].split(", ")) == known, str(case)
        if SINGLE.get(case.template) != "open":
            problem(stranger.client.get(f"{path}?tenent=x"), 401)


def test_a_membership_that_ended_opens_nothing_more() -> None:
    world = World()
    key = RESOURCES["keys"].make(world.tenant)
    assert world.client("owner").get(url("keys", key)).status_code == 200
    Membership.objects.for_tenant(world.tenant.id).filter(user=world.people["owner"]).delete()
    problem(world.client("owner").get(url("keys", key)), 404)
    assert world.client("owner").get(url("me")).json()["memberships"] == []


def test_a_key_of_one_tenant_opens_nothing_of_another() -> None:
    """As the matrix, for a bearer with every right that a key can have."""
    scene = Scene("owner")
    key, token = _management_key(scene)
    scene.client = bearer(token)
    scene.client.get(url("keys", key))  # notes its use
    for case in OBJECTS:
        answer = scene.send(case)
        if RESOURCES[case.resource].of == "tenant":
            problem(answer, 404)
        elif case.method != "get":
            assert answer.status_code in (401, 403), (str(case), answer.content)


def _management_key(scene: Scene) -> tuple[str, str]:
    body = {"tenant": scene.ours.id, "name": "ci", "scopes": ["management"]}
    answer = scene.client.post(url("keys"), body, format="json")
    assert answer.status_code == 201, answer.content
    return answer.json()["key"]["id"], answer.json()["token"]
