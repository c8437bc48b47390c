"""Signing in over HTTP: lock-out, the second factor, sessions, one's own password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import struct
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.core.management import call_command
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from berth.core import sealing
from berth.live.console import _refusal_of
from berth.options.services import set_option
from berth.tenants import factors
from berth.tenants.models import RecoveryCode, SecondFactor, User, UserSession
from berth.tenants.services import begin_factor, create_user
from berth.tenants.sessions import kept, public_id
from helpers.api_cases import problem, url
from helpers.factories import PASSWORD, make_user, unique
from helpers.races import both

pytestmark = pytest.mark.django_db
NEW_PASSWORD = "another-long-word-9"


def rfc6238(secret: str, at: float) -> str:
    """HMAC-SHA1 over the count of 30-second steps, dynamically truncated to 6 digits; written from the RFC."""
    digest = hmac.new(base64.b32decode(secret), struct.pack(">Q", int(at) // 30), hashlib.sha1).digest()
    offset = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[offset : offset + 4])[0] & 0x7FFFFFFF) % 1_000_000:06d}"


@pytest.fixture
def user() -> User:
    return create_user(email=f"{unique('ann')}@example.com", password=PASSWORD, name="Ann")


@pytest.fixture
def operator() -> User:
    return create_user(email=f"{unique('op')}@example.com", password=PASSWORD, is_operator=True)


class Clock:
    """The seconds that codes are judged by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_800_000_000.0
        monkeypatch.setattr(factors.time, "time", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def sign_in(user: User, password: str = PASSWORD, **body: str) -> tuple[APIClient, Any]:
    client = APIClient()
    body = {"email": user.email, "password": password, **body}
    return client, client.post(url("session"), body, format="json")


def browser(user: User, **body: str) -> APIClient:
    client, answer = sign_in(user, **body)
    assert answer.status_code == 200, answer.content
    return client


def enrol(client: APIClient, clock: Clock) -> tuple[str, list[str]]:
    secret = client.post(url("me", "mfa")).json()["secret"]
    answer = client.post(url("me", "mfa", "confirm"), {"code": rfc6238(secret, clock.now)}, format="json")
    assert answer.status_code == 200, answer.content
    return secret, answer.json()["recovery_codes"]


class TestLockout:
    def test_it_locks_says_for_how_long_and_unlocks(self, user: User) -> None:
        set_option(key="lockout_attempts", value=3, actor="test")
        set_option(key="lockout_minutes", value=10, actor="test")
        assert [sign_in(user, "wrong")[1].status_code for _ in range(3)] == [401, 401, 429]
        body = problem(sign_in(user)[1], 429)
        assert body["code"] == "locked_out"
        assert 590 <= body["retry_after"] <= 600
        assert "10 minutes" in body["detail"]

        AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=8))
        body = problem(sign_in(user)[1], 429)
        assert 115 <= body["retry_after"] <= 120, "trying meanwhile does not make it longer"
        AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=11))
        assert sign_in(user)[1].status_code == 200

    def test_a_success_forgets_the_failures_before(self, user: User) -> None:
        set_option(key="lockout_attempts", value=3, actor="test")
        for _ in range(3):
            assert [sign_in(user, "wrong")[1].status_code for _ in range(2)] == [401, 401]
            browser(user)

    def test_wrong_codes_count_as_well(self, user: User, clock: Clock) -> None:
        set_option(key="lockout_attempts", value=3, actor="test")
        secret, _ = enrol(browser(user), clock)
        assert [sign_in(user, code="000000")[1].status_code for _ in range(3)] == [401, 401, 429]
        clock.now += 60
        right = rfc6238(secret, clock.now)
        assert problem(sign_in(user, code=right)[1], 429)["code"] == "locked_out"

    def test_a_wrong_present_password_counts_as_well(self, user: User) -> None:
        set_option(key="lockout_attempts", value=3, actor="test")
        client, body = browser(user), {"current": "wrong", "new": NEW_PASSWORD}
        answers = [client.post(url("me", "password"), body, format="json") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [400, 400, 429]
        problem(answers[0], 400, "current")

    def test_the_command_ends_it(self, user: User) -> None:
        set_option(key="lockout_attempts", value=3, actor="test")
        for _ in range(3):
            sign_in(user, "wrong")
        client = APIClient()
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        call_command("reset_password", user.email.upper(), stdout=(out := _Out()))
        password = re.search(r"password (\S+)", out.text)[1]  # type: ignore[index]
        assert sign_in(user, password)[1].status_code == 200
        problem(client.get(url("me")), 401)


class _Out:
    text = ""

    def write(self, text: str) -> None:
        self.text += text


class TestSecondFactor:
    def test_from_the_secret_to_a_sign_in(self, user: User, clock: Clock) -> None:
        client, other = browser(user), browser(user)
        made = client.post(url("me", "mfa")).json()
        assert f"secret={made['secret']}" in made["uri"]
        assert client.get(url("me", "mfa")).json() == {"enabled": False, "required": False, "recovery_codes_left": 0}
        assert sign_in(user)[1].status_code == 200, "it counts only once it was confirmed"
        problem(client.post(url("me", "mfa", "confirm"), {"code": "000000"}, format="json"), 401, "code")

        code = rfc6238(made["secret"], clock.now)
        assert (
            len(client.post(url("me", "mfa", "confirm"), {"code": code}, format="json").json()["recovery_codes"]) == 10
        )

        assert client.get(url("me", "mfa")).json()["enabled"]
        problem(other.get(url("me")), 401)
        assert problem(sign_in(user)[1], 401)["code"] == "mfa_required"
        assert problem(sign_in(user, "wrong", code=code)[1], 401)["code"] == "wrong_credentials"
        clock.now += 30
        assert sign_in(user, code=rfc6238(made["secret"], clock.now))[1].status_code == 200

    def test_a_code_counts_once_and_only_around_its_time(self, user: User, clock: Clock) -> None:
        secret, _ = enrol(browser(user), clock)
        used = rfc6238(secret, clock.now)
        assert problem(sign_in(user, code=used)[1], 401)["code"] == "wrong_code"
        clock.now += 600
        for off, status in ((-60, 401), (60, 401), (-30, 200), (-30, 401), (0, 200), (0, 401), (30, 200)):
            code = rfc6238(secret, clock.now + off)
            assert sign_in(user, code=code)[1].status_code == status, off

    def test_a_recovery_code_counts_once(self, user: User, clock: Clock) -> None:
        client = browser(user)
        _, codes = enrol(client, clock)
        assert len({*codes}) == 10
        with connection.cursor() as cursor:
            cursor.execute("SELECT string_agg(r::text, ' ') FROM tenants_recoverycode r")
            kept = cursor.fetchone()[0]
        assert not any(part in kept for part in (codes[0], codes[0].replace("-", "")))
        assert sign_in(user, code=codes[0].upper())[1].status_code == 200
        assert sign_in(user, code=codes[0])[1].status_code == 401
        assert client.get(url("me", "mfa")).json()["recovery_codes_left"] == 9

        clock.now += 60
        body = {"code": codes[1]}
        fresh = client.post(url("me", "mfa", "recovery-codes"), body, format="json").json()["recovery_codes"]
        assert sign_in(user, code=codes[2])[1].status_code == 401
        assert sign_in(user, code=fresh[0].replace("-", " "))[1].status_code == 200

    def test_the_secret_is_sealed_and_its_key_rotates(self, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
        old, new = b"\x01" * 32, b"\x02" * 32
        held = {"1": old}
        monkeypatch.setattr(sealing, "rotating", lambda purpose: held)
        sealing._box.cache_clear()
        secret, _ = begin_factor(user=user, actor="test")
        sealed = SecondFactor.objects.get(user=user).sealed_secret
        assert secret not in sealed
        held = {"2": new, "1": old}
        sealing._box.cache_clear()
        assert sealing.unseal(factors.PURPOSE, sealed) == secret
        held = {"2": new}
        sealing._box.cache_clear()
        with pytest.raises(sealing.Unsealable):
            sealing.unseal(factors.PURPOSE, sealed)
        sealing._box.cache_clear()

    def test_off_again_takes_a_code(self, user: User, clock: Clock) -> None:
        client = browser(user)
        secret, _ = enrol(client, clock)
        assert problem(client.post(url("me", "mfa")), 409)["code"] == "mfa_enabled"
        problem(client.delete(url("me", "mfa"), {"code": "123456"}, format="json"), 401)
        problem(client.delete(url("me", "mfa"), {}, format="json"), 400, "code")
        clock.now += 30
        body = {"code": rfc6238(secret, clock.now)}
        assert client.delete(url("me", "mfa"), body, format="json").status_code == 204
        assert not RecoveryCode.objects.filter(user=user).exists()
        browser(user)

    def test_an_operator_may_have_to_have_one(self, operator: User, clock: Clock) -> None:
        client = browser(operator)
        assert client.get(url("tenants")).status_code == 200
        set_option(key="require_operator_mfa", value=True, actor="test")
        assert problem(client.get(url("tenants")), 403)["code"] == "mfa_setup_required"
        problem(client.post(url("tenants"), {"name": "x", "slug": "x"}, format="json"), 403)
        assert client.get(url("me", "mfa")).json()["required"]
        assert client.get(url("me")).status_code == 200
        assert _refusal_of(client.session.session_key, "platform") == 4401
        enrol(client, clock)
        assert client.get(url("tenants")).status_code == 200
        assert _refusal_of(client.session.session_key, "platform") == 0
        assert (
            browser(create_user(email=f"{unique('x')}@example.com", password=PASSWORD)).get(url("keys")).status_code
            == 200
        )

    def test_the_command_switches_it_off(self, user: User, clock: Clock) -> None:
        enrol(browser(user), clock)
        call_command("reset_password", user.email, "--mfa", stdout=_Out(), stderr=_Out())
        assert not SecondFactor.objects.filter(user=user).exists()

    @pytest.mark.django_db(transaction=True)
    def test_one_code_used_twice_at_once_counts_once(self, user: User, clock: Clock) -> None:
        secret, _ = enrol(browser(user), clock)
        clock.now += 30
        code, taken = rfc6238(secret, clock.now), []

        def use() -> None:
            taken.append(factors.check_code(user=user, code=code))

        assert both(use, use) == ["done", "done"]
        assert sorted(taken) == [False, True]


class TestSessions:
    def test_they_are_listed_and_ended(self, user: User) -> None:
        client, other, third = browser(user), browser(user), browser(user)
        browser(create_user(email=f"{unique('bob')}@example.com", password=PASSWORD))
        rows = client.get(url("me", "sessions")).json()
        by_age = sorted(rows, key=lambda row: row["created_at"])
        assert [row["current"] for row in by_age] == [True, False, False]
        assert {row["address"] for row in rows} == {"127.0.0.1"}
        assert client.session.session_key not in str(rows)
        mine = public_id(other.session.session_key)

        problem(browser(make_password_user()).delete(url("me", "sessions", mine)), 404)
        assert other.get(url("me")).status_code == 200
        assert client.delete(url("me", "sessions", mine)).status_code == 204

        problem(other.get(url("me")), 401)
        assert _refusal_of(other.cookies["sessionid"].value, "") == 4401
        problem(client.delete(url("me", "sessions", mine)), 404)
        assert client.delete(url("me", "sessions")).status_code == 204
        problem(third.get(url("me")), 401)
        assert len(client.get(url("me", "sessions")).json()) == 1

    def test_who_reads_the_table_signs_in_as_nobody(self, user: User) -> None:
        client, reader = browser(user), APIClient()
        row = UserSession.objects.get(user=user)
        cookie = client.cookies["sessionid"].value
        with connection.cursor() as cursor:
            cursor.execute("SELECT s::text FROM tenants_usersession s WHERE id = %s", [row.id])
            assert cookie not in cursor.fetchone()[0]
        for found in (row.session_key, row.id, kept(row.session_key), "\0", "x" * 5000):
            reader.cookies["sessionid"] = found
            problem(reader.get(url("me")), 401)
        assert client.get(url("me")).status_code == 200

    def test_a_new_password_ends_the_others(self, user: User) -> None:
        client, other = browser(user), browser(user)
        weak = {"current": PASSWORD, "new": "12345"}
        problem(client.post(url("me", "password"), weak, format="json"), 400, "new")
        body = {"current": PASSWORD, "new": NEW_PASSWORD}
        assert client.post(url("me", "password"), body, format="json").status_code == 204
        assert client.get(url("me")).status_code == 200
        problem(other.get(url("me")), 401)
        assert len(client.get(url("me", "sessions")).json()) == 1
        assert sign_in(user)[1].status_code == 401
        assert sign_in(user, NEW_PASSWORD)[1].status_code == 200

    def test_one_that_is_not_used_runs_out(self, user: User) -> None:
        set_option(key="session_days", value=2, actor="test")
        client = browser(user)
        row = UserSession.objects.get(user=user)
        assert row.expire_date - row.last_seen_at == timedelta(days=2)
        long_ago = timezone.now() - timedelta(hours=30)
        UserSession.objects.update(last_seen_at=long_ago, expire_date=long_ago + timedelta(days=2))
        assert client.get(url("me")).status_code == 200
        row.refresh_from_db()
        assert timezone.now() - row.last_seen_at < timedelta(minutes=1)
        assert row.created_at < row.last_seen_at
        UserSession.objects.update(expire_date=timezone.now())
        problem(client.get(url("me")), 401)

    def test_only_a_session_reaches_it(self) -> None:
        client = APIClient()
        for path in ("me", "me/password", "me/sessions", "me/mfa", "me/mfa/confirm", "me/mfa/recovery-codes"):
            problem(client.get(url(path)) if path == "me" else client.post(url(path), {}, format="json"), 401)

    def test_a_name(self, user: User) -> None:
        client = browser(user)
        assert client.patch(url("me"), {"name": "Anna"}, format="json").json()["user"]["name"] == "Anna"
        problem(client.patch(url("me"), {"name": "x" * 121}, format="json"), 400, "name")


def make_password_user() -> User:
    return create_user(email=f"{unique('eve')}@example.com", password=PASSWORD)


def test_passwords_are_kept_by_argon2(user: User) -> None:
    assert user.password.startswith("argon2$argon2id$")
    assert not make_user().has_usable_password()
