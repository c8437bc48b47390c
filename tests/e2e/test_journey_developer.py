"""A developer, from the invitation's link to knowing why an answer was late, by what the console says alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Page, expect

from helpers.cluster import DEPLOYMENT, Cluster, Person
from helpers.console import LANGUAGE, choose, copied, escape, follow, look, opened
from helpers.patience import PATIENCE_S, eventually
from helpers.tenancy import (
    Tenancy,
    accept_invitation,
    aside,
    found_tenant,
    make_class,
    make_contract,
    take_token,
)

from .conftest import Demo
from .test_console import browser

__all__ = ["browser"]

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
CAPITAL = {"en": "Paris", "zh": "法国"}
"""What answers the question of a fresh key's snippet; the demo's model repeats a Chinese one."""
KEY = "night shift"


@dataclass(frozen=True)
class Harbour:
    """A tenant with two deployments of one model: one whose promise is easily kept, one whose nobody could keep."""

    tenant: Tenancy
    patient: str
    hasty: str
    deployment: str
    link: str
    others_key: str


@pytest.fixture(scope="module")
def harbour(operator: Person, demo: Demo) -> Iterator[Harbour]:
    tenant = found_tenant(operator, "Harbour")
    patient, hasty, name = f"patient-{tenant.run}", f"hasty-{tenant.run}", f"pilot-{tenant.run}"
    easily = make_class(operator, patient, base_ms=60_000, tpot_ms=10_000)
    hardly = make_class(operator, hasty, base_ms=1, tpot_ms=10_000)
    model = next(one for one in operator.get("models")["results"] if one["name"] == DEPLOYMENT)
    made = operator.post(
        "deployments", {"tenant": tenant.id, "name": name, "model": model["id"], "service_class": hardly}
    )
    make_contract(operator, tenant, demo.deployment_id, easily)
    key = operator.post("keys", {"tenant": tenant.id, "name": "the admin's own"})
    body = {"tenant": tenant.id, "email": f"finn-{tenant.run}@harbour.test", "role": "developer"}
    link = operator.post("invitations", body)["url"]
    yield Harbour(tenant, patient, hasty, name, link, key["key"]["id"])
    operator.post(f"deployments/{made['id']}/stop")


def test_a_developer_compares_calls_and_finds_out_why(
    browser: Browser, cluster: Cluster, operator: Person, harbour: Harbour
) -> None:
    with opened(browser, cluster.base) as page:
        accept_invitation(page, harbour.link, harbour.tenant, "Finn Mole")
        token = make_key(page, cluster)
        ready(operator, harbour)
        compare(page, harbour)
        run_the_code(page, token, harbour)
        explain(page, operator, harbour)
        key_was_used(page, operator, harbour)
        not_the_admins(page, harbour)


def make_key(page: Page, cluster: Cluster) -> str:
    """The key, whose own snippet was run as it stood."""
    follow(page, "API keys")
    page.get_by_test_id("create-key").first.click()
    page.get_by_test_id("create-key-form").get_by_label("Name", exact=True).fill(KEY)
    page.get_by_role("button", name="Create key").last.click()
    snippet = copy_code(page, "curl")
    assert CAPITAL[LANGUAGE] in said(shell(snippet))
    token = take_token(page, "developer key")
    assert token in snippet
    row = page.get_by_test_id("keys").get_by_role("row", name=re.compile(KEY))
    expect(row.get_by_role("button", name="Actions for")).to_be_visible()
    return token


def ready(operator: Person, harbour: Harbour) -> None:
    def both() -> bool:
        rows = operator.get(f"deployments?tenant={harbour.tenant.id}")["results"]
        return sum(row["state"]["ready"] > 0 for row in rows) == 2

    eventually(both, "both deployments answer")


# The playground


def compare(page: Page, harbour: Harbour) -> None:
    follow(page, "Playground")
    page.get_by_test_id("compare").click()
    left, right = page.get_by_test_id("side-A"), page.get_by_test_id("side-B")
    choose(page, left, "Deployment A", f"{DEPLOYMENT} · {harbour.patient}")
    choose(page, right, "Deployment B", f"{harbour.deployment} · {harbour.hasty}")
    expect(left).to_contain_text("first token within 60 s")
    expect(right).to_contain_text("first token within 1 ms")
    page.get_by_label("Temperature").fill("0")
    page.get_by_label("Max tokens").fill("24")
    page.get_by_label("System prompt").fill("You are a helpful assistant.")
    look(page, "playground empty")
    page.get_by_test_id("message").fill(QUESTION)
    page.get_by_test_id("send").click()
    for side, verdict in ((left, "Good"), (right, "Late: ")):
        expect(side.get_by_test_id("answer-text")).to_have_text(ANSWER)
        expect(side.get_by_test_id("verdict")).to_contain_text(verdict)
        expect(side.get_by_test_id("ttft")).to_have_text(re.compile(r"\d m?s$"))
        expect(side.get_by_test_id("tpot")).to_have_text(re.compile(r"\d m?s$"))
        expect(side.get_by_test_id("tokens")).to_have_text(re.compile(r"^[1-9]\d?$"))
    look(page, "playground compared")
    on_a_phone(page, "Parameters", "playground parameters")


def on_a_phone(page: Page, button: str, shot: str) -> None:
    """What only a narrow page puts behind a button."""
    page.set_viewport_size({"width": 390, "height": 900})
    page.get_by_role("button", name=button, exact=True).click()
    over = page.get_by_role("dialog")
    expect(over).to_be_visible()
    look(page, shot)
    escape(page, over)
    page.set_viewport_size({"width": 1440, "height": 900})


def run_the_code(page: Page, token: str, harbour: Harbour) -> None:
    """What "View code" shows is run as it stands, with the key in BERTH_KEY."""
    page.get_by_test_id("view-code").click()
    dialog = page.get_by_role("dialog")
    look(page, "playground code")
    curl = copy_code(page, "curl")
    assert "Paris" in said(shell(curl, token))
    dialog.get_by_text(f"B: {harbour.deployment}").click()
    python = copy_code(page, "Python")
    assert harbour.deployment in python
    ran = subprocess.run(
        [sys.executable, "-c", python],
        env=with_key(token),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ran.returncode, "Paris" in ran.stdout) == (0, True), ran.stdout + ran.stderr
    escape(page, dialog)


def copy_code(page: Page, language: str) -> str:
    dialog = page.get_by_role("dialog")
    dialog.get_by_text(language, exact=True).click()
    dialog.get_by_role("button", name="Copy code").click()
    return copied(page, dialog.locator("pre"))


def shell(command: str, token: str = "") -> str:
    ran = subprocess.run(
        ["bash", "-c", command], env=with_key(token), capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return ran.stdout


def with_key(token: str) -> dict[str, str]:
    return os.environ | {"BERTH_KEY": token, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}


def said(stream: str) -> str:
    """What an answer in server-sent events says."""
    chunks = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    return "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks if one.get("choices"))


# Why it was late


def explain(page: Page, operator: Person, harbour: Harbour) -> None:
    """One late request: from its answer in the playground, and from the list; both say what the server judged."""
    page.get_by_test_id("side-B").get_by_role("link", name="Explain this request").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("One request explained")
    sentence = page.get_by_test_id("sentence")
    expect(sentence).to_contain_text(re.compile(r"\b1(\.0)? ms"))
    record = operator.get(f"requests/{page.url.rsplit('/', maxsplit=1)[1]}")
    assert (record["verdict"], record["record"]["offered"]) == ("late", True)
    if LANGUAGE == "en":
        expect(sentence).to_have_text(record["sentence"])
    summary = record["summary"]
    main = page.get_by_role("main")
    expect(main).to_contain_text(f"{harbour.hasty}, contract version 1")
    tokens = f"{summary['prompt_tokens']} prompt ({summary['cached_tokens']} cached)"
    expect(main).to_contain_text(f"{tokens}, {record['record']['completion_tokens']} output")
    expect(main).to_contain_text("Finn Mole")
    look(page, "developer late request")

    follow(page, "Requests")
    rows = page.get_by_test_id("requests").get_by_role("row")
    eventually(lambda: booked(operator, harbour) == 5, "all five requests are booked")
    page.reload()
    expect(rows).to_have_count(6)
    look(page, "developer requests")
    choose(page, page.get_by_role("search", name="Filters"), "Verdict", "Late")
    late = operator.get(f"requests?tenant={harbour.tenant.id}&verdict=late")["results"]
    assert len(late) >= 2, "both of the hasty class"
    expect(rows).to_have_count(1 + len(late))
    expect(rows.nth(1)).to_contain_text(KEY)
    page.get_by_role("button", name="Clear filters", exact=True).click()
    good = rows.filter(has_text="Good").first
    good.get_by_role("link").first.click()
    expect(page.get_by_test_id("sentence")).to_contain_text("In time")
    look(page, "developer good request")


def booked(operator: Person, harbour: Harbour) -> int:
    total = operator.get(f"usage/summary?tenant={harbour.tenant.id}&group=class")["total"]
    return int(total["requests"])


def key_was_used(page: Page, operator: Person, harbour: Harbour) -> None:
    follow(page, "API keys")
    rows = page.get_by_test_id("keys").get_by_role("row")
    expect(rows.filter(has_text=KEY)).to_contain_text(re.compile(r"\d+ ?(sec\. ago|秒前|min\. ago|分钟前)"))
    expect(rows.filter(has_text="the admin's own")).to_contain_text("Never")
    keys = operator.get(f"keys?tenant={harbour.tenant.id}")["results"]
    assert {key["name"]: key["last_used_at"] is not None for key in keys} == {KEY: True, "the admin's own": False}
    look(page, "developer keys")


# What is not theirs


def not_the_admins(page: Page, harbour: Harbour) -> None:
    """Neither a control nor a typed address nor the API gives a developer what is the admin's."""
    others = page.get_by_test_id("keys").get_by_role("row", name=re.compile("the admin's own"))
    expect(others.get_by_role("button", name="Actions for")).to_have_count(0)
    navigation = page.get_by_role("navigation", name="Main")
    for name in ("Audit", "Fleet", "Decisions", "Tenants"):
        expect(navigation.get_by_role("link", name=name)).to_have_count(0)
    follow(page, "Members")
    expect(page.get_by_test_id("members")).to_contain_text("Finn Mole")
    expect(page.get_by_test_id("invite")).to_have_count(0)
    expect(page.get_by_label("Role of Finn Mole")).to_have_count(0)
    look(page, "developer members")
    follow(page, "Deployments")
    expect(page.get_by_role("main")).to_contain_text(harbour.deployment)
    expect(page.get_by_test_id("create-deployment")).to_have_count(0)
    page.get_by_test_id("deployment-menu").first.click()
    expect(page.get_by_role("menuitem")).to_have_count(1)
    expect(page.get_by_role("menuitem")).to_have_text("Open in playground")
    look(page, "developer deployment menu")
    escape(page, page.get_by_role("menu"))
    look(page, "developer deployments")
    on_a_phone(page, "Open navigation", "phone navigation")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog")
    palette.get_by_role("textbox").fill(harbour.deployment)
    expect(palette).to_contain_text(harbour.deployment)
    look(page, "command palette")
    escape(page, palette)
    with aside(page) as tab:
        typed(tab, harbour)


def typed(tab: Page, harbour: Harbour) -> None:
    own = f"/t/{harbour.tenant.slug}"
    designed = {
        "audit": "Your role does not see this",
        "fleet": "The fleet is for operators",
        "no-such-page": "There is no such page",
    }
    for address, text in designed.items():
        tab.goto(f"{own}/{address}")
        expect(tab.get_by_text(text)).to_be_visible()
        look(tab, f"developer typed {address}")
    tab.goto(f"{own}/tenants")
    expect(tab.get_by_role("main")).to_contain_text(harbour.tenant.name)
    expect(tab.get_by_role("main")).not_to_contain_text("Demo")
    expect(tab.get_by_role("button", name="Create tenant")).to_have_count(0)
    for address in ("members?invite=true", f"keys?edit={harbour.others_key}", "deployments?create=true"):
        tab.goto(f"{own}/{address}")
        expect(tab.get_by_role("heading", level=1)).to_be_visible()
        tab.wait_for_load_state("networkidle")  # what the address names is known by then
        expect(tab.get_by_role("dialog")).to_have_count(0)
    tab.goto("/t/demo/overview")
    expect(tab.get_by_text("You cannot see this tenant")).to_be_visible()
