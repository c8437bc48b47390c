"""What a generated text turns out to be, piece by piece."""

from __future__ import annotations

from typing import NamedTuple


class Content(NamedTuple):
    text: str


class Reasoning(NamedTuple):
    """What the model thought aloud before it answered."""

    text: str


class CallBegins(NamedTuple):
    """The next tool call; the arguments that follow are its own."""

    name: str


class CallArguments(NamedTuple):
    """More of the last call's arguments: JSON as the model wrote it, which need not be valid."""

    text: str


Event = Content | Reasoning | CallBegins | CallArguments
