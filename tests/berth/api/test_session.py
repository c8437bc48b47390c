"""Signing in and out: the cookie, CSRF, the lock-out, and who one is."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from berth.tenants.models import User
from berth.tenants.services import add_member, create_user
from helpers.api_cases import problem, url
from helpers.factories import PASSWORD, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return create_user(email="Ann@Example.com", password=PASSWORD, name="Ann")


@pytest.fixture
def browser() -> APIClient:
    """Checks CSRF, and has the cookie of a first visit."""
    client = APIClient(enforce_csrf_checks=True)
    assert client.get(url("session")).json() == {
        "user": None,
        "sign_in": {"password": True, "provider": None},
    }
    return client


def sign_in(client: APIClient, password: str = PASSWORD, email: str = "ann@example.com") -> Any:
    token = client.cookies["csrftoken"].value
    return client.post(url("session"), {"email": email, "password": password}, format="json", HTTP_X_CSRFTOKEN=token)


def test_sign_in_and_out(browser: APIClient, user: User) -> None:
    tenant = make_tenant("acme")
    add_member(tenant=tenant, user=user, role="developer", actor="test")
    problem(browser.get(url("me")), 401)

    me = sign_in(browser, email="ANN@example.com").json()

    assert me == {
        "user": {"id": user.id, "email": "ann@example.com", "name": "Ann", "is_operator": False},
        "is_operator": False,
        "memberships": [{"tenant": {"id": tenant.id, "name": "acme", "slug": "acme"}, "role": "developer"}],
    }
    assert browser.get(url("me")).json() == me
    assert browser.get(url("session")).json()["user"]["email"] == "ann@example.com"
    cookie = browser.cookies["sessionid"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"

    token = browser.cookies["csrftoken"].value
    assert browser.delete(url("session"), HTTP_X_CSRFTOKEN=token).status_code == 204
    problem(browser.get(url("me")), 401)


def test_a_session_that_was_there_before_is_not_the_one_after(browser: APIClient, user: User) -> None:
    """Whoever planted a cookie has nothing by it."""
    planted = "planted0planted0planted0planted0"
    browser.cookies["sessionid"] = planted
    assert sign_in(browser).status_code == 200
    first = browser.cookies["sessionid"].value
    assert first != planted
    create_user(email="bob@example.com", password=PASSWORD)
    assert sign_in(browser, email="bob@example.com").status_code == 200
    assert browser.cookies["sessionid"].value not in (planted, first)
    assert browser.get(url("me")).json()["user"]["email"] == "bob@example.com"


def test_without_the_csrf_token_nothing_is_written(browser: APIClient, user: User) -> None:
    body = {"email": user.email, "password": PASSWORD}
    assert problem(browser.post(url("session"), body, format="json"), 403)["code"] == "csrf"
    assert sign_in(browser).status_code == 200
    problem(browser.delete(url("session")), 403)
    problem(browser.post(url("keys"), {"tenant": "x", "name": "x"}, format="json"), 403)
    assert browser.get(url("me")).status_code == 200


def test_wrong_credentials_say_the_same_whoever_it_is(browser: APIClient, user: User) -> None:
    wrong = problem(sign_in(browser, "wrong password"), 401)
    nobody = problem(sign_in(browser, email="nobody@example.com"), 401)
    assert wrong["detail"] == nobody["detail"]
    user.is_active = False
    user.save()
    assert problem(sign_in(browser), 401)["detail"] == wrong["detail"]
    problem(sign_in(browser, email="no address"), 400, "email")


def test_eight_failures_lock_that_person_out_for_a_while(browser: APIClient, user: User) -> None:
    create_user(email="bob@example.com", password=PASSWORD)
    answers = [sign_in(browser, f"guess {n}") for n in range(8)]
    assert [answer.status_code for answer in answers[:7]] == [401] * 7
    for answer in (answers[7], sign_in(browser)):
        assert problem(answer, 429)["code"] == "locked_out"
        assert answer["retry-after"] == "900"
    assert sign_in(browser, email="bob@example.com").status_code == 200
