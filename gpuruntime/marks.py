"""What a door says of its tokens between the frames of a stream, so that another door can go on with the answer.

    data: {...}            the frames of one step of one choice
    :ids 0 1204 88         which tokens they were made of: a comment, so it is nothing to whoever does not ask
    data: {...}
    :ids 1 913 stop        the last ones of that choice

A gateway gives a client what stands in front of a mark, all of it or nothing, and keeps the marks. They are all that
another door needs beside the request itself: it reads the tokens again, writes nothing of them, and stands where the
first door stood, with whatever that held back (part of a character, of a stop string, of a tool call).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MARK = b":ids "


@dataclass(slots=True)
class Begun:
    """What a client has of one choice: its tokens, and why it ended if it did."""

    tokens: list[int] = field(default_factory=list)
    finish_reason: str | None = None


def mark(choice: int, tokens: Sequence[int], finish_reason: str | None = None) -> bytes:
    """A choice's next tokens, with their event's end."""
    if finish_reason is None and len(tokens) == 1:
        return b":ids %d %d\n\n" % (choice, tokens[0])
    words = [str(choice), *map(str, tokens), *([finish_reason] if finish_reason else [])]
    return MARK + " ".join(words).encode() + b"\n\n"


def read_marks(marks: bytes) -> dict[int, Begun]:
    """By choice what ``marks``, a line each, say together. Raises ``ValueError``."""
    found: dict[int, Begun] = {}
    for line in marks.decode().splitlines():
        choice, *words = line.removeprefix(MARK.decode()).split()
        begun = found.setdefault(int(choice), Begun())
        if begun.finish_reason is not None:
            raise ValueError(f"choice {choice} goes on behind its end")
        if words and not words[-1].isdigit():
            begun.finish_reason = words.pop()
        begun.tokens += map(int, words)
    return found
