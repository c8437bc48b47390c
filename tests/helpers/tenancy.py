"""A tenant of its own for a journey, and how somebody who was invited comes into it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page, expect

from helpers.cluster import Person
from helpers.console import copied, look

PASSWORD = "seven lamps in a row"


@dataclass(frozen=True)
class Tenancy:
    """What an operator made before anybody of the tenant comes; ``run`` keeps its names apart from other runs'."""

    run: str
    id: str
    name: str
    slug: str


def found_tenant(operator: Person, name: str) -> Tenancy:
    run = secrets.token_hex(2)
    slug = f"{name.lower()}-{run}"
    made = operator.post("tenants", {"name": f"{name} {run}", "slug": slug})
    return Tenancy(run, made["id"], f"{name} {run}", slug)


def make_class(operator: Person, name: str, **terms: Any) -> str:
    """The id of a service class of which a token costs something."""
    price = {"input": "2", "cached": "0.5", "output": "8"}
    made: str = operator.post("classes", {"name": name, "price_per_million": price, **terms})["id"]
    return made


def make_contract(operator: Person, tenant: Tenancy, deployment: str, service_class: str) -> str:
    body = {"tenant": tenant.id, "deployment": deployment, "service_class": service_class}
    made: str = operator.post("contracts", body)["id"]
    return made


def accept_invitation(page: Page, link: str, tenant: Tenancy, name: str) -> None:
    """From the link to the tenant's overview, as somebody without an account."""
    page.goto(link)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Join {tenant.name}")
    page.get_by_label("Your name").fill(name)
    page.get_by_label("Choose a password").fill(PASSWORD)
    page.get_by_role("button", name="Accept the invitation").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(page.get_by_test_id("tenant-switcher")).to_contain_text(tenant.name)


@contextmanager
def aside(page: Page) -> Iterator[Page]:
    """A tab of the same browser in which refusals belong to the journey: a browser logs each as an error."""
    tab = page.context.new_page()
    try:
        yield tab
    finally:
        tab.close()


def take_token(page: Page, shot: str) -> str:
    """The one time a token is shown: copied, and nowhere on the page afterwards."""
    shown = page.get_by_test_id("key-token")
    page.get_by_role("dialog").get_by_role("button", name="Copy key", exact=True).click()
    token = copied(page, shown)
    look(page, shot)
    page.get_by_role("button", name="I have saved it").click()
    expect(shown).to_have_count(0)
    assert token.split(".")[1] not in page.content()
    return token
