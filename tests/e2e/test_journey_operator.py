"""A new operator, from the first sign-in to a node taken out for maintenance, by what the console says alone."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyotp
from playwright.sync_api import Browser, Locator, Page, expect

from helpers.cluster import Cluster, Person, messages
from helpers.console import SHOTS, choose, copied, escape, follow, look, opened, sign_in, switch_tenant
from helpers.model import smollm2_path
from helpers.patience import PATIENCE_S, eventually

from .test_console import browser

__all__ = ["browser"]

RUN = secrets.token_hex(2)
EMAIL = f"operator-{RUN}@berth.test"
CLASS, TENANT, MODEL, NODE = f"patient-{RUN}", f"Harbour {RUN}", f"journey-{RUN}", f"pier-{RUN}"
STORY_TOKENS = 500


class Stream(threading.Thread):
    """One long answer that is being read while the fleet changes under it."""

    def __init__(self, cluster: Cluster, token: str) -> None:
        super().__init__(daemon=True)
        self.client = cluster.client(token)
        self.chunks = 0
        self.request_id = ""
        self.finish: str | None = None
        self.tokens = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            answer = self.client.chat.completions.create(
                model=MODEL, messages=messages("Tell a long story about the sea."), max_tokens=STORY_TOKENS,
                stream=True, stream_options={"include_usage": True}, extra_body={"ignore_eos": True},
            )  # fmt: skip
            self.request_id = answer.response.headers["x-request-id"]
            # The client ends at [DONE]; a stream that breaks before raises.
            for chunk in answer:
                self.chunks += 1
                self.finish = (chunk.choices[0].finish_reason if chunk.choices else None) or self.finish
                self.tokens = chunk.usage.completion_tokens if chunk.usage else self.tokens
        except Exception as error:
            self.error = error


def test_an_operator_serves_a_tenant_and_takes_a_node_out(
    browser: Browser, cluster: Cluster, operator: Person, tmp_path: Path
) -> None:
    password = cluster.manage("create_operator", EMAIL).split()[-1]
    with opened(browser, cluster.base) as page, cleaned(operator):
        sign_in(page, EMAIL, password)
        look(page, "operator 01 overview")
        secret = set_up_mfa(page)
        register(page)
        make_tenant(page)
        make_class(page)
        deploy(page)
        make_contract(page, operator)
        token = hand_out_key(page)
        watch_traffic(page, cluster, token)
        with joined(page, operator, tmp_path):
            scale(page, cluster, operator)
            take_a_node_out(page, cluster, operator, token)
        come_back(page, password, secret)


@contextmanager
def cleaned(operator: Person) -> Iterator[None]:
    """Whatever became of the journey, the house takes replicas again and has room for the next test."""
    try:
        yield
    finally:
        for node in operator.get("nodes")["results"]:
            operator.post(f"nodes/{node['id']}/uncordon")
        stop_deployments(operator)


def stop_deployments(operator: Person) -> None:
    for made in operator.get(f"deployments?search={MODEL}")["results"]:
        operator.post(f"deployments/{made['id']}/stop")


def set_up_mfa(page: Page) -> str:
    """The secret, as the operator's authenticator app keeps it."""
    page.get_by_test_id("user-menu").click()
    look(page, "operator 01b account menu")
    page.get_by_role("menuitem", name="Your account").click()
    page.get_by_test_id("mfa-begin").click()
    secret = page.get_by_test_id("mfa-secret").inner_text().strip()
    look(page, "operator 02 second factor")
    form = page.get_by_test_id("mfa-form")
    form.get_by_label("Code of the app").fill("000000")
    form.get_by_role("button", name="Confirm").click()
    expect(form.get_by_role("alert")).to_be_visible()
    look(page, "operator 02b wrong code")
    form.get_by_label("Code of the app").fill(pyotp.TOTP(secret).now())
    form.get_by_role("button", name="Confirm").click()
    codes = page.get_by_test_id("recovery-codes")
    expect(codes.get_by_role("listitem")).to_have_count(10)
    look(page, "operator 03 recovery codes")
    codes.get_by_role("button", name="I have saved them").click()
    expect(page.get_by_text("10 recovery codes are left.")).to_be_visible()
    return secret


def register(page: Page) -> None:
    follow(page, "Models")
    page.get_by_test_id("register-model").first.click()
    form = page.get_by_test_id("register-form")
    form.get_by_label("Path of the directory").fill("/nowhere/to/be/found")
    form.get_by_label("Name").fill(MODEL)
    form.get_by_test_id("submit").click()
    expect(form.get_by_text("is not below an allowed root")).to_be_visible()
    look(page, "operator 04 register refused")
    form.get_by_label("Path of the directory").fill(str(smollm2_path()))
    form.get_by_test_id("submit").click()
    registration = page.get_by_test_id("registration")
    expect(registration.get_by_test_id("progress").or_(registration.get_by_role("status"))).to_be_visible()
    look(page, "operator 05 registering")
    expect(registration).to_have_attribute("data-state", "ready")
    look(page, "operator 06 registered")
    page.get_by_role("dialog").get_by_role("button", name="Close").first.click()
    row = page.get_by_role("row", name=re.compile(MODEL))
    expect(row).to_contain_text("Ready")
    expect(row).to_contain_text(re.compile("134.5M|1.3亿"))
    look(page, "operator 07 models")
    row.get_by_test_id("model-menu").click()
    look(page, "operator 07b model menu")
    escape(page, page.get_by_role("menu"))
    row.get_by_role("link", name=MODEL, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(MODEL)
    expect(page.get_by_test_id("requirements")).to_be_visible()
    look(page, "operator 07c model")


def make_tenant(page: Page) -> None:
    follow(page, "Tenants")
    page.get_by_role("button", name="Create tenant").first.click()
    form = page.get_by_test_id("tenant-form")
    form.get_by_label("Name", exact=True).fill(TENANT)
    expect(form.get_by_label("Short name")).to_have_value(f"harbour-{RUN}")
    look(page, "operator 08 tenant form")
    form.get_by_test_id("submit").click()
    expect(page.get_by_role("row", name=re.compile(TENANT))).to_be_visible()
    look(page, "operator 09 tenants")


def make_class(page: Page) -> None:
    follow(page, "SLAs")
    page.get_by_role("tab", name="Service classes").click()
    page.get_by_test_id("create-class").click()
    form = page.get_by_test_id("class-form")
    form.get_by_label("Name").fill(CLASS)
    form.get_by_label("First token, ms").fill("60000")
    form.get_by_label("Each token after, ms").fill("10000")
    look(page, "operator 10 class form")
    form.get_by_test_id("submit").click()
    expect(form).to_have_count(0)
    expect(page.get_by_role("main").get_by_text(CLASS, exact=True)).to_be_visible()
    look(page, "operator 11 classes")


def deploy(page: Page) -> None:
    """Back to the model that is ready, and from there into service."""
    follow(page, "Models")
    page.get_by_role("link", name=f"Deploy {MODEL}").click()
    form = page.get_by_test_id("create-deployment-form")
    expect(form.get_by_label("Name")).to_have_value(MODEL)
    choose(page, form, "Service class", CLASS, "operator 11b choice of class")
    expect(form.get_by_test_id("fit")).to_contain_text("Fits")
    look(page, "operator 12 deploy form")
    form.get_by_role("button", name="Create deployment").click()
    row = page.get_by_role("row", name=re.compile(MODEL))
    expect(row).to_be_visible()
    look(page, "operator 13 placing")
    expect(row.locator('[data-state="running"]')).to_be_visible()
    look(page, "operator 14 deployments")


def make_contract(page: Page, operator: Person) -> None:
    follow(page, "SLAs")
    page.get_by_role("tab", name="Contracts").click()
    page.get_by_role("button", name="Create contract").first.click()
    form = page.get_by_test_id("contract-form")
    choose(page, form, "Tenant", TENANT)
    choose(page, form, "Deployment", MODEL)
    choose(page, form, "Service class", CLASS)
    choose(page, form, "flex", "batch")
    form.get_by_label("Requests a minute").fill("600")
    look(page, "operator 15 contract form")
    form.get_by_test_id("submit").click()
    row = page.get_by_role("row", name=re.compile(TENANT))
    expect(row).to_contain_text("In force")
    look(page, "operator 16 contracts")
    tenant = only(operator, "tenants", slug=f"harbour-{RUN}")
    (contract,) = operator.get(f"contracts?tenant={tenant['id']}")["results"]
    assert (contract["service_class"]["name"], contract["guaranteed_requests_per_min"]) == (CLASS, 600)
    assert [(tier["tier"], tier["class_name"]) for tier in contract["tiers"]] == [("flex", "batch")]


def only(operator: Person, what: str, **wanted: str) -> dict[str, Any]:
    ((field, value),) = wanted.items()
    (found,) = [one for one in operator.get(f"{what}?search={value}")["results"] if one[field] == value]
    return dict(found)


def hand_out_key(page: Page) -> str:
    switch_tenant(page, TENANT, "operator 16b tenant switcher")
    follow(page, "API keys")
    page.get_by_test_id("create-key").first.click()
    page.get_by_role("textbox", name="Name").fill("the harbour's application")
    look(page, "operator 17 key form")
    page.get_by_role("button", name="Create key").last.click()
    page.get_by_role("button", name="Copy key", exact=True).click()
    look(page, "operator 18 key")
    token = copied(page, page.get_by_test_id("key-token"))
    page.get_by_role("button", name="I have saved it").click()
    return token


def watch_traffic(page: Page, cluster: Cluster, token: str) -> None:
    """The tenant's first requests, against the class's line."""
    follow(page, "Overview")
    offered = page.get_by_test_id("tile-offered")
    expect(offered).to_have_attribute("aria-busy", "false")
    expect(offered).to_contain_text(requests(0))
    look(page, "operator 19 tenant before")
    client = cluster.client(token)
    for _ in range(3):
        client.chat.completions.create(model=MODEL, messages=messages("hi"), max_tokens=4)
    expect(offered).to_contain_text(requests(3))
    expect(page.get_by_test_id("tile-attainment")).to_contain_text("100 %")
    look(page, "operator 20 tenant overview")
    switch_tenant(page, "Platform")
    follow(page, "Deployments")
    page.get_by_role("row", name=re.compile(MODEL)).get_by_role("link", name=MODEL).click()
    expect(page.get_by_test_id("tile-offered")).to_contain_text(requests(3))
    attainment = page.get_by_test_id("tile-attainment")
    expect(attainment).to_contain_text("100 %")
    expect(attainment).to_contain_text("target 95 %")
    expect(page.get_by_test_id("sla-charts").get_by_role("figure", name="Attainment")).to_contain_text("100 %")
    look(page, "operator 21 metrics")


def requests(count: int) -> re.Pattern[str]:
    return re.compile(rf"\D{count} (requests|个请求)")


@contextmanager
def joined(page: Page, operator: Person, folder: Path) -> Iterator[None]:
    """A second machine: its agent is started with the line that the console gives, and leaves in order."""
    follow(page, "Fleet")
    page.get_by_test_id("add-node").first.click()
    page.get_by_role("textbox", name="Name").fill(NODE)
    page.get_by_role("dialog").get_by_role("button", name="Add node").click()
    page.get_by_role("dialog").get_by_role("button", name="Copy").click()
    joining = page.get_by_test_id("joining")
    expect(joining).to_have_attribute("data-joined", "false")
    look(page, "operator 22 join command")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BERTH_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    command = copied(page, page.get_by_role("dialog").locator("pre"))
    agent = subprocess.Popen(
        ["sh", "-c", command], cwd=folder, env=environment, start_new_session=True,
        stdout=(folder / "agent.log").open("wb"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        expect(joining).to_have_attribute("data-joined", "true")
        expect(joining).to_contain_text("Connected, with 1 device.")
        look(page, "operator 23 joined")
        page.get_by_role("dialog").get_by_role("button", name="Done").click()
        expect(node_card(page, NODE)).to_contain_text("Connected")
        look(page, "operator 24 fleet")
        look_around(page)
        yield
        stop_deployments(operator)
        node = only(operator, "nodes", name=NODE)
        operator.post(f"nodes/{node['id']}/drain")
        eventually(lambda: is_empty(operator), f"{NODE} is empty")
    finally:
        stop_agent(agent, folder)
    operator.delete(f"nodes/{node['id']}")


def look_around(page: Page) -> None:
    """What else an operator comes by: one node alone, why nothing is planned here, the settings, and the way to all."""
    node_card(page, NODE).get_by_role("link", name=NODE, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(NODE)
    look(page, "operator 24b node")
    follow(page, "Plans")
    expect(page.get_by_role("main")).to_contain_text("No GPU to plan for")
    look(page, "operator 24c plans")
    follow(page, "Settings")
    page.get_by_role("tab", name="Platform").click()
    page.locator('[data-testid^="edit-"]').first.click()
    expect(page.get_by_test_id("option-form")).to_be_visible()
    look(page, "operator 24d setting")
    escape(page, page.get_by_test_id("option-form"))
    look(page, "operator 24e settings")
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("textbox").fill(MODEL[:7])
    expect(page.get_by_role("dialog")).to_contain_text(MODEL)
    look(page, "operator 24f palette")
    escape(page, page.get_by_role("dialog"))
    if SHOTS:
        look_at_navigation(page)


def look_at_navigation(page: Page) -> None:
    """On a phone it is a drawer."""
    page.set_viewport_size({"width": 390, "height": 900})
    page.get_by_role("banner").get_by_role("button", name="Open navigation").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    look(page, "operator 24g navigation")
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 1440, "height": 900})


def is_empty(operator: Person) -> bool:
    """The demo's replica, which other tests need, has been replaced at home."""
    return bool(only(operator, "nodes", name=NODE)["drain"]["state"] == "done")


def stop_agent(agent: subprocess.Popen[bytes], folder: Path) -> None:
    os.killpg(agent.pid, signal.SIGTERM)
    agent.wait(20)
    command = [sys.executable, "-m", "scheduler.node", "--state-dir", "berth-node", "--stop-all"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=PATIENCE_S)


def node_card(page: Page, name: str) -> Locator:
    return page.locator(f'[data-testid="node"][data-node="{name}"]')


def scale(page: Page, cluster: Cluster, operator: Person) -> None:
    follow(page, "Deployments")
    row = page.get_by_role("row", name=re.compile(MODEL))
    row.get_by_test_id("deployment-menu").click()
    look(page, "operator 24h deployment menu")
    page.get_by_test_id("scale-deployment").click()
    page.get_by_role("dialog").get_by_label("Replicas").fill("2")
    look(page, "operator 25 scale dialog")
    page.get_by_test_id("confirm").click()
    expect(row).to_contain_text(re.compile(r"2\s*/\s*2"))
    row.get_by_role("link", name=MODEL).click()
    page.get_by_role("tab", name="Replicas").click()
    replicas = page.get_by_test_id("replicas")
    expect(replicas.locator('[data-state="ready"]')).to_have_count(2)
    look(page, "operator 26 replicas")
    deployment = only(operator, "deployments", name=MODEL)
    assert len(cluster.replicas(operator, deployment["id"])) == 2


def take_a_node_out(page: Page, cluster: Cluster, operator: Person, token: str) -> None:
    deployment = only(operator, "deployments", name=MODEL)
    stream = Stream(cluster, token)
    stream.start()
    eventually(lambda: stream.chunks or stream.error, "the stream began")

    def running() -> dict[str, Any] | None:
        rows = cluster.replicas(operator, deployment["id"])
        return next((row for row in rows if (row["stats"] or {}).get("running")), None)

    busy = eventually(running, "a replica says that it runs the stream")
    switch_tenant(page, "Platform")
    follow(page, "Fleet")
    card = node_card(page, busy["node"])
    card.get_by_test_id("node-menu").click()
    look(page, "operator 26b node menu")
    page.get_by_test_id("drain-node").click()
    expect(page.get_by_test_id("moves")).to_contain_text(MODEL)
    look(page, "operator 27 drain dialog")
    page.get_by_test_id("confirm").click()
    drain = card.get_by_test_id("drain")
    expect(drain).to_be_visible()
    look(page, "operator 28 draining")
    expect(drain).to_have_attribute("data-state", "done")
    look(page, "operator 29 drained")

    stream.join(60)
    assert (stream.error, stream.finish, stream.tokens) == (None, "length", STORY_TOKENS)
    nodes = {row["node"] for row in cluster.replicas(operator, deployment["id"])}
    assert nodes
    assert busy["node"] not in nodes

    card.get_by_test_id("node-menu").click()
    page.get_by_role("menuitem", name="Uncordon").click()
    expect(page.get_by_test_id("confirm")).to_be_visible()
    look(page, "operator 29b uncordon dialog")
    page.get_by_test_id("confirm").click()
    expect(drain).to_have_count(0)
    expect(card).to_contain_text("Connected")
    look(page, "operator 30 uncordoned")


def come_back(page: Page, password: str, secret: str) -> None:
    """Another day: the password alone is not enough."""
    page.get_by_test_id("user-menu").click()
    page.get_by_test_id("sign-out").click()
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_role("textbox", name="Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("One more step")
    look(page, "operator 31 code")
    # The one after this: a code that was taken once is not taken again, however quick the journey was
    page.get_by_test_id("code").fill(pyotp.TOTP(secret).at(int(time.time()) + 30))
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
