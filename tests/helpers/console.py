"""The console in a headless browser as a person uses it: sign in, follow the navigation, look."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Locator, Page, expect

from helpers.patience import PATIENCE_S, eventually
from helpers.tongue import speaking

WAIT_MS = PATIENCE_S * 1000
WIDTHS = (1440, 390)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
"""Where pages are kept to be looked at, in every width and theme, and what a script sees amiss in them; nothing is
kept without it. A journey is walked in one language: ``CONSOLE_LANGUAGE=zh`` for the other."""
SHOTS = os.environ.get("CONSOLE_SHOTS")
LANGUAGE = os.environ.get("CONSOLE_LANGUAGE", "en")
OVER = """() => Math.max(0, ...[...document.querySelectorAll('[role=dialog], [role=dialog] *')]
  .filter((node) => node.checkVisibility()).map((node) => node.scrollHeight))"""
FLAWS = Path(__file__).with_name("flaws.js").read_text()
REFUSED = re.compile(r"Failed to load resource: .* status of (400|401|422)")


@contextmanager
def opened(browser: Browser, base: str) -> Iterator[Page]:
    """A browser that knows nothing yet; what its console complains of fails the journey at its end."""
    # Without a graphics card each frame of a drawer that slides in costs what a whole step may.
    context = browser.new_context(
        viewport={"width": WIDTHS[0], "height": 900}, base_url=base, reduced_motion="reduce", locale=LANGUAGE
    )
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        with speaking(LANGUAGE):
            yield page
    except BaseException:
        look(page, "failed")
        raise
    finally:
        context.close()
    # A refusal that a journey provokes (a wrong code, a bad path) is written down by the browser itself.
    assert [said for said in complaints if not REFUSED.search(said)] == []


def sign_in(page: Page, email: str, password: str) -> None:
    page.goto("/")
    page.get_by_label("E-mail").fill(email)
    page.get_by_role("textbox", name="Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/t/**")
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def follow(page: Page, name: str) -> None:
    """Through the navigation to the page ``name``."""
    page.get_by_role("navigation", name="Main").get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)


def switch_tenant(page: Page, name: str, shot: str = "") -> None:
    page.get_by_test_id("tenant-switcher").click()
    found = page.get_by_role("menuitem", name=name).first
    _look_open(page, found, shot)
    found.click()
    expect(page.get_by_test_id("tenant-switcher")).to_contain_text(name)


def choose(page: Page, within: Locator, label: str, option: str, shot: str = "") -> None:
    within.get_by_role("combobox", name=label, exact=True).click()
    found = page.get_by_role("listbox", name=label).get_by_role("option", name=option, exact=True)
    _look_open(page, found, shot)
    found.click()


def _look_open(page: Page, entry: Locator, shot: str) -> None:
    if shot:
        expect(entry).to_be_visible()
        look(page, shot)


def escape(page: Page, over: Locator) -> None:
    """Closes what lies over the page. On a busy machine it may be there a moment before it listens to the key."""
    for _ in range(4):
        page.keyboard.press("Escape")
        with contextlib.suppress(AssertionError):
            expect(over).to_have_count(0, timeout=5_000)
            return
    expect(over).to_have_count(0)


def copied(page: Page, shown: Locator) -> str:
    """What was copied, which is what ``shown`` says; the browser writes it a moment after the click."""

    def same() -> str:
        text: str = page.evaluate("navigator.clipboard.readText()")
        return text if text.strip() == shown.inner_text().strip() else ""

    return str(eventually(same, "the clipboard has what is shown"))


def look(page: Page, name: str) -> None:
    """Keeps the page as it is, with what is open on it, at every width and in both themes, where ``SHOTS`` says."""
    if not SHOTS:
        return
    folder = Path(SHOTS)
    folder.mkdir(parents=True, exist_ok=True)
    file = re.sub(r"[^a-z0-9]+", "-", f"{name} {LANGUAGE}".lower())
    for width, theme in product(WIDTHS, THEMES):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        page.wait_for_timeout(150)
        # What lies over the page is as high as the window: there the window grows, else only the picture.
        over = page.evaluate(OVER)
        if over > 900:
            page.set_viewport_size({"width": width, "height": over})
        page.screenshot(path=folder / f"{file}-{width}-{theme}.png", full_page=not over)
        if theme == "light":
            (folder / f"{file}-{width}.txt").write_text("\n".join(page.evaluate(FLAWS)))
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
