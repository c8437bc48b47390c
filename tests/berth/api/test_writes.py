"""If-Match and Idempotency-Key, as every resource has them: no lost update, nothing made twice."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from berth.api import idempotency
from berth.api.models import FirstAnswer
from berth.audit.models import AuditEvent
from berth.tenants.models import ApiKey, Tenant
from helpers.api_cases import World, problem, url
from helpers.factories import unique
from helpers.races import at_once

FIRST, SECOND = '"first"', {"Idempotency-Key": "second"}


def patch(client: APIClient, world: World, name: str, **headers: str) -> Any:
    return client.patch(url("tenants", world.tenant.id), {"name": name}, format="json", headers=headers)


def make_key(client: APIClient, world: World, key: str, name: str = "ci") -> Any:
    body = {"tenant": world.tenant.id, "name": name}
    return client.post(url("keys"), body, format="json", headers={"Idempotency-Key": key})


def keys_of(world: World) -> int:
    return int(ApiKey.objects.for_tenant(world.tenant.id).count())


@pytest.mark.django_db
class TestIfMatch:
    def test_the_version_one_read_is_changed_and_an_older_one_is_not(self) -> None:
        world = World()
        client = world.client("owner")
        read = client.get(url("tenants", world.tenant.id))["ETag"]
        first = patch(client, world, "One", **{"If-Match": read})
        assert first.status_code == 200
        assert first["ETag"] not in ("", read)
        assert first["ETag"] == client.get(url("tenants", world.tenant.id))["ETag"]

        events = AuditEvent.objects.for_platform().count()
        assert problem(patch(client, world, "Two", **{"If-Match": read}), 412)["code"] == "stale"
        assert Tenant.objects.get(id=world.tenant.id).name == "One"
        assert AuditEvent.objects.for_platform().count() == events

        assert patch(client, world, "Two", **{"If-Match": f'"other", W/{first["ETag"]}'}).status_code == 200
        assert patch(client, world, "Three", **{"If-Match": "*"}).status_code == 200

    def test_a_deletion_takes_it_too(self) -> None:
        world = World()
        client = world.client("owner")
        made = make_key(client, world, "k").json()["key"]["id"]
        problem(client.delete(url("keys", made), headers={"If-Match": FIRST}), 412)
        tag = client.get(url("keys", made))["ETag"]
        assert client.delete(url("keys", made), headers={"If-Match": tag}).status_code == 204
        problem(client.delete(url("keys", made), headers={"If-Match": tag}), 404)

    def test_it_opens_nothing(self) -> None:
        """Rights come first, and an error writes nothing."""
        world = World()
        problem(patch(world.client("outsider"), world, "Theirs", **{"If-Match": "*"}), 404)
        problem(patch(world.client("viewer"), world, "Mine", **{"If-Match": "*"}), 403)
        problem(patch(world.client("nobody"), world, "Mine", **{"If-Match": "*"}), 401)
        answer = world.client("owner").patch(
            url("tenants", world.tenant.id), {"name": "x", "weight": 5}, format="json", headers={"If-Match": "*"}
        )
        problem(answer, 403)
        assert Tenant.objects.get(id=world.tenant.id).name == world.tenant.name

    def test_where_there_is_no_object_it_is_refused(self) -> None:
        world = World()
        body = {"tenant": world.tenant.id, "name": "x"}
        answer = world.client("owner").post(url("keys"), body, format="json", headers={"If-Match": "*"})
        assert problem(answer, 400)["code"] == "no_tag"
        assert keys_of(world) == 0

    def test_what_traffic_moves_is_no_other_version(self) -> None:
        world = World()
        client = world.client("owner")
        made = make_key(client, world, "k").json()["key"]["id"]
        tag = client.get(url("keys", made))["ETag"]
        ApiKey.objects.for_tenant(world.tenant.id).filter(id=made).update(last_used_at=timezone.now())
        assert client.get(url("keys", made))["ETag"] == tag
        ApiKey.objects.for_tenant(world.tenant.id).filter(id=made).update(name="other")
        assert client.get(url("keys", made))["ETag"] != tag


@pytest.mark.django_db
class TestIdempotency:
    def test_the_same_request_again_gets_the_first_answer(self) -> None:
        world = World()
        client = world.client("owner")
        first, again = make_key(client, world, "a"), make_key(client, world, "a")
        assert first.status_code == again.status_code == 201
        assert again.json() == first.json()
        assert again["Idempotency-Replayed"] == "true"
        assert "Idempotency-Replayed" not in first
        assert keys_of(world) == 1
        assert make_key(client, world, "b").json()["key"]["id"] != first.json()["key"]["id"]

    def test_another_request_under_the_same_key_is_a_conflict(self) -> None:
        world = World()
        client = world.client("owner")
        make_key(client, world, "a")
        assert problem(make_key(client, world, "a", name="cd"), 409)["code"] == "idempotency_key_reused"
        body = {"tenant": world.tenant.id, "name": "ci"}
        answer = client.post(url("keys", "playground"), body, format="json", headers={"Idempotency-Key": "a"})
        problem(answer, 409)
        assert keys_of(world) == 1

    def test_keys_of_others_are_others(self) -> None:
        world = World()
        ids = {make_key(world.client(who), world, "a").json()["key"]["id"] for who in ("owner", "admin", "operator")}
        assert len(ids) == 3

    def test_an_error_is_not_kept(self) -> None:
        world = World()
        client = world.client("owner")
        body = {"name": "New", "slug": unique("slug")}
        headers = {"Idempotency-Key": "a"}
        problem(client.post(url("tenants"), body, format="json", headers=headers), 403)
        world.people["owner"].is_operator = True
        world.people["owner"].save()
        assert client.post(url("tenants"), body, format="json", headers=headers).status_code == 201

    def test_a_secret_is_not_kept_in_clear(self) -> None:
        world = World()
        token = make_key(world.client("owner"), world, "a").json()["token"]
        row = FirstAnswer.objects.get()
        assert token.split(".")[1] not in str(vars(row))
        assert make_key(world.client("owner"), world, "a").json()["token"] == token

    def test_after_a_day_it_is_forgotten(self) -> None:
        world = World()
        client = world.client("owner")
        first = make_key(client, world, "a").json()
        make_key(client, world, "old")
        long_ago = timezone.now() - idempotency.KEPT - timedelta(minutes=1)
        FirstAnswer.objects.update(created_at=long_ago)
        assert make_key(client, world, "a").json() != first
        assert list(FirstAnswer.objects.values_list("key", flat=True)) == ["a"]

    @pytest.mark.parametrize("key", ["", "a b", "x" * 201, "ключ"])
    def test_keys_have_a_shape(self, key: str) -> None:
        world = World()
        assert problem(make_key(world.client("owner"), world, key), 400)["code"] == "bad_idempotency_key"

    def test_other_methods_ignore_it(self) -> None:
        world = World()
        client = world.client("owner")
        for name in ("One", "Two"):
            assert patch(client, world, name, **SECOND).json()["name"] == name
        assert not FirstAnswer.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestRaces:
    """With real transactions on connections of their own."""

    def test_of_changes_with_one_tag_one_wins(self) -> None:
        world = World()
        tag = world.client("owner").get(url("tenants", world.tenant.id))["ETag"]
        for _ in range(3):
            clients = [world.client("owner") for _ in range(4)]
            calls = [lambda c=c, t=tag: patch(c, world, unique("name"), **{"If-Match": t}) for c in clients]
            answers = at_once(*calls)
            assert sorted(a.status_code for a in answers) == [200, 412, 412, 412]
            winner = next(a for a in answers if a.status_code == 200)
            assert Tenant.objects.get(id=world.tenant.id).name == winner.json()["name"]
            tag = winner["ETag"]

    def test_the_same_request_at_once_is_done_once(self) -> None:
        world = World()
        clients = [world.client("owner") for _ in range(4)]
        answers = at_once(*[lambda c=c: make_key(c, world, "a") for c in clients])
        assert {a.status_code for a in answers} == {201}
        assert len({a.content for a in answers}) == 1
        assert keys_of(world) == 1

    def test_a_first_that_fails_lets_the_second_work(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from berth.tenants import services

        world, entered, real = World(), threading.Event(), services.create_key
        fail = threading.Event()

        def slow(**values: Any) -> Any:
            if not entered.is_set():
                entered.set()
                fail.wait(10)
                raise RuntimeError("the first breaks")
            return real(**values)

        monkeypatch.setattr(services, "create_key", slow)
        first, second = world.client("owner"), world.client("owner")
        first.raise_request_exception = second.raise_request_exception = False  # one signal tells all clients

        def then_second() -> Any:
            entered.wait(10)
            threading.Timer(0.2, fail.set).start()
            return make_key(second, world, "a")

        answers = at_once(lambda: make_key(first, world, "a"), then_second)
        assert [a.status_code for a in answers] == [500, 201]
        assert keys_of(world) == 1

    def test_who_waits_too_long_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from berth.tenants import services

        monkeypatch.setattr(idempotency, "PATIENCE_S", 0.2)
        world, entered, done, real = World(), threading.Event(), threading.Event(), services.create_key

        def slow(**values: Any) -> Any:
            entered.set()
            done.wait(10)
            return real(**values)

        monkeypatch.setattr(services, "create_key", slow)
        first, second = world.client("owner"), world.client("owner")

        def then_second() -> Any:
            entered.wait(10)
            answer = make_key(second, world, "a")
            done.set()
            return answer

        answers = at_once(lambda: make_key(first, world, "a"), then_second)
        assert answers[0].status_code == 201
        assert problem(answers[1], 409)["code"] == "idempotency_in_progress"
