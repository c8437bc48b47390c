"""Every page of the console in both themes with axe: what it finds is a failure, with the element's own HTML."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from helpers.cluster import Cluster

from .conftest import Demo
from .test_console import browser, sign_in

__all__ = ["browser"]

AXE = Path(__file__).resolve().parents[2] / "frontend/node_modules/axe-core/axe.min.js"
PAGES = (
    "overview", "deployments", "models", "playground", "keys", "slas", "requests", "usage", "fleet", "decisions",
    "plans",
    "tenants", "members", "audit", "settings", "settings?tab=platform", "settings?tab=alerts",
)  # fmt: skip
RUN = """() => axe.run({resultTypes: ["violations"]}).then((found) =>
    found.violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`))"""


def violations(page: Page) -> list[str]:
    page.locator("h1").first.wait_for()
    expect(page.locator("main [aria-busy=true]")).to_have_count(0)
    found: list[str] = page.evaluate(RUN)
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(browser: Browser, cluster: Cluster, demo: Demo, theme: str) -> None:
    said = cluster.manage("create_operator", f"axe-{theme}@berth.test")
    page = sign_in(browser, cluster, f"axe-{theme}@berth.test", said.split()[-1])
    page.evaluate(f"localStorage.setItem('mantine-color-scheme-value', '{theme}')")
    page.context.add_init_script(path=AXE)
    found: list[str] = []
    for name in PAGES:
        page.goto(f"{cluster.base}/t/demo/{name}")
        found += [f"{name}: {line}" for line in violations(page)]
    page.goto(f"{cluster.base}/t/demo/deployments/{demo.deployment_id}")
    found += [f"deployment: {line}" for line in violations(page)]
    page.context.close()
    assert found == []
