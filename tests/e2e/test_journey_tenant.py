"""A tenant's first admin, from the invitation's link to a session ended, by what the console says alone."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import openai
import psycopg
import pyotp
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from berth.embedded.postgres import Postgres
from helpers.cluster import DEPLOYMENT, Cluster, Person, messages
from helpers.console import choose, copied, escape, follow, look, opened, sign_in, switch_tenant
from helpers.patience import eventually
from helpers.tenancy import PASSWORD, Tenancy, accept_invitation, aside, found_tenant, make_class, take_token

from .conftest import Demo
from .test_console import browser

__all__ = ["browser"]

SUMS = ("requests", "offered", "good", "prompt_tokens", "cached_tokens", "completion_tokens", "good_tokens", "cost")


@pytest.fixture(scope="module")
def tenant(operator: Person) -> Tenancy:
    return found_tenant(operator, "Lighthouse")


def test_a_tenants_admin_runs_the_tenant(
    browser: Browser, cluster: Cluster, operator: Person, demo: Demo, tenant: Tenancy
) -> None:
    dear = f"dear-{tenant.run}"
    make_class(operator, dear, base_ms=60_000, tpot_ms=10_000)
    with opened(browser, cluster.base) as page:
        sign_in(page, "operator@berth.local", operator_password(cluster))
        decision_explained(page)
        switch_tenant(page, tenant.name)
        contract_twice(page, tenant, dear)
        link = invite(page, f"ada-{tenant.run}@lighthouse.test", "Admin")
    with opened(browser, cluster.base) as page:
        come_in(page, link, tenant)
        see_contract(page, tenant, dear)
        with opened(browser, cluster.base) as member:
            take_a_member_in(page, member, tenant, cluster)
        token = hand_out_key(page, operator, demo, tenant)
        again = rotate_key(page, operator, tenant)
        use(cluster, token, again)
        see_usage(page, operator, tenant, dear)
        stay_outside(page, demo, tenant)
        see_attainment(page, operator, tenant, dear)
        spend_budget(page, cluster, operator, tenant, again)
        secret, spare = set_up_second_factor(page)
    with opened(browser, cluster.base) as page:
        sign_in_twice(browser, page, cluster, tenant, secret, spare)


def operator_password(cluster: Cluster) -> str:
    return (cluster.home / "secrets" / "operator_password").read_text().strip()


# The operator's part: a contract, changed once, and the invitation


def contract_twice(page: Page, tenant: Tenancy, dear: str) -> None:
    follow(page, "SLAs")
    page.get_by_role("tab", name="Contracts").click()
    expect(page.get_by_role("main")).to_contain_text("No contract in force")
    page.get_by_test_id("create-contract").click()
    form = page.get_by_test_id("contract-form")
    form.get_by_test_id("submit").click()
    expect(form.get_by_text("Choose one")).to_have_count(2)
    look(page, "contract incomplete")
    choose(page, form, "Deployment", DEPLOYMENT)
    choose(page, form, "Service class", "batch")
    form.get_by_label("Requests a minute").fill("600")
    form.get_by_label("Money a day").fill("100")
    look(page, "contract create")
    form.get_by_test_id("submit").click()
    row = page.get_by_test_id("contracts").get_by_role("row", name=re.compile(DEPLOYMENT))
    expect(row).to_contain_text("Version 1")

    menu(row, page, "Change contract")
    choose(page, form, "Service class", dear)
    expect(form).to_contain_text("A change makes a new version")
    look(page, "contract change")
    form.get_by_test_id("submit").click()
    expect(row).to_contain_text("Version 2")
    menu(row, page, "End contract")
    expect(page.get_by_role("dialog")).to_contain_text(f"End the contract of {tenant.name} on {DEPLOYMENT}?")
    look(page, "contract end")
    page.get_by_role("button", name="Cancel").click()
    expect(row).to_contain_text("In force")


def decision_explained(page: Page) -> None:
    follow(page, "Decisions")
    page.get_by_test_id("decisions").get_by_role("row", name=re.compile(DEPLOYMENT)).last.click()
    decision = page.get_by_test_id("decision")
    for heading in ("Why", "Chosen", "Candidates"):
        expect(decision.get_by_role("heading", name=heading).first).to_be_visible()
    look(page, "decision drawer")
    escape(page, decision)


def invite(page: Page, email: str, role: str) -> str:
    """The link, as whoever invites pastes it into a message."""
    follow(page, "Members")
    page.get_by_test_id("invite").first.click()
    form = page.get_by_test_id("invite-form")
    form.get_by_label("E-mail").fill(email)
    choose(page, form, "Role", role, shot=f"invite {role} roles")
    look(page, f"invite {role}")
    form.get_by_test_id("submit").click()
    shown = page.get_by_test_id("invitation-link")
    page.get_by_role("button", name="Copy link").last.click()
    link = copied(page, shown)
    look(page, f"invited {role}")
    page.get_by_role("button", name="Done").click()
    expect(shown).to_have_count(0)
    expect(page.get_by_test_id("invitations").get_by_role("listitem").filter(has_text=email)).to_contain_text("Open")
    return link


def menu(row: Locator, page: Page, item: str) -> None:
    row.get_by_role("button", name="Actions for").click()
    entry = page.get_by_role("menuitem", name=item)
    expect(entry).to_be_visible()
    look(page, f"menu {item}")
    entry.click()


# Coming in


def come_in(page: Page, link: str, tenant: Tenancy) -> None:
    look_at_invitation(page, link, tenant)
    accept_invitation(page, link, tenant, "Ada Keeper")
    look(page, "tenant overview")
    page.get_by_test_id("tenant-switcher").click()
    expect(page.get_by_role("menuitem")).to_have_text([re.compile(re.escape(tenant.name))])
    look(page, "tenant switcher")
    escape(page, page.get_by_role("menu"))
    page.get_by_test_id("user-menu").click()
    expect(page.get_by_test_id("sign-out")).to_be_visible()
    look(page, "user menu")
    page.get_by_test_id("sign-out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Berth")
    sign_in(page, f"ada-{tenant.run}@lighthouse.test", PASSWORD)
    for name in ("Fleet", "Decisions", "Tenants"):
        expect(page.get_by_role("navigation", name="Main").get_by_role("link", name=name)).to_have_count(0)


def look_at_invitation(page: Page, link: str, tenant: Tenancy) -> None:
    with aside(page) as tab:
        tab.goto(link)
        tab.get_by_label("Your name").fill("Ada Keeper")
        tab.get_by_label("Choose a password").fill("short")
        tab.get_by_role("button", name="Accept the invitation").click()
        expect(tab.get_by_role("alert")).to_contain_text("10")
        expect(tab.get_by_role("heading", level=1)).to_have_text(f"Join {tenant.name}")
        look(tab, "invitation short password")


def cannot_be_accepted(page: Page, link: str, why: str) -> None:
    with aside(page) as tab:
        tab.goto(link)
        expect(tab.get_by_text("This invitation cannot be accepted")).to_be_visible()
        look(tab, f"invitation {why}")


def see_contract(page: Page, tenant: Tenancy, dear: str) -> None:
    follow(page, "SLAs")
    page.get_by_role("tab", name="Contracts").click()
    row = page.get_by_test_id("contracts").get_by_role("row", name=re.compile(DEPLOYMENT))
    expect(row).to_contain_text(dear)
    expect(row).to_contain_text("In force")
    expect(row.get_by_test_id("budget-use")).to_contain_text("$0.00 of $100.00 today")
    expect(page.get_by_test_id("create-contract")).to_have_count(0)
    look(page, "tenant contracts")
    menu(row, page, "Version history")
    versions = page.get_by_test_id("contract-history")
    entries = versions.locator(".mantine-Timeline-item")
    expect(entries).to_have_count(2)
    for entry, said in zip(entries.all(), (("Version 2", "In force"), ("Version 1", "Ended")), strict=True):
        for words in said:
            expect(entry).to_contain_text(words)
    field = page.get_by_role("rowheader", name="Class", exact=True)
    change = versions.get_by_role("row").filter(has=field)
    expect(change.locator("del")).to_have_text("batch")
    expect(change.locator("ins")).to_have_text(dear)
    expect(entries.last).to_contain_text("Requests a minute")
    expect(entries.last).to_contain_text("600")
    look(page, "contract history")
    escape(page, versions)


# The tenant's people


def take_a_member_in(page: Page, other: Page, tenant: Tenancy, cluster: Cluster) -> None:
    """Both pages stay open: who joins, and what a role allows, shows without a reload."""
    ben, cleo, dan = (f"{name}-{tenant.run}@lighthouse.test" for name in ("ben", "cleo", "dan"))
    accept_invitation(other, invite(page, ben, "Developer"), tenant, "Ben Wick")
    row = page.get_by_test_id("members").get_by_role("row", name=re.compile(ben))
    expect(row.get_by_label("Role of Ben Wick")).to_have_value("developer")
    withdrawn, late = invite(page, cleo, "Viewer"), invite(page, dan, "Viewer")
    waiting = page.get_by_test_id("invitations").get_by_role("listitem")
    expect(waiting).to_have_count(2)
    page.get_by_role("button", name=f"Withdraw the invitation of {cleo}").click()
    expect(waiting).to_have_count(1)
    cannot_be_accepted(page, withdrawn, "withdrawn")
    end_invitation(cluster, dan)
    cannot_be_accepted(page, late, "expired")
    page.reload()
    expect(waiting.filter(has_text=dan)).to_contain_text("Expired")
    look(page, "tenant members")

    follow(other, "API keys")
    expect(other.get_by_test_id("create-key").first).to_be_visible()
    row.get_by_label("Role of Ben Wick").select_option("viewer")
    expect(page.get_by_role("dialog")).to_contain_text("Change the role of Ben Wick to Viewer?")
    look(page, "member role")
    page.get_by_test_id("confirm").click()
    expect(row.get_by_label("Role of Ben Wick")).to_have_value("viewer")
    expect(other.get_by_test_id("create-key")).to_have_count(0)
    expect(other.get_by_text("No active keys")).to_be_visible()
    look(other, "viewer keys")


def end_invitation(cluster: Cluster, email: str) -> None:
    """Lets its term be over."""
    with psycopg.connect(Postgres(cluster.home / "postgres").url()) as connection:
        ended = connection.execute(
            "UPDATE tenants_invitation SET expires_at = now() - interval '1 minute' WHERE email = %s", [email]
        )
        assert ended.rowcount == 1


# A key


def hand_out_key(page: Page, operator: Person, demo: Demo, tenant: Tenancy) -> str:
    """The key as its maker pastes it."""
    follow(page, "API keys")
    page.get_by_test_id("create-key").first.click()
    form = page.get_by_test_id("create-key-form")
    form.get_by_role("button", name="Create key").click()
    expect(form.get_by_text("Give the key a name")).to_be_visible()
    look(page, "key without name")
    form.get_by_label("Name", exact=True).fill("lamp control")
    expect(form).to_contain_text("Send requests to /v1.")
    choose(page, form, "Deployments", DEPLOYMENT, shot="key deployments")
    page.keyboard.press("Tab")
    choose(page, form, "Expires", "In 30 days", shot="key expiries")
    look(page, "key create")
    form.get_by_role("button", name="Create key").click()
    token = take_token(page, "key created")
    row = page.get_by_test_id("keys").get_by_role("row", name=re.compile("lamp control"))
    expect(row).to_contain_text("1 deployment")
    [made] = operator.get(f"keys?tenant={tenant.id}")["results"]
    assert (made["id"], made["scopes"], made["deployments"]) == (
        token.split(".")[0], ["inference"], [demo.deployment_id],
    )  # fmt: skip
    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)
    return token


def rotate_key(page: Page, operator: Person, tenant: Tenancy) -> str:
    row = page.get_by_test_id("keys").get_by_role("row", name=re.compile("lamp control"))
    menu(row, page, "Rotate")
    dialog = page.get_by_role("dialog")
    choose(page, dialog, "The old secret goes on working", "For 1 hour")
    look(page, "key rotate")
    page.get_by_test_id("confirm").click()
    token = take_token(page, "key rotated")
    expect(row).to_contain_text("The old secret ends")
    look(page, "tenant keys")
    menu(row, page, "Name, deployments, expiry, limits")
    expect(page.get_by_test_id("key-form").get_by_label("Name", exact=True)).to_have_value("lamp control")
    look(page, "key edit")
    page.keyboard.press("Escape")
    [key] = operator.get(f"keys?tenant={tenant.id}")["results"]
    grace = datetime.fromisoformat(key["previous_until"]) - datetime.now(UTC)
    assert timedelta(minutes=55) < grace <= timedelta(hours=1)
    return token


def use(cluster: Cluster, *tokens: str) -> None:
    """Both secrets open the gateway, and only to the deployment that the key names."""
    assert len(set(tokens)) == len(tokens)
    for token in tokens:
        client = cluster.client(token)
        assert [model.id for model in client.models.list()] == [DEPLOYMENT]
        answer = client.chat.completions.create(
            model=DEPLOYMENT, messages=messages("What is the capital of France?"), max_tokens=16, temperature=0
        )
        assert "Paris" in (answer.choices[0].message.content or "")


# What it cost, and how it was served


def see_usage(page: Page, operator: Person, tenant: Tenancy, dear: str) -> None:
    total = eventually(lambda: booked(operator, tenant, 2), "both requests are booked")
    assert Decimal(total["cost"]) > 0
    follow(page, "Usage")
    expect(page.get_by_test_id("usage-requests")).to_contain_text(re.compile(r"^\D*2\b"))
    counts = [str(total[name]) for name in ("prompt_tokens", "cached_tokens", "completion_tokens", "good_tokens")]
    for group, name in {"Member": "Ada Keeper", "Key": "lamp control", "Class": dear}.items():
        page.get_by_test_id("usage-by").get_by_text(group, exact=True).click()
        cells = page.get_by_test_id("usage-table").get_by_role("row", name=re.compile(name)).get_by_role("cell")
        expect(cells).to_have_text([name, "2", "100 %", *counts, re.compile(r"^\$0\.0")])
        assert same_money(cells.last.inner_text(), total["cost"])
        look(page, f"tenant usage by {group}")
    assert same_money(page.get_by_test_id("usage-cost").inner_text().split("\n")[1], total["cost"])
    for item, lines in (("This table, by class", 1), ("A line for each request", 2)):
        rows = downloaded(page, item)
        assert len(rows) == lines
        assert sums_of(rows) == {name: Decimal(str(total[name])) for name in sums_of(rows)}


def booked(operator: Person, tenant: Tenancy, requests: int) -> dict[str, Any] | None:
    total: dict[str, Any] = operator.get(f"usage/summary?tenant={tenant.id}&group=class")["total"]
    return total if total["requests"] == requests else None


def same_money(shown: str, exact: str) -> bool:
    """Whether ``$0.00068`` is the exact amount to the digits that it has."""
    amount = Decimal(shown.strip().removeprefix("$"))
    return abs(amount - Decimal(exact)) <= Decimal(1).scaleb(int(amount.as_tuple().exponent)) / 2


def downloaded(page: Page, item: str) -> list[dict[str, str]]:
    page.get_by_test_id("usage-export").click()
    expect(page.get_by_role("menuitem", name=item)).to_be_visible()
    look(page, "usage export")
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=item).click()
    text = Path(download.value.path()).read_text()
    return list(csv.DictReader(text.splitlines()))


def sums_of(rows: list[dict[str, str]]) -> dict[str, Decimal]:
    """Of every column that is a sum; in a file of requests, of those a line has."""
    names = [name for name in SUMS if rows[0].get(name, "").replace(".", "").isdigit()]
    return {name: sum((Decimal(row[name]) for row in rows), Decimal(0)) for name in names}


def see_attainment(page: Page, operator: Person, tenant: Tenancy, dear: str) -> None:
    def judged() -> bool:
        total = operator.get(f"slas/attainment?tenant={tenant.id}")["total"]
        return (total["offered"], total["good"]) == (2, 2)

    eventually(judged, "the minute of both requests is over and written")
    follow(page, "SLAs")
    expect(page.get_by_test_id("attained")).to_contain_text("100 %")
    expect(page.get_by_test_id("attained")).to_contain_text("2 good")
    expect(page.get_by_test_id("budget-left")).to_contain_text("100 %")
    row = page.get_by_test_id("attainment-groups").get_by_role("row", name=re.compile(dear))
    expect(row.get_by_role("cell").nth(2)).to_have_text("100 %")
    look(page, "tenant attainment")


def spend_budget(page: Page, cluster: Cluster, operator: Person, tenant: Tenancy, token: str) -> None:
    """A day's budget below what the key has used already: its row says how much, and the endpoint that it is spent."""
    follow(page, "API keys")
    row = page.get_by_test_id("keys").get_by_role("row", name=re.compile("lamp control"))
    menu(row, page, "Name, deployments, expiry, limits")
    form = page.get_by_test_id("key-form")
    form.get_by_label("Tokens a day").fill("20")
    form.get_by_label("Money a month").fill("12.5")
    look(page, "key budgets")
    form.get_by_test_id("submit").click()
    total = operator.get(f"usage/summary?tenant={tenant.id}&group=class")["total"]
    used = total["prompt_tokens"] + total["completion_tokens"]
    expect(row.get_by_test_id("budget-use")).to_contain_text(f"{used} of 20 tokens today")
    expect(row.get_by_test_id("budget-use")).to_contain_text("of $12.50 this month")
    look(page, "tenant keys with budgets")
    client = cluster.client(token)

    def spent() -> bool:  # within a second every gateway knows
        try:
            client.chat.completions.create(model=DEPLOYMENT, messages=messages("hi"), max_tokens=1)
        except openai.RateLimitError as refused:
            said = "more than the budget of 20 tokens a day of this API key" in refused.message
            return said and refused.code == "insufficient_quota"
        return False

    eventually(spent, "the key's budget is spent")


def stay_outside(page: Page, demo: Demo, tenant: Tenancy) -> None:
    designed = {
        "/t/demo/keys": "You cannot see this tenant",
        "/t/~platform/fleet": "You cannot see this tenant",
        f"/t/{tenant.slug}/no-such-page": "There is no such page",
        f"/t/{tenant.slug}/keys/{demo.key_id}": "There is no such page",
    }
    for address, text in designed.items():
        page.goto(address)
        expect(page.get_by_text(text)).to_be_visible()
        look(page, f"outside {address.replace(tenant.slug, '')}")
    page.goto(f"/t/{tenant.slug}/overview")


# The second factor


def set_up_second_factor(page: Page) -> tuple[str, str]:
    """The secret, and a recovery code. It was confirmed by the code before this one: the next is good at once."""
    follow(page, "Settings")
    with aside(page) as tab:
        tab.goto(page.url)
        tab.get_by_test_id("mfa-begin").click()
        secret = tab.get_by_test_id("mfa-secret").inner_text()
        code = tab.get_by_label("Code of the app")
        code.fill("000000")
        tab.get_by_role("button", name="Confirm").click()
        expect(tab.get_by_test_id("mfa-form").get_by_role("alert")).to_contain_text("The code is wrong")
        look(tab, "mfa set up")
        code.fill(pyotp.TOTP(secret).at(time.time() - 30))
        tab.get_by_role("button", name="Confirm").click()
        codes = tab.get_by_test_id("recovery-codes")
        expect(codes.get_by_role("listitem")).to_have_count(10)
        spare = codes.get_by_role("listitem").first.inner_text()
        look(tab, "mfa recovery codes")
        tab.get_by_role("button", name="I have saved them").click()
        expect(tab.get_by_text("10 recovery codes are left.")).to_be_visible()
        assert spare not in tab.content()
        look(tab, "account")
        tab.get_by_test_id("user-menu").click()
        tab.get_by_test_id("sign-out").click()
        expect(tab.get_by_role("heading", level=1)).to_have_text("Sign in to Berth")
    return secret, spare


def sign_in_twice(browser: Browser, page: Page, cluster: Cluster, tenant: Tenancy, secret: str, spare: str) -> None:
    """Once by the authenticator's code, once by a recovery code; then the first ends the second."""
    with aside(page) as here, opened(browser, cluster.base) as there, aside(there) as other:
        enter(here, tenant, lambda: pyotp.TOTP(secret).now())
        enter(other, tenant, lambda: spare)
        follow(here, "Settings")
        expect(here.get_by_text("9 recovery codes are left.")).to_be_visible()
        rows = here.get_by_test_id("sessions").get_by_role("listitem")
        expect(rows).to_have_count(2)
        look(here, "sessions")
        rows.get_by_role("button", name="End the session").click()
        expect(rows).to_have_count(1)
        expect(other.get_by_text("Your session has ended")).to_be_visible()
        look(other, "session ended")


def enter(page: Page, tenant: Tenancy, code: Callable[[], str]) -> None:
    page.goto("/")
    page.get_by_label("E-mail").fill(f"ada-{tenant.run}@lighthouse.test")
    page.get_by_role("textbox", name="Password").fill("seven lamps")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    look(page, "sign-in refused")
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("One more step")
    look(page, "code asked")
    page.get_by_test_id("code").fill(code())
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url("**/t/**")
    expect(page.get_by_test_id("tenant-switcher")).to_contain_text(tenant.name)
