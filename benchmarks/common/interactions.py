"""How long a page takes to answer a person: from the input event to the paint that shows the answer.

Three figures of each: *answer*, from the input to the paint that shows the page's own response, at least what the
Event Timing API measured from input to next paint (https://www.w3.org/TR/event-timing/); *data*, until what the
response waits for is there; *busy*, the longest time in which another input would have had to wait
(https://www.w3.org/TR/longtasks-1/). And what two of them are made of: the answer of *wait* (before the page heard
of the input), *script* (its handlers) and *draw* (the rest: style, layout, paint, and slices of script where the answer
takes more than one frame); the data of *server*, the longest request that ended before it was there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from benchmarks.common.report import percentile, say

CHROMIUM = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WAIT_MS = 20_000
QUIET = "!document.querySelector('main [aria-busy=true]')"
REST_MS = 150
SETTLE_MS = 350  # the observer tells of an event after its frame, and a search waits 250 ms for the next letter

# Both observers, and the time of the first input since ``begin``. Frames are looked at before they are painted: a
# message posted from there arrives after the paint.
_WATCH = """
(() => {
  if (window.watched) return;
  const state = (window.watched = { events: [], tasks: [], requests: [], first: 0 });
  new PerformanceObserver((list) => {
    for (const e of list.getEntries())
      if (e.interactionId)
        state.events.push({
          at: e.startTime, ms: e.duration, wait: e.processingStart - e.startTime,
          script: e.processingEnd - e.processingStart,
        });
  }).observe({ type: "event", durationThreshold: 16 });
  new PerformanceObserver((list) => {
    for (const e of list.getEntries()) state.tasks.push({ at: e.startTime, ms: e.duration });
  }).observe({ type: "longtask" });
  new PerformanceObserver((list) => {
    for (const e of list.getEntries())
      if (e.initiatorType === "fetch") state.requests.push({ at: e.startTime, end: e.responseEnd, ms: e.duration });
  }).observe({ type: "resource" });
  for (const kind of ["pointerdown", "keydown"])
    addEventListener(kind, (e) => { if (e.key !== "Control") state.first ||= e.timeStamp; }, { capture: true });
  state.begin = (answered, there) => {
    Object.assign(state, { events: [], tasks: [], requests: [], first: 0, answered: 0, there: 0 });
    const painted = (name) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => { state[name] = performance.now(); };
      port2.postMessage(0);
    };
    let saw = 0;
    const look = () => {
      if (state.first && saw === 0 && answered()) { saw = 1; painted("answered"); }
      if (saw === 1 && there()) { saw = 2; painted("there"); }
      if (saw < 2) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  };
})()
"""


@dataclass(frozen=True)
class Interaction:
    """``answered`` and ``there``: expressions in the page's language, true once they can be seen.

    ``prepare`` is not measured; ``act`` is what a person does.
    """

    name: str
    act: Callable[[Page], None]
    answered: str = "true"
    there: str = "true"
    prepare: Callable[[Page], None] = lambda page: None


@dataclass(frozen=True)
class Sample:
    """In milliseconds. ``wait + script + draw == answer``."""

    answer: float
    wait: float
    script: float
    draw: float
    data: float
    server: float
    busy: float


FIGURES = tuple(field.name for field in fields(Sample))


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=CHROMIUM)
        try:
            yield browser
        finally:
            browser.close()


def open_console(browser: Browser, url: str, email: str, password: str) -> Page:
    """Signed in, at 1440 px. Motion is reduced: without a graphics card each frame of it costs what a step may."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=url, reduced_motion="reduce")
    context.set_default_timeout(WAIT_MS)
    context.add_init_script(_WATCH)
    page = context.new_page()
    page.goto("/")
    page.get_by_label("E-mail").fill(email)
    page.get_by_role("textbox", name="Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/t/**")
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_timeout(3_000)  # the other pages are fetched two seconds after the first
    return page


def until(page: Page, true: str) -> None:
    """By a function of the driver's: the console's content security policy takes no text for a program."""
    page.evaluate(
        f"""() => new Promise((done, fail) => {{
            const last = performance.now() + {WAIT_MS};
            const look = () => {{
                if ({true}) done();
                else if (performance.now() > last) fail(new Error(`never true: {true.replace("`", "'")}`));
                else setTimeout(look, 20);
            }};
            look();
        }})"""
    )


def at_rest(page: Page) -> None:
    """What the page shows is there."""
    until(page, f"document.querySelector('h1') && {QUIET}")
    page.wait_for_timeout(REST_MS)


def measure(page: Page, interactions: Iterable[Interaction], runs: int) -> dict[str, dict[str, float]]:
    """By name: p50 and p95 of each figure. The first run, which no cache helps, counts like any other; one that is
    not answered is NaN in all figures, and those after it are measured all the same.
    """
    found = {}
    for one in interactions:
        try:
            samples = [_once(page, one) for _ in range(runs)]
        except PlaywrightError as error:
            say(f"  {one.name}: not answered at {page.url}: {error.message.partition(chr(10))[0]}")
            samples = []
            page.reload()
        found[one.name] = {
            f"{figure}_{name}": percentile([getattr(sample, figure) for sample in samples], q)
            for figure in FIGURES
            for name, q in (("p50", 0.5), ("p95", 0.95))
        }
        say(f"  {one.name}: {found[one.name]['answer_p95']:.0f} ms")
    return found


def _once(page: Page, one: Interaction) -> Sample:
    one.prepare(page)
    page.wait_for_timeout(SETTLE_MS)
    page.evaluate(f"() => watched.begin(() => {one.answered}, () => {one.there})")
    one.act(page)
    until(page, "watched.there > 0")
    page.wait_for_timeout(SETTLE_MS)
    seen: dict[str, Any] = page.evaluate("() => ({ ...watched })")
    return _sample(seen, shown=one.answered != "true")


# The API tells of nothing below 16 ms.
_UNSEEN = {"at": 0.0, "ms": 16.0, "wait": 0.0, "script": 0.0}


def _sample(seen: dict[str, Any], *, shown: bool) -> Sample:
    """Text goes on until its last letter: the slowest letter counts, and the data from the last one on."""
    slowest = max(seen["events"], key=lambda event: event["ms"], default=_UNSEEN)
    started = max([seen["first"], *(event["at"] for event in seen["events"])])
    answer = max(slowest["ms"], seen["answered"] - seen["first"] if shown else 0.0)
    # A press, its release and its click share a frame
    frame = [event for event in seen["events"] if 0 <= event["at"] - slowest.get("at", 0.0) <= slowest["ms"]] or [
        slowest
    ]
    script = min(sum(event["script"] for event in frame), answer - slowest["wait"])
    ended = [one for one in seen["requests"] if one["at"] >= seen["first"] and one["end"] <= seen["there"]]
    return Sample(
        answer=answer,
        wait=slowest["wait"],
        script=script,
        draw=answer - slowest["wait"] - script,
        data=max(0.0, seen["there"] - started),
        server=max((one["ms"] for one in ended), default=0.0),
        busy=max((task["ms"] for task in seen["tasks"]), default=0.0),
    )
