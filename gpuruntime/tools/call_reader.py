"""Reads one tool call as a model writes it: a JSON object with a name and its arguments, a character at a time."""

from __future__ import annotations

import json
from collections.abc import Collection
from enum import Enum

from gpuruntime.tools.events import CallArguments, CallBegins, Event

WHITESPACE = " \t\r\n"
_ARGUMENTS = ("arguments", "parameters")


class NoCall(ValueError):
    """What was read is no tool call."""


class JsonValue:
    """Where a JSON value ends: its strings and brackets are followed, its grammar is the model's affair."""

    def __init__(self) -> None:
        self._closers: list[str] = []
        self._escaped = False
        self._scalar = False
        self.in_string = False
        self.done = False

    def feed(self, char: str) -> bool:
        """False when ``char`` stands behind the value, which is then done. Raises ``NoCall`` where none can go on."""
        if self.in_string:
            self._in_string(char)
        elif char == '"':
            self.in_string = True
        elif char in "{[":
            self._closers.append("}" if char == "{" else "]")
        elif self._closers:
            if char in "}]":
                if self._closers.pop() != char:
                    raise NoCall
                self.done = not self._closers
        elif char in ",}" or char in WHITESPACE:
            if not self._scalar:
                raise NoCall
            self.done = True
            return False
        else:
            self._scalar = True
        return True

    def _in_string(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self.in_string = False
            self.done = not self._closers


class _At(Enum):
    START = "before the object"
    KEY = "before a key"
    COLON = "before the colon"
    VALUE = "before a value"
    INSIDE = "inside a key or a value"
    AFTER = "behind a value"
    DONE = "behind the object"


class CallReader:
    """Reads ``{"name": "f", "arguments": {...}}``; Llama says ``parameters``, and either may come first.

    ``feed`` gives what is certain: the name once both it and the arguments' beginning are there, then the arguments as
    they come. ``known``: the only names that make a call (None: any). Raises ``NoCall`` where the text is none.
    """

    def __init__(self, known: Collection[str] | None = None) -> None:
        self._known = known
        self._at = _At.START
        self._value = JsonValue()
        self._key: str | None = None
        self._text: list[str] = []
        self._name: str | None = None
        self._early: str | None = None  # arguments that came before the name
        self._given = False
        self.begun = False

    @property
    def done(self) -> bool:
        return self._at is _At.DONE

    @property
    def in_string(self) -> bool:
        """Whether a mark here would be part of a string."""
        return self._at is _At.INSIDE and self._value.in_string

    @property
    def _is_arguments(self) -> bool:
        """Of a key that comes twice the first counts: what was given cannot be taken back."""
        return self._key in _ARGUMENTS and not self._given

    def feed(self, char: str, events: list[Event]) -> None:
        """Takes one character and adds what it makes certain to ``events``."""
        if self._at is _At.INSIDE:
            taken = self._value.feed(char)
            if taken:
                self._take(char, events)
            if self._value.done:
                self._close(events)
            if taken:
                return
        elif self._at is _At.VALUE and char not in WHITESPACE:
            self._open(char, events)
            return
        if char not in WHITESPACE:
            self._between(char, events)

    def _between(self, char: str, events: list[Event]) -> None:
        if self._at is _At.KEY and char == '"':
            self._key = None
            self._open(char, events)
            return
        following = {
            (_At.START, "{"): _At.KEY,
            (_At.KEY, "}"): _At.DONE,
            (_At.COLON, ":"): _At.VALUE,
            (_At.AFTER, ","): _At.KEY,
            (_At.AFTER, "}"): _At.DONE,
        }.get((self._at, char))
        if following is None:
            raise NoCall
        self._at = following
        if following is _At.DONE:
            self._end(events)

    def _open(self, char: str, events: list[Event]) -> None:
        self._at, self._value, self._text = _At.INSIDE, JsonValue(), []
        self._value.feed(char)
        self._take(char, events)

    def _take(self, char: str, events: list[Event]) -> None:
        """Arguments go out as they come, unless they are a string, which holds their JSON once more."""
        self._text.append(char)
        if self._is_arguments and self._name is not None and self._text[0] != '"':
            self._begin(events)
            events.append(CallArguments(char))

    def _close(self, events: list[Event]) -> None:
        text = "".join(self._text)
        if self._key is None:
            self._key = _string(text)
            self._at = _At.COLON
            return
        self._at = _At.AFTER
        if self._key == "name":
            self._name = _string(text)
            if self._known is not None and self._name not in self._known:
                raise NoCall
        elif self._is_arguments:
            self._given = True
            if not self.begun:
                self._early = _string(text) if text[0] == '"' else text
        if self._early is not None and self._name is not None and not self.begun:
            self._begin(events)
            events.append(CallArguments(self._early))

    def _begin(self, events: list[Event]) -> None:
        if not self.begun and self._name is not None:
            self.begun = True
            events.append(CallBegins(self._name))

    def _end(self, events: list[Event]) -> None:
        """A call without arguments; a JSON object that only has a name is one where the text was marked as a call."""
        if self.begun:
            return
        if self._name is None or self._known is not None:
            raise NoCall
        self._begin(events)
        events.append(CallArguments("{}"))


class ArgumentsReader:
    """Reads the arguments alone, of a call whose name stood before them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._value = JsonValue()
        self.begun = False

    @property
    def done(self) -> bool:
        return self._value.done

    @property
    def in_string(self) -> bool:
        return self._value.in_string

    def feed(self, char: str, events: list[Event]) -> None:
        self._value.feed(char)
        if not self.begun:
            self.begun = True
            events.append(CallBegins(self._name))
        events.append(CallArguments(char))


def _string(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise NoCall from error
    if not isinstance(value, str):
        raise NoCall
    return value
