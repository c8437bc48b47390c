"""A journey in another language: it names things in English, and each name is looked up in the console's catalogues."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from playwright.sync_api import Locator, LocatorAssertions, Page

MARK = re.compile(r"§(\d)§")
DEEPEST = 4
LEAST = 2
"""With fewer letters of its own ("{} {}") a sentence could be any."""
Words = str | re.Pattern[str]


class Tongue:
    """What a person of ``language`` reads where an English one reads a text: a pattern, as one English word may be
    said in several ways; what no catalogue holds (a name, a figure) is the same in both."""

    def __init__(self, language: str) -> None:
        script = Path(__file__).with_name("catalogue.mjs")
        asked = subprocess.run(["node", str(script), language], capture_output=True, text=True, check=True, timeout=60)
        self.plain: dict[str, list[str]] = {}
        self.templates: list[tuple[re.Pattern[str], str, str]] = []
        for english, other in json.loads(asked.stdout):
            if MARK.search(english):
                if len(re.findall(r"[a-z]", MARK.sub("", english), re.IGNORECASE)) < LEAST:
                    continue
                self.templates.append((_pattern(english), english, other))
            else:
                self.plain.setdefault(english.casefold(), []).append(other)

    @functools.cache  # noqa: B019 - one for a test run
    def ways(self, text: str, depth: int = 0) -> list[str]:
        """Patterns of ``text`` as it is said whole; none where it is not."""
        found = [re.escape(said) for said in self.plain.get(text.casefold(), [])]
        if found or depth > DEEPEST:
            return found
        for pattern, _, said in self.templates:
            values = pattern.fullmatch(text)
            if values:
                parts = MARK.split(said)
                filled = [
                    self.either(values[f"_{part}"], depth + 1) if n % 2 else re.escape(part)
                    for n, part in enumerate(parts)
                ]
                found.append("".join(filled))
        return found

    def either(self, text: str, depth: int = 0) -> str:
        ways = list(dict.fromkeys([*self.ways(text, depth), re.escape(text)]))
        return f"(?:{'|'.join(ways)})"

    def within(self, text: str) -> list[str]:
        """The longest fixed words of each sentence that has ``text`` in it."""
        all_of_them = [(english, said) for _, english, said in self.templates]
        all_of_them += [(english, said) for english, ways in self.plain.items() for said in ways]
        near = [said for english, said in all_of_them if text.casefold() in english.casefold()]
        return [re.escape(max(MARK.sub("\n", said).split("\n"), key=len)) for said in near]

    def said(self, text: Words, exact: bool = False) -> re.Pattern[str]:
        if isinstance(text, re.Pattern):
            return text
        whole = self.either(text)
        if not exact and text.casefold() not in self.plain:
            whole = "|".join([whole, *self.within(text)])
        whole = whole.replace("/", r"\/")  # it ends a pattern in the browser
        return re.compile(rf"^\s*(?:{whole})\s*$" if exact else whole, re.IGNORECASE)


def _pattern(english: str) -> re.Pattern[str]:
    """As the console reads a sentence's values back; a value said twice is the same twice."""
    seen: set[str] = set()
    written = ""
    for n, part in enumerate(MARK.split(english)):
        if n % 2 == 0:
            written += re.escape(part)
        else:
            written += f"(?P=_{part})" if part in seen else f"(?P<_{part}>.+?)"
            seen.add(part)
    return re.compile(written, re.IGNORECASE)


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Playwright looks for the words of ``language`` where a journey gives it English ones."""
    if language == "en":
        yield
        return
    tongue = Tongue(language)

    def by(name: str, exactly: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Its argument ``name`` (the first, where it is given by place) is looked up."""

        def wrap(find: Callable[..., Any]) -> Callable[..., Any]:
            def found(self: object, *given: Any, **named: Any) -> Any:
                exact = exactly or bool(named.get("exact"))
                if isinstance(named.get(name), str | re.Pattern):
                    named[name] = tongue.said(named[name], exact)
                elif name in {"text", "expected"} and given and isinstance(given[0], str | re.Pattern):
                    given = (tongue.said(given[0], exact), *given[1:])
                return find(self, *given, **named)

            return found

        return wrap

    changed = [
        *((kind, "get_by_role", by("name")) for kind in (Page, Locator)),
        *((kind, "get_by_label", by("text")) for kind in (Page, Locator)),
        *((kind, "get_by_text", by("text")) for kind in (Page, Locator)),
        (Locator, "filter", by("has_text")),
        (LocatorAssertions, "to_contain_text", by("expected")),
        (LocatorAssertions, "to_have_text", by("expected", exactly=True)),
    ]
    patches = [patch.object(kind, name, wrap(getattr(kind, name))) for kind, name, wrap in changed]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()
