"""The console in a real browser: sign in, keys, playground, live overview, deployments; a stranger sees nothing."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from helpers.cluster import DEPLOYMENT, Cluster, Person
from helpers.console import WAIT_MS
from helpers.patience import PATIENCE_S

from .conftest import Demo

CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        yield chromium
        chromium.close()


def sign_in(browser: Browser, cluster: Cluster, email: str, password: str, width: int = 1440) -> Page:
    page = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    page.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    page.goto(cluster.base)
    page.get_by_label("E-mail").fill(email)
    page.get_by_role("textbox", name="Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/t/**")
    expect(page.get_by_role("heading").first).to_be_visible()
    return page


@pytest.fixture(scope="module")
def admin(browser: Browser, cluster: Cluster, demo: Demo) -> Iterator[Page]:
    """The demo tenant's admin, signed in; whatever the browser complains of fails the test at the end."""
    said = cluster.manage("create_user", "console@demo.test", "--tenant", "demo", "--role", "admin")
    page = sign_in(browser, cluster, "console@demo.test", said.split()[-1])
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: complaints.append(str(e)))
    yield page
    assert complaints == []


def visit(page: Page, cluster: Cluster, name: str) -> None:
    page.goto(f"{cluster.base}/t/demo/{name}")


def test_a_wrong_password_is_said_clearly(browser: Browser, cluster: Cluster, demo: Demo) -> None:
    page = browser.new_page()
    page.goto(cluster.base)
    page.get_by_label("E-mail").fill("nobody@demo.test")
    page.get_by_role("textbox", name="Password").fill("not the password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("password", re.IGNORECASE))


def test_a_key_is_created_shown_once_and_works(admin: Page, cluster: Cluster) -> None:
    visit(admin, cluster, "keys")
    admin.get_by_test_id("create-key").first.click()
    admin.get_by_role("textbox", name="Name").fill("from the browser")
    admin.get_by_role("button", name="Create key").last.click()
    token = admin.get_by_test_id("key-token").inner_text()
    assert re.fullmatch(r"key_[0-9a-z]{26}\.\S{20,}", token)
    admin.get_by_role("button", name="I have saved it").click()
    expect(admin.get_by_text("from the browser")).to_be_visible()
    assert token not in admin.content()
    request = urllib.request.Request(f"{cluster.base}/v1/models", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert [model["id"] for model in json.load(answer)["data"]] == [DEPLOYMENT]


def test_the_playground_streams_and_judges(admin: Page, cluster: Cluster) -> None:
    visit(admin, cluster, "playground")
    admin.get_by_label("Temperature").fill("0")
    admin.get_by_test_id("message").fill("What is the capital of France?")
    lengths = """() => {
        window.lengths = [];
        new MutationObserver(() => {
            const text = document.querySelector('[data-testid="answer-text"]')?.innerText ?? "";
            if (text.length !== window.lengths.at(-1)) window.lengths.push(text.length);
        }).observe(document.body, { subtree: true, childList: true, characterData: true });
    }"""
    admin.evaluate(lengths)
    admin.get_by_test_id("send").click()
    expect(admin.get_by_test_id("answer-text")).to_have_text("The capital of France is Paris.")
    expect(admin.get_by_test_id("verdict")).to_be_visible()
    assert len(admin.evaluate("window.lengths")) >= 4, "the answer grew token by token"
    expect(admin.get_by_test_id("ttft")).to_have_text(re.compile(r"\d"))
    expect(admin.get_by_test_id("tpot")).to_have_text(re.compile(r"\d"))
    expect(admin.get_by_test_id("tokens")).to_have_text(re.compile(r"^\d+$"))


def test_stop_ends_the_answer(admin: Page, cluster: Cluster) -> None:
    visit(admin, cluster, "playground")
    admin.get_by_test_id("message").fill("Write a very long story about the sea, with many chapters.")
    admin.get_by_test_id("send").click()
    expect(admin.get_by_test_id("answer-text")).to_have_text(re.compile(r"\w+ \w+ \w+"))
    admin.get_by_test_id("stop").click()
    expect(admin.get_by_test_id("send")).to_be_visible()
    expect(admin.get_by_text("Stopped")).to_be_visible()


def test_the_overview_moves_while_an_answer_streams(admin: Page, cluster: Cluster, demo: Demo) -> None:
    visit(admin, cluster, "overview")
    expect(admin.get_by_test_id("live").first).to_have_attribute("data-status", "live")
    offered = admin.get_by_test_id("tile-offered")
    before = offered.inner_text()
    cluster.client(demo.key).chat.completions.create(
        model=DEPLOYMENT, messages=[{"role": "user", "content": "hi"}], max_tokens=4
    )
    expect(offered).not_to_have_text(before)
    admin.screenshot(path=str(cluster.home.parent / "overview.png"))


def test_a_deployment_is_created_cloned_and_stopped(admin: Page, cluster: Cluster, operator: Person) -> None:
    visit(admin, cluster, "deployments")
    admin.get_by_test_id("create-deployment").first.click()
    form = admin.get_by_test_id("create-deployment-form")
    form.get_by_role("combobox", name="Model").or_(form.get_by_label("Model")).first.click()
    admin.get_by_role("option", name=DEPLOYMENT).click()
    form.get_by_label("Name").fill("from-the-browser")
    form.get_by_label(re.compile("class", re.IGNORECASE)).first.click()
    admin.get_by_role("option", name="chat").click()
    expect(admin.get_by_test_id("fit")).to_contain_text(re.compile("fits", re.IGNORECASE))
    form.get_by_role("button", name=re.compile("create|deploy", re.IGNORECASE)).last.click()
    row = admin.get_by_role("row", name=re.compile("from-the-browser "))
    expect(row.locator('[data-state="running"]')).to_be_visible()

    row.get_by_test_id("deployment-menu").click()
    admin.get_by_test_id("clone-deployment").click()
    admin.get_by_label("Name").last.fill("its-clone")
    admin.get_by_test_id("confirm").click()
    clone = admin.get_by_role("row", name=re.compile("its-clone"))
    expect(clone).to_be_visible()

    for one in (clone, row):
        one.get_by_test_id("deployment-menu").click()
        admin.get_by_test_id("stop-deployment").click()
        admin.get_by_test_id("confirm").click()
        expect(one.locator('[data-state="stopped"]')).to_be_visible()
    for one in (clone, row):
        one.get_by_test_id("deployment-menu").click()
        admin.get_by_test_id("delete-deployment").click()
        admin.get_by_test_id("confirm").click()
        expect(one).to_have_count(0)


def test_a_stranger_sees_nothing_of_the_demo(browser: Browser, cluster: Cluster, operator: Person, demo: Demo) -> None:
    operator.post("tenants", {"name": "Strangers", "slug": "strangers"})
    said = cluster.manage("create_user", "stranger@test.test", "--tenant", "strangers", "--role", "owner")
    page = sign_in(browser, cluster, "stranger@test.test", said.split()[-1], width=390)
    for name in ("overview", "deployments", "playground", "keys"):
        page.goto(f"{cluster.base}/t/strangers/{name}")
        expect(page.get_by_role("heading").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert DEPLOYMENT not in page.locator("main").inner_text()
        page.goto(f"{cluster.base}/t/demo/{name}")
        expect(page.get_by_text("You cannot see this tenant")).to_be_visible()
    page.goto(f"{cluster.base}/t/strangers/deployments/{demo.deployment_id}")
    page.wait_for_load_state("networkidle")
    assert DEPLOYMENT not in page.content()
