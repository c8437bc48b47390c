"""The provider's sign-in as a person goes through it, in a real browser, in both languages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from berth.tenants.services import add_member, create_user, invite
from helpers.console import opened
from helpers.factories import PASSWORD, make_tenant, unique
from helpers.oidc_provider import Person, Provider, running_provider
from helpers.web import Web, serving_web

pytestmark = pytest.mark.django_db(transaction=True)
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Playwright's own event loop runs in this thread; the tests' queries are not on it."""
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as running:
        yield running


@pytest.fixture(scope="module")
def web(provider: Provider, django_db_setup: None) -> Iterator[Web]:
    with serving_web(**provider.variables, BERTH_PASSWORD_SIGNIN="false") as running:
        yield running


def test_from_the_page_one_wanted_through_the_provider_and_back(browser: Browser, provider: Provider, web: Web) -> None:
    tenant = make_tenant(unique("acme"))
    user = create_user(email=f"{unique('ann')}@example.com", password=PASSWORD)
    add_member(tenant=tenant, user=user, role="developer", actor="test")
    with opened(browser, web.origin) as page:
        provider.person = None
        page.goto(f"/t/{tenant.slug}/keys")
        page.get_by_role("button", name="Sign in with Acme Login").click()
        expect(page.get_by_role("alert")).to_have_text("The sign-in was cancelled.")
        expect(page.get_by_label("E-mail")).to_have_count(0)

        provider.person = Person(user.email, {"email_verified": False})
        page.get_by_role("button", name="Sign in with Acme Login").click()
        expect(page.get_by_role("alert")).to_contain_text("Your address is not verified there.")

        provider.person = Person(user.email)
        page.goto(f"/t/{tenant.slug}/keys")
        page.get_by_role("button", name="Sign in with Acme Login").click()
        page.wait_for_url(f"**/t/{tenant.slug}/keys")
        expect(page.get_by_role("heading", level=1)).to_have_text("API keys")


def test_an_operator_keeps_the_password(browser: Browser, provider: Provider, web: Web) -> None:
    operator = create_user(email=f"{unique('op')}@example.com", password=PASSWORD, is_operator=True)
    with opened(browser, web.origin) as page:
        page.goto("/signin")
        page.get_by_role("button", name="I run this platform: sign in with a password").click()
        page.get_by_label("E-mail").fill(operator.email)
        page.get_by_role("textbox", name="Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in", exact=True).click()
        page.wait_for_url("**/t/~platform/**")


def test_who_is_invited_accepts_by_signing_in(browser: Browser, provider: Provider, web: Web) -> None:
    tenant, guest = make_tenant(unique("acme")), f"{unique('guest')}@acme.test"
    _, token = invite(tenant=tenant, email=guest, role="viewer", actor="test")
    provider.person = Person(guest)
    with opened(browser, web.origin) as page:
        page.goto(f"/invitation#{token}")
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Join {tenant.name}")
        page.get_by_role("button", name="Sign in with Acme Login").click()
        page.wait_for_url(f"**/t/{tenant.slug}/**")
        expect(page.get_by_test_id("tenant-switcher")).to_contain_text(tenant.name)
