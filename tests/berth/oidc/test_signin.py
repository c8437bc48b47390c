"""Sign-in by a provider: a real one on this machine, a real web process, a browser's cookies."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from django.conf import settings
from django.urls import resolve
from django.utils import timezone
from django.utils.http import urlencode

from berth.audit.models import AuditEvent
from berth.config import BadConfiguration, load
from berth.console.views import index
from berth.oidc.outcome import safe_next
from berth.oidc.setup import Setup, oidc_setup
from berth.tenants import factors
from berth.tenants.models import Invitation, Membership, User, UserSession
from berth.tenants.services import add_member, create_user, invite
from berth.tenants.sessions import kept
from helpers.factories import PASSWORD, make_tenant, unique
from helpers.oidc_provider import SECRET, Person, Provider, running_provider
from helpers.web import REPOSITORY, Web, serving_web

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def told() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def web(told: Provider, django_db_setup: None) -> Iterator[Web]:
    """Passwords are closed to all but operators."""
    with serving_web(**told.variables, BERTH_PASSWORD_SIGNIN="false") as running:
        yield running
        assert SECRET not in "".join(running.said)


@pytest.fixture
def provider(told: Provider) -> Provider:
    told.person, told.signer, told.discovery, told.userinfo = None, None, {}, {}
    told.asked.clear()
    return told


class Browser:
    def __init__(self, web: Web) -> None:
        self.web = web
        self.http = requests.Session()
        self.http.get(f"{web.origin}/api/v1/session", timeout=20)

    def post(self, path: str, body: Any = None) -> requests.Response:
        headers = {"X-CSRFToken": self.http.cookies.get("csrftoken", ""), "Referer": self.web.origin}
        return self.http.post(f"{self.web.origin}{path}", json=body or {}, headers=headers, timeout=20)

    def start(self, next_url: str = "/") -> str:
        answer = self.post("/oidc/start", {"next": next_url})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["url"])

    def follow(self, url: str) -> requests.Response:
        return self.http.get(url, allow_redirects=False, timeout=20)

    def through_provider(self, next_url: str = "/") -> str:
        """Where the browser ends up, without the origin."""
        back = self.follow(self.start(next_url)).headers["location"]
        assert back.startswith(f"{self.web.origin}/oidc/callback?")
        return self.follow(back).headers["location"]

    def me(self) -> str | None:
        answer = self.http.get(f"{self.web.origin}/api/v1/me", timeout=20)
        return str(answer.json()["user"]["email"]) if answer.status_code == 200 else None


@pytest.fixture
def browser(web: Web, provider: Provider) -> Browser:
    return Browser(web)


def person(**values: Any) -> User:
    return create_user(email=f"{unique('ann')}@example.com", password=PASSWORD, **values)


def failed(location: str) -> str:
    parts = urlsplit(location)
    assert parts.path == "/signin"
    return parse_qs(parts.query)["failed"][0]


def test_a_person_is_signed_in_by_the_verified_address(browser: Browser, provider: Provider) -> None:
    user, tenant = person(), make_tenant()
    add_member(tenant=tenant, user=user, role="developer", actor="test")
    provider.person = Person(user.email.upper())
    visitor = browser.http.cookies.get("sessionid")

    assert browser.through_provider("/t/acme/keys?state=live") == "/t/acme/keys?state=live"

    assert browser.me() == user.email
    row = UserSession.objects.get(user=user)
    cookie = browser.http.cookies["sessionid"]
    assert cookie != visitor
    assert row.session_key == kept(cookie)
    event = AuditEvent.objects.for_platform().filter(action="session.create", object_id=user.id).get()
    assert event.after["provider"] == provider.url
    (asked,) = provider.asked
    assert asked["code_challenge_method"] == "S256"
    assert min(len(asked["state"]), len(asked["nonce"])) >= 16
    assert set(asked["scope"].split()) == {"openid", "email", "profile"}
    assert SECRET not in str(asked)
    headers = {"X-CSRFToken": browser.http.cookies["csrftoken"], "Referer": browser.web.origin}
    assert browser.http.delete(f"{browser.web.origin}/api/v1/session", headers=headers, timeout=20).status_code == 204
    assert browser.me() is None


def test_a_session_is_the_persons_own_and_no_other_tenants(browser: Browser, provider: Provider) -> None:
    ours, theirs = make_tenant(), make_tenant()
    user, other = person(), person()
    add_member(tenant=ours, user=user, role="admin", actor="test")
    add_member(tenant=theirs, user=other, role="admin", actor="test")
    provider.person = Person(other.email)
    browser.through_provider()
    get = browser.http.get
    assert browser.me() == other.email
    assert get(f"{browser.web.origin}/api/v1/tenants/{ours.id}", timeout=20).status_code == 404
    assert get(f"{browser.web.origin}/api/v1/tenants/{theirs.id}", timeout=20).status_code == 200


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nonce": ({"nonce": "another"}, "provider"),
    "no nonce": ({"nonce": None}, "provider"),
    "issuer": ({"iss": "https://elsewhere.example"}, "provider"),
    "audience": ({"aud": "another-client"}, "provider"),
    "audiences": ({"aud": ["berth-console", "another"], "azp": "another"}, "provider"),
    "expired": ({"exp": int(time.time()) - 3600}, "provider"),
    "no expiry": ({"exp": None}, "provider"),
    "from the future": ({"iat": int(time.time()) + 3600}, "provider"),
    "no subject": ({"sub": None}, "provider"),
    "unverified": ({"email_verified": False}, "unverified"),
    "verified in words": ({"email_verified": "true"}, "unverified"),
    "not said": ({"email_verified": None}, "unverified"),
    "no address": ({"email": ""}, "unverified"),
    "domain": ({"email": "ann@example.com.evil.test"}, "domain"),
    "two at signs": ({"email": "ann@example.com@evil.test"}, "domain"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_opens_nothing(browser: Browser, provider: Provider, name: str) -> None:
    claims, code = WRONG[name]
    user = person()
    provider.person = Person(user.email, claims)
    assert failed(browser.through_provider()) == code
    assert browser.me() is None
    assert not UserSession.objects.filter(user=user).exists()


def test_another_key_signs_nothing(browser: Browser, provider: Provider) -> None:
    provider.person = Person(person().email)
    provider.signer = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert failed(browser.through_provider()) == "provider"


def test_a_state_counts_once_and_in_its_own_browser(browser: Browser, provider: Provider, web: Web) -> None:
    """So that nobody is signed in as someone else by a link, and no link of a history signs in again."""
    provider.person = Person(person().email)
    back = browser.follow(browser.start()).headers["location"]
    assert failed(Browser(web).follow(back).headers["location"]) == "provider"
    assert browser.follow(back).headers["location"] == "/"
    sent = provider.tokens_sent
    assert failed(browser.follow(back).headers["location"]) == "provider"
    for query in ({"state": "made-up", "code": "x"}, {"code": "x"}, {}):
        assert (
            failed(browser.follow(f"{web.origin}/oidc/callback?{urlencode(query)}").headers["location"]) == "provider"
        )
    assert provider.tokens_sent == sent


def test_the_code_of_another_browser_is_worth_nothing(browser: Browser, provider: Provider, web: Web) -> None:
    """PKCE: who steals the code on its way lacks the verifier."""
    provider.person = Person(person().email)
    stolen = parse_qs(urlsplit(browser.follow(browser.start()).headers["location"]).query)["code"][0]
    thief = Browser(web)
    state = parse_qs(urlsplit(thief.start()).query)["state"][0]
    url = f"{web.origin}/oidc/callback?{urlencode({'state': state, 'code': stolen})}"
    assert failed(thief.follow(url).headers["location"]) == "provider"


def test_nobody_signs_up_uninvited(browser: Browser, provider: Provider) -> None:
    provider.person = Person(f"{unique('new')}@acme.test")
    assert failed(browser.through_provider()) == "no_account"
    assert not User.objects.filter(email=provider.person.email).exists()
    gone = person()
    User.objects.filter(id=gone.id).update(is_active=False)
    provider.person = Person(gone.email)
    assert failed(browser.through_provider()) == "no_account"


def test_who_is_invited_joins_what_is_open(browser: Browser, provider: Provider) -> None:
    guest = f"{unique('guest')}@acme.test"
    first, second, late = make_tenant(), make_tenant(), make_tenant()
    for tenant, role in ((first, "developer"), (second, "viewer"), (late, "owner")):
        invite(tenant=tenant, email=guest, role=role, actor="test")
    past = timezone.now() - timedelta(seconds=1)
    Invitation.objects.for_tenant(late.id).update(expires_at=past)
    provider.person = Person(guest)

    assert browser.through_provider() == "/"

    user = User.objects.get(email=guest)
    assert (user.name, user.has_usable_password()) == ("Ann of Acme", False)
    joined = Membership.objects.for_platform().filter(user=user)
    assert {(m.tenant_id, m.role) for m in joined} == {(first.id, "developer"), (second.id, "viewer")}
    assert browser.me() == guest
    again = make_tenant()
    invite(tenant=again, email=guest, role="viewer", actor="test")
    invite(tenant=make_tenant(), email=person().email, role="viewer", actor="test")
    assert browser.through_provider() == "/"
    assert joined.all().count() == 3
    assert joined.filter(tenant=again).exists()


def test_a_second_factor_is_still_asked_for(browser: Browser, provider: Provider) -> None:
    user = person(is_operator=True)
    secret, _ = factors.begin_factor(user=user, actor="test")
    factors.confirm_factor(user=user, code=pyotp.TOTP(secret).at(time.time() - 30), actor="test")
    provider.person = Person(user.email)
    assert browser.post("/oidc/code", {"code": "123456"}).status_code == 401

    assert browser.through_provider("/t/x") == "/signin?step=code&next=%2Ft%2Fx"
    assert browser.me() is None
    assert browser.post("/oidc/code", {"code": "000000"}).json()["code"] == "wrong_code"
    assert browser.post("/oidc/code", {"code": pyotp.TOTP(secret).now()}).status_code == 200
    assert browser.me() == user.email
    assert browser.post("/oidc/code", {"code": pyotp.TOTP(secret).now()}).json()["code"] == "sign_in_expired"


def test_wrong_codes_lock_out_by_the_provider_too(browser: Browser, provider: Provider, web: Web) -> None:
    user = person()
    secret, _ = factors.begin_factor(user=user, actor="test")
    factors.confirm_factor(user=user, code=pyotp.TOTP(secret).now(), actor="test")
    provider.person = Person(user.email)
    browser.through_provider()
    answers = [browser.post("/oidc/code", {"code": "000000"}).status_code for _ in range(12)]
    assert answers[-1] == 429
    assert failed(Browser(web).through_provider()) == "locked"


def test_passwords_are_closed_to_all_but_operators(browser: Browser, web: Web) -> None:
    user, operator = person(), person(is_operator=True)
    body = {"email": user.email, "password": PASSWORD}
    assert browser.http.get(f"{web.origin}/api/v1/session", timeout=20).json()["sign_in"] == {
        "password": False,
        "provider": "Acme Login",
    }
    assert browser.post("/api/v1/session", body).json()["code"] == "password_closed"
    assert browser.post("/api/v1/session", body | {"password": "wrong"}).json()["code"] == "wrong_credentials"
    _, token = invite(tenant=make_tenant(), email=f"{unique('guest')}@example.com", role="viewer", actor="test")
    accepted = browser.post("/api/v1/invitations/accept", {"token": token, "name": "x", "password": PASSWORD})
    assert accepted.json()["code"] == "password_closed"
    assert browser.me() is None
    assert browser.post("/api/v1/session", body | {"email": operator.email}).status_code == 200
    assert browser.me() == operator.email


def test_who_declines_or_a_provider_that_is_away_leads_back(browser: Browser, provider: Provider) -> None:
    assert failed(browser.through_provider()) == "cancelled"
    for wrong in (
        {"issuer": "https://elsewhere.example"},
        {"token_endpoint": None},
        {"jwks_uri": "http://127.0.0.1:9"},
    ):
        provider.person = Person(person().email)
        provider.discovery = wrong
        answer = browser.post("/oidc/start")
        if answer.status_code == 200:
            back = browser.follow(answer.json()["url"]).headers["location"]
            assert failed(browser.follow(back).headers["location"]) == "provider"
        else:
            assert (answer.status_code, answer.json()["code"]) == (502, "provider_unavailable")


def test_an_address_that_only_userinfo_tells(browser: Browser, provider: Provider) -> None:
    user = person()
    provider.person = Person(user.email, {"email": None, "email_verified": None, "sub": "s-1"})
    provider.userinfo = {"sub": "someone else", "email": user.email, "email_verified": True}
    assert failed(browser.through_provider()) == "provider"
    provider.userinfo["sub"] = "s-1"
    assert browser.through_provider() == "/"
    assert browser.me() == user.email


def test_no_address_elsewhere_is_followed(browser: Browser, provider: Provider) -> None:
    provider.person = Person(person().email)
    for strange in ("//evil.test", "https://evil.test", "/\\evil.test", "javascript:alert(1)", "/\t/evil.test", ""):
        assert safe_next(strange) == "/"
    assert browser.through_provider("https://evil.test/x") == "/"


def test_a_start_needs_the_csrf_token(browser: Browser, web: Web) -> None:
    answer = browser.http.post(f"{web.origin}/oidc/start", json={}, timeout=20)
    assert answer.status_code == 403
    assert browser.http.get(f"{web.origin}/oidc/start", timeout=20).status_code == 405


def test_without_the_settings_there_is_nothing() -> None:
    assert not [name for name in [*settings.INSTALLED_APPS, *settings.MIDDLEWARE] if "allauth" in name]
    assert oidc_setup(load({})) == Setup()
    for path in ("/oidc/start", "/oidc/callback", "/oidc/code"):
        assert resolve(path).func is index  # the console's page, which says that there is no such page


def test_django_finds_nothing_amiss_in_the_settings(told: Provider) -> None:
    """``migrate`` and ``up`` refuse to go on where it does."""
    command = [sys.executable, "manage.py", "check", "--fail-level", "WARNING"]
    done = subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ, **told.variables}, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"BERTH_OIDC_ISSUER": "ftp://x", "BERTH_OIDC_CLIENT_ID": "c"}, "BERTH_OIDC_ISSUER"),
        ({"BERTH_OIDC_ISSUER": "http://login.example.com", "BERTH_OIDC_CLIENT_ID": "c"}, "BERTH_OIDC_ISSUER"),
        ({"BERTH_OIDC_ISSUER": "https://login.example.com"}, "BERTH_OIDC_CLIENT_ID"),
        ({"BERTH_OIDC_CLIENT_ID": "c"}, "BERTH_OIDC_ISSUER"),
        ({"BERTH_PASSWORD_SIGNIN": "false"}, "BERTH_PASSWORD_SIGNIN"),
    ],
)
def test_what_is_half_configured_stops_the_start_by_name(variables: dict[str, str], name: str) -> None:
    with pytest.raises(BadConfiguration, match=name):
        load(variables)


def test_the_secret_comes_from_the_variable_or_the_file(tmp_path: Any) -> None:
    given = {"BERTH_OIDC_ISSUER": "https://x.test", "BERTH_OIDC_CLIENT_ID": "c", "BERTH_SECRETS_DIR": str(tmp_path)}
    with pytest.raises(BadConfiguration, match="oidc_client_secret"):
        oidc_setup(load(given))
    (tmp_path / "oidc_client_secret").write_text("of the file\n")
    assert oidc_setup(load(given)).apps
