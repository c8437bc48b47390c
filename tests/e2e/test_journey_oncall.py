"""Somebody on call, at night: which promise is broken, and why one request was late, by what the console says alone."""

from __future__ import annotations

import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from playwright.sync_api import Browser, Page, expect

from helpers.cluster import DEPLOYMENT, Cluster, Person, messages
from helpers.console import LANGUAGE, escape, follow, look, opened, sign_in

from .conftest import Demo
from .test_console import browser

__all__ = ["browser"]

RUN = secrets.token_hex(2)
EMAIL = f"on-call-{RUN}@berth.test"
CLASS, TENANT = f"hasty-{RUN}", f"Late {RUN}"
REQUESTS = 24
"""Above the least that alerts judge; conditions are looked at every 15 s."""


def test_on_call_finds_why_a_request_was_late(browser: Browser, cluster: Cluster, operator: Person, demo: Demo) -> None:
    password = cluster.manage("create_operator", EMAIL).split()[-1]
    make_late(cluster, operator, demo)
    with opened(browser, cluster.base) as page:
        sign_in(page, EMAIL, password)
        from_overview(page)
        from_violations(page)
        request = explained(page, operator)
        look_at_replica(page, request)
        look_at_decision(page, request)
        look_at_alert(page, operator)
        look_at_audit(page)


def make_late(cluster: Cluster, operator: Person, demo: Demo) -> None:
    """Requests under a promise that nothing can keep: the first token within a millisecond."""
    level = operator.post("classes", {"name": CLASS, "base_ms": 1, "tpot_ms": 1000})
    tenant = operator.post("tenants", {"name": TENANT, "slug": f"late-{RUN}"})
    contract = {"tenant": tenant["id"], "deployment": demo.deployment_id, "service_class": level["id"]}
    operator.post("contracts", contract)
    client = cluster.client(operator.post("keys", {"tenant": tenant["id"], "name": "hurried"})["token"])

    def ask(number: int) -> None:
        client.chat.completions.create(model=DEPLOYMENT, messages=messages(f"{number}?"), max_tokens=4)

    with ThreadPoolExecutor(8) as several:
        list(several.map(ask, range(REQUESTS)))


def from_overview(page: Page) -> None:
    """The class stands out: all of its requests were late. Its name leads to its promise and budget."""
    row = page.get_by_test_id(f"class-{CLASS}")
    expect(row).to_contain_text(re.compile(rf"0 % (of|共) {REQUESTS}"))
    expect(page.get_by_test_id("live-replicas")).to_contain_text(DEPLOYMENT)
    look(page, "oncall 01 overview")
    row.get_by_role("link", name=CLASS).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("SLAs")


def from_violations(page: Page) -> None:
    """The class alone: nothing left of its budget, the one reason, and the requests behind it."""
    expect(page.get_by_test_id("attained")).to_contain_text(re.compile(rf"0 (good of|个达标 共) {REQUESTS}"))
    expect(page.get_by_test_id("burn-14.4")).to_contain_text("20×")
    look(page, "oncall 02 attainment")
    violations = page.locator('[data-testid^="violation-"]').filter(has_text="of all")
    expect(violations.first).to_be_visible()
    violations.first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Requests")
    rows = page.get_by_test_id("requests").locator("tbody tr")
    expect(rows.first).to_contain_text("Late")
    expect(rows.first).to_contain_text(CLASS)
    look(page, "oncall 03 late requests")
    rows.first.get_by_role("link").first.click()


def explained(page: Page, operator: Person) -> dict[str, Any]:
    """What the page says of one request is what its record says."""
    expect(page.get_by_role("heading", level=1)).to_have_text("One request explained")
    sentence = page.get_by_test_id("sentence")
    expect(sentence).to_be_visible()
    request: dict[str, Any] = operator.get(f"requests/{page.url.rsplit('/', 1)[-1]}")
    assert (request["verdict"], request["summary"]["class_name"]) == ("late", CLASS)
    if LANGUAGE == "en":  # any other is said from the same clauses by the console
        expect(sentence).to_have_text(request["sentence"])
    timeline = page.get_by_test_id("timeline")
    expect(timeline).to_contain_text("first token promised within 1 ms")
    for phase in request["timeline"]:
        expect(timeline.locator(f'[data-phase="{phase["phase"]}"]')).to_have_count(1)
    assert {"queued", "prefill", "decode"} <= {phase["phase"] for phase in request["timeline"]}
    ends = [phase["end_ms"] for phase in request["timeline"]]
    assert ends == sorted(ends)
    assert abs(ends[-1] - request["summary"]["e2e_ms"]) < 50
    main = page.get_by_role("main")
    expect(main).to_contain_text(f"{CLASS}, contract version 1")
    expect(main).to_contain_text(request["where"]["place"].split(" / ")[0])
    look(page, "oncall 04 request")
    return request


def look_at_replica(page: Page, request: dict[str, Any]) -> None:
    """The replica that took it: its log, what happened to its deployment, and back."""
    address = page.url
    page.get_by_role("link", name="Replica's log").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(DEPLOYMENT)
    logs = page.get_by_role("log")
    expect(logs).to_contain_text("gpuruntime.replica state=ready")
    look(page, "oncall 05 log")
    page.get_by_role("tab", name="Replicas").click()
    row = page.get_by_test_id("replicas").locator(f'tr[data-row="{request["where"]["replica"]}"]')
    expect(row).to_contain_text("Ready")
    look(page, "oncall 06 replicas")
    page.get_by_role("tab", name="Events").click()
    expect(page.get_by_test_id("events")).to_contain_text("A replica is ready")
    look(page, "oncall 07 events")
    back_to(page, address)
    expect(page.get_by_role("heading", level=1)).to_have_text("One request explained")


def back_to(page: Page, address: str) -> None:
    """With the browser's own button, as often as it takes."""
    for _ in range(5):
        page.go_back()
        if page.url == address:
            return
    raise AssertionError(f"the browser's way back does not lead to {address}")


def look_at_decision(page: Page, request: dict[str, Any]) -> None:
    """Why the replica that took it runs where it does."""
    page.get_by_role("link", name="Why it runs there").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Decisions")
    row = page.get_by_test_id("decisions").locator("tbody tr").first
    expect(row).to_contain_text("Placed")
    look(page, "oncall 08 decisions")
    row.get_by_role("button").first.click()
    decision = page.get_by_test_id("decision")
    expect(decision).to_contain_text(DEPLOYMENT)
    expect(decision).to_contain_text(request["where"]["replica"][-8:])
    look(page, "oncall 09 decision")
    escape(page, decision)


def look_at_alert(page: Page, operator: Person) -> None:
    """The alert that woke them up, on the overview and among all."""
    follow(page, "Overview")
    alert = page.get_by_role("listitem").filter(has_text=f"late-{RUN} on {DEPLOYMENT}")
    expect(alert.filter(has_text="Error budget burns fast")).to_be_visible()
    look(page, "oncall 10 alert")
    firing = operator.get("alerts?state=firing")["results"]
    (fast,) = [one for one in firing if one["rule"] == "sla.burn_fast" and one["tenant"]["slug"] == f"late-{RUN}"]
    assert (fast["values"]["offered"], fast["values"]["good"]) == (REQUESTS, 0)
    alert.filter(has_text="Error budget burns fast").get_by_role("link").click()
    expect(page.get_by_test_id("attainment-groups")).to_contain_text(CLASS)
    follow(page, "Overview")
    page.get_by_role("link", name="Alerts", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    expect(alert.filter(has_text="Error budget burns fast")).to_be_visible()
    look(page, "oncall 11 alerts")
    page.get_by_test_id("add-route").first.click()
    expect(page.get_by_test_id("route-form")).to_be_visible()
    look(page, "oncall 11b route")
    page.keyboard.press("Escape")


def look_at_audit(page: Page) -> None:
    """Who made the promise that nothing can keep."""
    follow(page, "Audit")
    row = page.get_by_role("row", name=re.compile(CLASS)).first
    expect(row).to_contain_text("operator@berth.local")
    look(page, "oncall 12 audit")
    row.click()
    expect(page.get_by_role("dialog")).to_contain_text(CLASS)
    look(page, "oncall 13 audit entry")
