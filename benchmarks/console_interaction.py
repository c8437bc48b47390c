"""How long the console takes to answer a person, with 1,000 deployments, 10,000 keys, 300 models and 1,000 GPUs.

    python benchmarks/console_interaction.py [--only operator,fleet,tenant] [--runs 10] [--json FILE] [--check]

A control plane with PostgreSQL and Redis, no model, and headless Chromium, which draws without a graphics card.
*answer*: from the input to the paint that shows the page's own response: the letter, the pressed control, the head's
arrow, the dialog, rows shown paler, the new page's head over its skeleton; *data*: until what it waits for is there;
*busy*: the longest time in which another input would have had to wait. The first run of each, whose code has not run
before, counts like any other. Exit code 1 with ``--check`` when the 95th percentile of an answer is above 100 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "platform"))

from playwright.sync_api import Page

from benchmarks.common.console_house import ADMIN, OPERATOR, PASSWORD, TENANT, Console, console_house
from benchmarks.common.interactions import QUIET, Interaction, at_rest, chromium, measure, open_console, until
from benchmarks.common.report import add_only, conclude, end_on_signals, options_parser, say

TARGET_MS = 100.0
REPORTED = ("answer", "data", "busy")
LETTER_MS = 80
FRAMES_MS = 60
ROWS = "[...document.querySelectorAll('main tbody tr[data-row]')]"


def at(path: str) -> Callable[[Page], None]:
    """On the page ``path`` of the scope at hand, as it is when one comes to it, everything loaded."""

    def go(page: Page) -> None:
        page.keyboard.press("Escape")
        scope = page.url.split("/t/")[1].split("/")[0]
        for to in ("members", path):
            page.evaluate(f"() => history.pushState(null, '', '/t/{scope}/{to}')")
            page.wait_for_timeout(FRAMES_MS)
            at_rest(page)

    return go


def back_to(name: str) -> Callable[[Page], None]:
    """By the navigation, as a person comes from there."""

    def go(page: Page) -> None:
        page.keyboard.press("Escape")
        link(page, name).click()
        page.locator("h1", has_text=name).wait_for()
        at_rest(page)

    return go


def link(page: Page, name: str) -> Any:
    return page.get_by_role("navigation", name="Main").get_by_role("link", name=name, exact=True)


def click(role: Any, name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role(role, name=name, exact=True).first.click()


def pick(text: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_text(text, exact=True).first.click()


def pressed(test_id: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_test_id(test_id).first.click()


def typed(label: str, text: str) -> Callable[[Page], None]:
    def act(page: Page) -> None:
        page.get_by_label(label, exact=True).first.press_sequentially(text, delay=LETTER_MS)

    return act


def emptied(path: str, label: str) -> Callable[[Page], None]:
    def go(page: Page) -> None:
        at(path)(page)
        page.get_by_label(label, exact=True).first.click()

    return go


def has_rows(text: str) -> str:
    """There are rows, and all have the text, be it in the title of a shortened id."""
    return f"{ROWS}.length > 0 && {ROWS}.every((row) => row.innerHTML.includes('{text}'))"


def ordered_by(head: str) -> str:
    """The head says so."""
    return f"[...document.querySelectorAll('main th[aria-sort]')].some((one) => one.innerText.includes('{head}'))"


# What is still shown is not what was asked for last
PALE = "document.querySelector('main table[aria-busy=true]')"


def ordering(path: str, head: str) -> Interaction:
    return Interaction(
        f"{path.partition('?')[0]}: order by {head.lower()}",
        lambda page: page.locator("main thead").get_by_role("button", name=head).first.click(),
        answered=ordered_by(head),
        there=f"{NEW_ROWS} && {QUIET}",
        prepare=loaded(path),
    )


def paging(path: str) -> Interaction:
    return Interaction(
        f"{path}: next page",
        click("button", "Next page"),
        answered=f"({PALE} || {NEW_ROWS})",
        there=f"{NEW_ROWS} && {QUIET}",
        prepare=loaded(path),
    )


def first_row_is_new(page: Page) -> None:
    page.evaluate(f"() => {{ window.before = {ROWS}[0]?.dataset.row; }}")


NEW_ROWS = f"{ROWS}.length > 0 && {ROWS}[0].dataset.row !== window.before"


def loaded(path: str) -> Callable[[Page], None]:
    def go(page: Page) -> None:
        at(path)(page)
        until(page, f"{ROWS}.length > 0")
        first_row_is_new(page)

    return go


def searching(path: str, label: str, text: str) -> Interaction:
    value = f"document.activeElement.value.includes('{text}')"
    return Interaction(
        f"{path.partition('?')[0]}: type in the search",
        typed(label, text),
        there=f"{value} && {has_rows(text)}",
        prepare=emptied(path, label),
    )


def switching(name: str, came_from: str) -> Interaction:
    return Interaction(
        f"go to {name}",
        lambda page: link(page, name).click(),
        answered=f"!(document.querySelector('h1')?.textContent ?? '{came_from}').includes('{came_from}')",
        # Without traffic the overview waits for its first live window
        there="true" if name == "Overview" else QUIET,
        prepare=back_to(came_from),
    )


def option(name: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("option", name=name, exact=True).first.click()


def opening(name: str, path: str, label: str) -> Interaction:
    """A list of options, closed before."""
    return Interaction(
        name,
        # That of a dialog comes after the page's
        lambda page: page.get_by_role("combobox", name=label, exact=True).last.click(),
        answered=LISTED,
        prepare=at(path),
    )


LISTED = "[...document.querySelectorAll('[role=option]')].some((one) => one.checkVisibility())"
DIALOG = "[...document.querySelectorAll('[role=dialog]')].some((one) => one.checkVisibility())"
MENU = "[...document.querySelectorAll('[role=menu]')].some((one) => one.checkVisibility())"
PALETTE = "document.querySelector('input[placeholder^=\"Search pages\"]')"


def theme_is_known(page: Page) -> None:
    at("keys")(page)
    page.evaluate("() => { window.before = document.querySelector('[aria-label^=\"Theme:\"]').ariaLabel; }")


def palette_is_open(page: Page) -> None:
    at("keys")(page)
    page.keyboard.press("Control+k")


def verdicts_are_open(page: Page) -> None:
    loaded("requests")(page)
    page.get_by_role("combobox", name="Verdict", exact=True).click()


def lists() -> list[Interaction]:
    """What operators and tenants share."""
    return [
        searching("deployments", "Search deployments", "list-7"),
        ordering("deployments", "Name"),
        paging("deployments"),
        Interaction(
            "deployments: open one",
            lambda page: page.locator("main tbody tr a").first.click(),
            answered="!document.querySelector('[data-testid=deployments]')",
            there=f"document.querySelector('h1')?.textContent.includes('list-') && {QUIET}",
            prepare=loaded("deployments"),
        ),
        searching("keys", "Search name, id or person", "key-7"),
        ordering("keys", "Name"),
        paging("keys"),
        Interaction("keys: open 'Create key'", pressed("create-key"), answered=DIALOG, prepare=at("keys")),
        Interaction(
            "palette: open", lambda page: page.keyboard.press("Control+k"), answered=PALETTE, prepare=at("keys")
        ),
        Interaction(
            "palette: type",
            lambda page: page.keyboard.type("list-7", delay=LETTER_MS),
            there="document.querySelector('.mantine-Spotlight-actionsList')?.innerText.includes('list-7')",
            prepare=palette_is_open,
        ),
        Interaction(
            "theme: switch",
            lambda page: page.get_by_role("button", name="Theme:").first.click(),
            answered="document.querySelector('[aria-label^=\"Theme:\"]').getAttribute('aria-label') !== window.before",
            prepare=theme_is_known,
        ),
        *(
            switching(name, "Settings")
            for name in ("Overview", "Deployments", "Models", "Playground", "API keys", "SLAs", "Requests", "Usage")
        ),
    ]


def operators() -> list[Interaction]:
    return [
        *lists(),
        searching("models", "Search models", "model-7"),
        ordering("models", "Model"),
        searching("requests", "Search by request id", "req_00000000000000000000019"),
        opening("requests: open the filter of deployments", "requests", "Deployment"),
        opening("requests: open the filter of keys", "requests", "Key"),
        Interaction(
            "requests: choose a verdict",
            option("Good"),
            answered="[...document.querySelectorAll('main input')].some((one) => one.value === 'Good')",
            there=f"{NEW_ROWS} && {QUIET}",
            prepare=verdicts_are_open,
        ),
        Interaction(
            "deployments: open 'New deployment'",
            pressed("create-deployment"),
            answered=DIALOG,
            prepare=at("deployments"),
        ),
        opening("new deployment: open its models", "deployments?create=true", "Model"),
        Interaction(
            "contracts: open 'New contract'",
            pressed("create-contract"),
            answered=DIALOG,
            prepare=at("slas?tab=contracts"),
        ),
        opening("new contract: open its deployments", "slas?tab=contracts&create=contract", "Deployment"),
        Interaction("tenants: open the switcher", pressed("tenant-switcher"), answered=MENU, prepare=at("keys")),
    ]


def chosen(view: str) -> str:
    """The control shows it, whatever is still to be drawn."""
    return f"document.querySelector('main input[type=radio][value={view.lower()}]').checked"


def fleet() -> list[Interaction]:
    return [
        switching("Fleet", "Settings"),
        searching_fleet(),
        Interaction(
            "fleet: a slice's card",
            lambda page: page.get_by_test_id("segment-slice").get_by_role("button").first.click(),
            answered="document.querySelector('[data-testid=segment-card]')",
            prepare=at("fleet"),
        ),
        *(
            Interaction(
                f"fleet: show {name}",
                pick(name),
                answered=chosen(name),
                there=f"{ROWS}.length > 0",
                prepare=at("fleet"),
            )
            for name in ("Devices", "Seats")
        ),
        Interaction(
            "fleet: show the map again",
            pick("Map"),
            answered=chosen("Map"),
            there="document.querySelector('[data-testid=device]')",
            prepare=at("fleet?view=devices"),
        ),
        ordering("fleet?view=devices", "Utilisation"),
        Interaction(
            "fleet: scroll to its end",
            lambda page: page.keyboard.press("End"),
            there="[...document.querySelectorAll('[data-testid=node]')].at(-1).querySelector('[data-testid=device]')",
            prepare=at("fleet"),
        ),
        Interaction(
            "fleet: open a node",
            lambda page: page.locator("[data-testid=node] h2 a").first.click(),
            answered="!document.querySelector('main h1')?.innerText.includes('Fleet')",
            there=f"location.pathname.includes('/nod_') && document.querySelector('[data-testid=device]') && {QUIET}",
            prepare=at("fleet"),
        ),
    ]


def searching_fleet() -> Interaction:
    label = "Search nodes, devices, deployments"
    nodes = "[...document.querySelectorAll('[data-testid=node]')]"
    return Interaction(
        "fleet: type in the search",
        typed(label, "gpu-7"),
        there=f"{nodes}.length > 0 && {nodes}.every((one) => one.dataset.node.includes('gpu-7'))",
        prepare=emptied("fleet", label),
    )


def measured(console: Console, who: str, interactions: list[Interaction], runs: int) -> dict[str, dict[str, float]]:
    with chromium() as browser:
        page = open_console(browser, console.url, who, PASSWORD)
        if who == OPERATOR:
            page.goto("/t/~platform/keys")
        else:
            page.goto(f"/t/{TENANT}/keys")
        at_rest(page)
        return measure(page, interactions, runs)


PARTS: dict[str, Callable[[Console, int], dict[str, dict[str, float]]]] = {
    "operator": lambda console, runs: measured(console, OPERATOR, operators(), runs),
    "fleet": lambda console, runs: measured(console, OPERATOR, fleet(), runs),
    "tenant": lambda console, runs: measured(console, ADMIN, lists(), runs),
}


def report(result: dict[str, dict[str, dict[str, float]]]) -> None:
    """p50 and p95; what an answer is made of by the p50 of each part, the server by its p95."""
    print(f"{'ms':42s}     answer  =  wait script  draw         data  (server)        busy")
    for part, interactions in result.items():
        print(part)
        for name, at_ in interactions.items():
            answer, data, busy = (f"{at_[f'{one}_p50']:5.0f} {at_[f'{one}_p95']:5.0f}" for one in REPORTED)
            made = " ".join(f"{at_[f'{one}_p50']:5.0f}" for one in ("wait", "script", "draw"))
            print(f"  {name:40s} {answer}    {made}   {data}   ({at_['server_p95']:5.0f})   {busy}")


def failures(result: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    return [
        f"{part}, {name}: answered after {at_['answer_p95']:.0f} ms at p95 (at most {TARGET_MS:.0f})"
        for part, interactions in result.items()
        for name, at_ in interactions.items()
        if not at_["answer_p95"] <= TARGET_MS
    ]


def main() -> int:
    parser = options_parser(__doc__)
    add_only(parser, PARTS)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    end_on_signals()
    result = {}
    with console_house() as console:
        for part in options.only:
            say(part)
            result[part] = PARTS[part](console, options.runs)
    report(result)
    return conclude(result, failures(result), options)


if __name__ == "__main__":
    sys.exit(main())
